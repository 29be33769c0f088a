// The partitions of a pipeline as a grid, which of them a backfill would make, and the command that does it. Pure.
import type { Schemas } from "../../api/client"
import type { State } from "../../states"

/** Table is the API's; a parameter without values has an empty list. */
export type Table = Omit<Schemas["Table"], "axes"> & { axes: string[][] }
export type PartitionState = Schemas["Partition"]["state"]

/** The states in the order in which they are counted, with their letters in a table's grid and the mark by which each is shown. */
export const partitionStates: { state: PartitionState; letter: string; mark: State }[] = [
  { state: "done", letter: "d", mark: "completed" },
  { state: "stale", letter: "s", mark: "retrying" },
  { state: "failed", letter: "f", mark: "failed" },
  { state: "running", letter: "r", mark: "running" },
  { state: "missing", letter: ".", mark: "pending" },
]

/** lookAt is what a letter of a grid stands for. */
export const lookAt = (letter: string) => partitionStates.find((s) => s.letter === letter) ?? partitionStates[4]!

/** Plan says where each partition stands: rows and columns with their names, and the partition at a place (-1: there is none). */
export interface Plan {
  rows: number
  columns: number
  rowName: (row: number) => string
  columnName: (column: number) => string
  at: (row: number, column: number) => number
  place: (at: number) => [row: number, column: number]
}

// A calendar of one parameter is folded: hours into days, days into months, months and weeks into years.
const folds = [/^(.+)(T\d\d)$/, /^(\d{4}-\d\d)-(\d\d)$/, /^(\d{4})-(\d\d)$/, /^(\d{4})-(W\d\d)$/]

/** planOf arranges partitions: the values of the last parameter are columns, the combinations of the others rows. */
export function planOf(axes: string[][]): Plan {
  const only = axes.length === 1 ? axes[0]! : []
  const fold = only.length > 1 ? folds.find((f) => f.test(only[0]!) && f.test(only.at(-1)!) && only.every((v) => f.test(v))) : undefined
  if (fold) return folded(only, fold)
  if (axes.length === 1) return { rows: only.length, columns: 1, rowName: (r) => only[r]!, columnName: () => "", at: (r) => r, place: (at) => [at, 0] }
  const last = axes.at(-1)!
  const columns = last.length
  const rest = axes.slice(0, -1)
  return {
    rows: columns === 0 ? 0 : rest.reduce((n, values) => n * values.length, 1),
    columns,
    rowName: (r) => valuesAt(rest, r).join(" · "),
    columnName: (c) => last[c]!,
    at: (r, c) => r * columns + c,
    place: (at) => [Math.floor(at / columns), at % columns],
  }
}

function folded(values: string[], fold: RegExp): Plan {
  const rows = new Map<string, number>()
  const columns = new Map<string, number>()
  const parts = values.map((v) => fold.exec(v)!)
  for (const name of parts.map((m) => m[2]!).sort()) if (!columns.has(name)) columns.set(name, columns.size)
  for (const m of parts) if (!rows.has(m[1]!)) rows.set(m[1]!, rows.size)
  const width = columns.size
  const places = parts.map((m) => rows.get(m[1]!)! * width + columns.get(m[2]!)!)
  const found = new Int32Array(rows.size * width).fill(-1)
  places.forEach((place, at) => { found[place] = at })
  const [rowNames, columnNames] = [[...rows.keys()], [...columns.keys()]]
  return {
    rows: rows.size,
    columns: width,
    rowName: (r) => rowNames[r]!,
    columnName: (c) => columnNames[c]!.replace(/^T/, ""),
    at: (r, c) => found[r * width + c] ?? -1,
    place: (at) => [Math.floor(places[at]! / width), places[at]! % width],
  }
}

/** valuesAt are the values of the partition at a place of the grid. */
export function valuesAt(axes: string[][], at: number): string[] {
  const values: string[] = new Array(axes.length)
  for (let k = axes.length - 1; k >= 0; k--) {
    const n = Math.max(1, axes[k]!.length)
    values[k] = axes[k]![at % n] ?? ""
    at = Math.floor(at / n)
  }
  return values
}

/** keyAt is the name of the partition at a place of the grid, as the API takes it. */
export const keyAt = (axes: string[][], at: number) => valuesAt(axes, at).map(encodeURIComponent).join("/")

/** placeOf is the place of a partition in the grid; -1: there is none of this name. */
export function placeOf(axes: string[][], key: string): number {
  const parts = key.split("/")
  if (key === "" || parts.length !== axes.length) return -1
  let at = 0
  for (const [k, part] of parts.entries()) {
    let value: string
    try { value = decodeURIComponent(part) } catch { return -1 }
    const i = axes[k]!.indexOf(value)
    if (i < 0) return -1
    at = at * axes[k]!.length + i
  }
  return at
}

/** nextIn is the next partition in one of some states, around the end; -1: there is none. */
export function nextIn(grid: string, states: readonly string[], from: number, by: 1 | -1): number {
  const letters = new Set(partitionStates.filter((s) => states.includes(s.state)).map((s) => s.letter))
  for (let n = 1; n <= grid.length; n++) {
    const at = (((from + by * n) % grid.length) + grid.length) % grid.length
    if (letters.has(grid[at]!)) return at
  }
  return -1
}

/** readOnly reads the values that somebody typed for a parameter, with commas between them; "" stands for all. Wrong: the first that it has not. */
export function readOnly(text: string, values: string[]): { values: string[]; wrong?: string } {
  const whole = text.trim()
  if (whole === "") return { values: [] }
  if (values.includes(whole)) return { values: [whole] }
  const parts = whole.split(",").map((v) => v.trim()).filter(Boolean)
  const wrong = parts.find((v) => !values.includes(v))
  return { values: [...new Set(parts)], ...(wrong === undefined ? {} : { wrong }) }
}

/** wanted are the partitions that a backfill makes: how many there are, and the first of them, up to a number. */
export function wanted(t: Pick<Table, "axes" | "grid">, states: readonly string[], only: string[][], most: number): { count: number; first: number[] } {
  const letters = new Set(partitionStates.filter((s) => states.includes(s.state)).map((s) => s.letter))
  const sets = only.map((values) => (values.length ? new Set(values) : undefined))
  const out = { count: 0, first: [] as number[] }
  for (let at = 0; at < t.grid.length; at++) {
    if (!letters.has(t.grid[at]!)) continue
    if (sets.some(Boolean) && !valuesAt(t.axes, at).every((v, k) => sets[k]?.has(v) ?? true)) continue
    if (out.count++ < most) out.first.push(at)
  }
  return out
}

const quote = (text: string) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`)

/** How a backfill is wanted. */
export interface Wish {
  name: string
  by: string[]
  states: readonly string[]
  only: string[][]
  params: Record<string, unknown>
  /** Names of parameters whose values are left to variables of the shell. */
  secrets: string[]
  parallel: number
  server: string
}

/** commandOf is the command line that does it. */
export function commandOf(w: Wish): string {
  const words = ["stepwell backfill", quote(w.name), ...w.states.map((s) => `--${s}`)]
  w.only.forEach((values, k) => { for (const v of values) words.push("--only", quote(`${w.by[k]}=${v}`)) })
  for (const [name, value] of Object.entries(w.params)) {
    if (w.secrets.includes(name)) words.push("-p", `${quote(name)}="$${name.toUpperCase().replace(/\W/g, "_")}"`)
    else words.push("-p", quote(`${name}=${typeof value === "string" ? value : JSON.stringify(value)}`))
  }
  words.push("--max-parallel", String(w.parallel), "--server", quote(w.server))
  return words.join(" ")
}
