// All steps of an execution as arrays, by index. Pure.
import type { Table, Values } from "./columns"

export interface Steps {
  version: number
  n: number
  /** Milliseconds since 1970 from which start counts. */
  began: number
  /** Milliseconds since 1970 that the steps show; undefined: now. */
  at?: number
  /** The names of the values of status. */
  states: string[]
  workers: string[]
  status: Uint8Array
  attempt: Uint8Array
  layer: Uint32Array
  pos: Uint32Array
  /** Milliseconds after began, plus 1; 0: not started. */
  start: Uint32Array
  /** Milliseconds; 0: not ended. */
  duration: Uint32Array
  /** Index of the step around it, plus 1; 0: none. */
  parent: Uint32Array
  worker: Uint16Array
  /** Step i depends on edges[first[i]] … edges[first[i + 1] - 1]. */
  first: Uint32Array
  edges: Uint32Array
}

/** join makes the steps of the tables of successive rows. A column that is missing is all zeros. */
export function join(tables: Table[]): Steps {
  const head = tables[0]!.header
  const n = tables.reduce((sum, t) => sum + t.header.rows, 0)
  const wide = (name: string) => gather(tables, name, new Uint32Array(n))
  const steps: Steps = {
    version: Math.min(...tables.map((t) => t.header.version)), n, began: head.began ?? 0, at: head.at, states: head.states ?? [], workers: tables.at(-1)!.header.workers ?? [],
    status: gather(tables, "status", new Uint8Array(n)), attempt: gather(tables, "attempt", new Uint8Array(n)), worker: gather(tables, "worker", new Uint16Array(n)),
    layer: wide("layer"), pos: wide("pos"), start: wide("start"), duration: wide("duration"), parent: wide("parent"),
    first: new Uint32Array(n + 1), edges: new Uint32Array(0),
  }
  connect(steps, tables)
  return steps
}

/** patch writes a message of changes into steps, in place; new steps are added. False: it cannot, they are to be fetched again, because
 * so much has changed, or the server does not say where new steps are. A message that is not newer changes nothing. */
export function patch(steps: Steps, table: Table): boolean {
  const h = table.header
  if (h.again || (h.began ?? steps.began) !== steps.began) return false
  if (h.version <= steps.version) return true
  const [index, status, attempt, start, duration] = ["index", "status", "attempt", "start", "duration"].map((c) => table.column(c))
  if (!index || !status || !attempt || !start || !duration) return false
  const n = Math.min(h.total, mostSteps)
  const placed = table.column("place_index")
  if (n < steps.n) return false
  if (!placed) {
    const absent = steps.states.indexOf("absent")
    if (n !== steps.n) return false
    for (let k = 0; k < index.length; k++) if (steps.status[index[k]!] === absent) return false // nobody knows yet what it is inside of
  }
  grow(steps, n)
  if (placed?.length) place(steps, table, placed)
  const code = (h.states ?? steps.states).map((s) => steps.states.indexOf(s))
  const worker = table.column("worker")
  for (let k = 0; k < index.length; k++) {
    const i = index[k]!
    if (i >= steps.n) continue
    steps.status[i] = code[status[k]!] ?? steps.status[i]!
    steps.attempt[i] = attempt[k]!
    steps.start[i] = start[k]!
    steps.duration[i] = duration[k]!
    if (worker) steps.worker[i] = worker[k]!
  }
  if (h.workers && h.workers.length !== steps.workers.length) steps.workers = h.workers
  steps.version = h.version
  return true
}

/** mostSteps is how many steps of an execution are shown. */
export const mostSteps = 1_000_000

const perStep = ["status", "attempt", "layer", "pos", "start", "duration", "parent", "worker"] as const

// grow adds steps of which nothing is known yet. Arrays get more room than they need, so that they are seldom copied.
function grow(steps: Steps, n: number) {
  const from = steps.n
  if (n === from) return
  for (const name of perStep) steps[name] = wider(steps[name], n) as never
  steps.first = wider(steps.first, n + 1)
  steps.status.fill(steps.states.indexOf("absent"), from)
  steps.first.fill(steps.first[from]!, from + 1)
  steps.n = n
}

function wider<T extends Values>(old: T, n: number): T {
  const Kind = old.constructor as { new (b: ArrayBuffer, at: number, n: number): T; BYTES_PER_ELEMENT: number }
  if (old.byteOffset === 0 && old.buffer.byteLength >= n * Kind.BYTES_PER_ELEMENT) {
    const out = new Kind(old.buffer as ArrayBuffer, 0, n)
    out.fill(0, old.length)
    return out
  }
  const out = new Kind(new ArrayBuffer(Math.ceil(n * 1.5) * Kind.BYTES_PER_ELEMENT), 0, n)
  out.set(old as never)
  return out
}

// place writes where steps are; their indexes ascend.
function place(steps: Steps, table: Table, index: Values) {
  const [parent, layer, pos, degree, distance] = ["parent", "layer", "pos", "degree", "edges"].map((c) => table.column("place_" + c) ?? new Uint32Array(index.length)) as [Values, Values, Values, Values, Values]
  let moves = false
  let total = 0
  for (let k = 0; k < index.length; k++) {
    const i = index[k]!
    total += degree[k]!
    if (i >= steps.n) continue
    steps.parent[i] = parent[k]!
    steps.layer[i] = layer[k]!
    steps.pos[i] = pos[k]!
    moves ||= degree[k]! > 0 || steps.first[i] !== steps.first[i + 1]
  }
  if (!moves) return
  // The edges of the steps between those that are placed move on by as many as came before them.
  const edges = new Uint32Array(steps.edges.length + total)
  const first = new Uint32Array(steps.first.length)
  let [at, next, read] = [0, 0, 0]
  const keep = (to: number) => {
    const [a, b] = [steps.first[next]!, steps.first[to]!]
    edges.set(steps.edges.subarray(a, b), at)
    for (let i = next; i < to; i++) first[i] = steps.first[i]! - a + at
    at += b - a
  }
  for (let k = 0; k < index.length; k++) {
    const i = index[k]!
    if (i >= steps.n) break
    keep(i)
    first[i] = at
    for (let d = degree[k]!; d > 0; d--) {
      const to = (i - distance[read++]!) >>> 0
      if (to < steps.n && to !== i) edges[at++] = to
    }
    next = i + 1
  }
  keep(steps.n)
  first[steps.n] = at
  steps.first = first
  steps.edges = edges.subarray(0, at)
}

function gather<T extends Values>(tables: Table[], name: string, into: T): T {
  let at = 0
  for (const t of tables) {
    const values = t.column(name)
    if (values) into.set(values.subarray(0, t.header.rows), at)
    at += t.header.rows
  }
  return into
}

// connect turns degrees and distances into indexes; edges that lead nowhere are left out.
function connect(steps: Steps, tables: Table[]) {
  let total = 0
  for (const t of tables) total += t.column("edges")?.length ?? 0
  const edges = new Uint32Array(total)
  let at = 0
  let i = 0
  for (const t of tables) {
    const degree = t.column("degree")
    const distance = t.column("edges")
    let from = 0
    for (let row = 0; row < t.header.rows; row++, i++) {
      steps.first[i] = at
      for (let k = degree?.[row] ?? 0; k > 0 && distance && from < distance.length; k--) {
        const to = (i - distance[from++]!) >>> 0
        if (to < steps.n && to !== i) edges[at++] = to
      }
    }
  }
  steps.first[steps.n] = at
  steps.edges = edges.subarray(0, at)
}

/** codeOf is the value of a status; -1 if no step can have it. */
export const codeOf = (steps: Pick<Steps, "states">, state: string) => steps.states.indexOf(state)

/** countStates counts the steps by state; those that are absent are not counted. */
export function countStates(steps: Pick<Steps, "states" | "status">): Record<string, number> {
  const counts = new Uint32Array(256)
  for (const s of steps.status) counts[s]!++
  const out: Record<string, number> = {}
  steps.states.forEach((name, i) => { if (counts[i] && name !== "absent") out[name] = counts[i]! })
  return out
}

/** nextIn finds the next step whose status is one of some, in a direction, from an index on, round and round; -1: there is none. */
export function nextIn(status: Uint8Array, wanted: boolean[], from: number, by: 1 | -1): number {
  const n = status.length
  let i = from
  for (let k = 0; k < n; k++) {
    i += by
    if (i >= n) i = 0
    if (i < 0) i = n - 1
    if (wanted[status[i]!]) return i
  }
  return -1
}

/** select lists the steps whose status is one of some, in order of index; absent ones never. */
export function select(steps: Steps, wanted: (state: string) => boolean): Uint32Array {
  const ok = steps.states.map((s) => s !== "absent" && wanted(s))
  const out = new Uint32Array(steps.n)
  let at = 0
  for (let i = 0; i < steps.n; i++) if (ok[steps.status[i]!]) out[at++] = i
  return out.subarray(0, at)
}
