// Where the steps of an execution are drawn. All layouts fill the same arrays; a step that a layout does not show has no width. Pure.
import { codeOf, type Steps } from "./steps"
import { indexOf, type Boxes, type Index } from "./pick"
import { arrangeGraph } from "./compound"
import type { Tries } from "./tries"
import { arrangeTries, type Rows, type Spans } from "./waterfall"

export type Spec = { kind: "graph" } | { kind: "waterfall"; rows: Rows; /** The moment that is shown, in milliseconds since 1970. */ now: number; past?: boolean } | { kind: "fan"; parent: number }

/** Gap is idle time that a waterfall leaves out: where it is drawn, and the milliseconds that it begins at and takes. */
export interface Gap { x: number; width: number; at: number; takes: number }

export interface Layout extends Boxes {
  /** Steps that others are inside of: drawn as frames. */
  frames: Uint32Array
  index: Index
  gaps: Gap[]
  /** Of attempts: the boxes are not steps. */
  spans?: Spans
}

/** arrange makes a layout. Time and memory are linear in steps and edges, but for the sorting of those that are out of order. */
export function arrange(steps: Steps, spec: Spec, tries?: Tries): Layout {
  if (spec.kind === "waterfall") return arrangeTries(steps, tries, spec.rows, spec.now, spec.past)
  const boxes: Boxes = { n: steps.n, x: new Float32Array(steps.n), y: new Float32Array(steps.n), w: new Float32Array(steps.n), h: new Float32Array(steps.n) }
  const frames = containersOf(steps)
  if (spec.kind === "fan") arrangeFan(steps, boxes, spec.parent)
  if (spec.kind === "graph") arrangeGraph(steps, boxes)
  return { ...boxes, frames: spec.kind === "fan" ? new Uint32Array(0) : frames, index: indexOf(boxes), gaps: [] }
}

/** containersOf lists the steps that others are inside of. */
export function containersOf(steps: Steps): Uint32Array {
  const has = new Uint8Array(steps.n)
  for (let i = 0; i < steps.n; i++) if (steps.parent[i]) has[steps.parent[i]! - 1] = 1
  const out: number[] = []
  for (let i = 0; i < steps.n; i++) if (has[i]) out.push(i)
  return Uint32Array.from(out)
}

/** folder maps time to x, with long times in which nothing runs drawn short: such that take more than a twelfth of the busy time. */
export function folder(shown: number[], start: (i: number) => number, end: (i: number) => number) {
  let busy = 0
  let until = -1
  const idle: { at: number; takes: number }[] = []
  for (const i of shown) {
    const s = start(i)
    const e = end(i)
    if (until < 0) until = s
    if (s > until) idle.push({ at: until, takes: s - until })
    busy += Math.max(0, e - Math.max(s, until))
    until = Math.max(until, e)
  }
  const short = Math.max(200, busy / 40)
  const gaps: Gap[] = []
  let saved = 0
  for (const g of idle) {
    if (g.takes < Math.max(1000, busy / 12) || g.takes <= short * 2) continue
    gaps.push({ x: g.at - saved, width: short, ...g })
    saved += g.takes - short
  }
  const x = (t: number) => {
    let [low, high] = [0, gaps.length] // the gaps that begin before t
    while (low < high) {
      const mid = (low + high) >> 1
      if (gaps[mid]!.at < t) low = mid + 1
      else high = mid
    }
    if (low === 0) return t
    const g = gaps[low - 1]!
    return g.x + Math.min(1, (t - g.at) / g.takes) * g.width + Math.max(0, t - g.at - g.takes)
  }
  return { gaps, x }
}

/** momentOf is the time in milliseconds that lies at an x of a waterfall. */
export function momentOf(gaps: Gap[], x: number): number {
  let t = x
  for (const g of gaps) {
    if (x <= g.x) break
    const part = Math.min(1, (x - g.x) / g.width)
    t += part * (g.takes - g.width)
  }
  return t
}

/** placeOf is the x of a waterfall at which a time lies. */
export function placeOf(gaps: Gap[], t: number): number {
  let x = t
  for (const g of gaps) {
    if (t <= g.at) break
    x -= Math.min(1, (t - g.at) / g.takes) * (g.takes - g.width)
  }
  return x
}

/** cell is the side of a cell of a fan, with its margin. */
export const cell = 12

function arrangeFan(steps: Steps, b: Boxes, parent: number) {
  const shown = insideOf(steps, parent)
  const columns = Math.max(1, Math.ceil(Math.sqrt(shown.length * 2)))
  shown.forEach((i, k) => {
    b.x[i] = (k % columns) * cell
    b.y[i] = Math.floor(k / columns) * cell
    b.w[i] = b.h[i] = cell - 2
  })
}

/** insideOf lists the steps directly inside another one, in the order of its input; of −1 all that have nothing inside. */
export function insideOf(steps: Steps, parent: number): number[] {
  const absent = codeOf(steps, "absent")
  const frames = parent < 0 ? new Set(containersOf(steps)) : undefined
  const out: number[] = []
  for (let i = 0; i < steps.n; i++) {
    if (steps.status[i] === absent || (frames ? frames.has(i) : steps.parent[i] !== parent + 1)) continue
    out.push(i)
  }
  if (frames) return out
  const order = (p: number, q: number) => steps.layer[p]! - steps.layer[q]! || steps.pos[p]! - steps.pos[q]! || p - q
  for (let k = 1; k < out.length; k++) if (order(out[k - 1]!, out[k]!) > 0) return out.sort(order) // they nearly always are in order
  return out
}

/** histogram counts durations in buckets of equal ratio. */
export function histogram(steps: Steps, shown: number[], buckets = 40): { counts: number[]; least: number; most: number } {
  let [least, most] = [Infinity, 0]
  for (const i of shown) {
    const d = steps.duration[i]!
    if (!steps.start[i] || !d) continue
    least = Math.min(least, d)
    most = Math.max(most, d)
  }
  const counts = new Array<number>(buckets).fill(0)
  if (most === 0) return { counts: [], least: 0, most: 0 }
  const scale = Math.log((most + 1) / least) || 1
  for (const i of shown) {
    const d = steps.duration[i]!
    if (steps.start[i] && d) counts[Math.min(buckets - 1, Math.floor((Math.log(d / least) / scale) * buckets))]!++
  }
  return { counts, least, most }
}
