// Attempts over time. Pure.
import { containersOf, folder, type Layout } from "./layouts"
import { indexOf } from "./pick"
import { codeOf, type Steps } from "./steps"
import { triesOf, type Tries } from "./tries"

/** rowsOf are the kinds of lanes: a row for each step; as few rows as possible; those of each worker; those of each queue. */
export const rowKinds = ["step", "worker", "queue", "packed"] as const
export type Rows = (typeof rowKinds)[number]

/** tryStates are the values of the state of a box. frame: a step that others are inside of, whose own state it has in status. */
export const tryStates = ["queued", "running", "completed", "failed", "skipped", "cancelled", "timed_out", "waiting", "lost", "absent"]
export const queuedCode = tryStates.indexOf("queued")
/** waitingCode is the state of an attempt that gave its worker back to wait: what is behind it is no backoff. */
export const waitingCode = tryStates.indexOf("waiting")

/** Lane is a group of rows with a name. */
export interface Lane { name: string; y: number; h: number }

/** Spans are what a layout of attempts has beside its boxes: one box an attempt, then one for each step that others are inside of. */
export interface Spans {
  /** Where a box's time on a worker begins and ends: before it was queued, behind it waits to go on: for its next attempt, or, in the state
   * waiting, for what it waits for. */
  run: Float32Array
  rest: Float32Array
  /** Index of the step of each box. */
  step: Uint32Array
  /** 1 + the attempt's row; 0: the box is a step that others are inside of. */
  row: Uint32Array
  state: Uint8Array
  /** The last box of its step. */
  last: Uint8Array
  lanes: Lane[]
  /** The rows are those of the attempts that were given; else each step has one that was made up from its state. */
  known: boolean
}

/** rowHeight is the height of a row of a waterfall. */
export const rowHeight = 24
const headHeight = 18

interface Span { q: number; s: number; e: number; end: number; state: number }

/** arrangeTries places attempts. Now is the moment that is shown, in milliseconds since 1970; if that is in the past, what is later is left
 * out. Time is linear in attempts, but for sorting. */
export function arrangeTries(steps: Steps, tries: Tries | undefined, rows: Rows, now: number, past = false): Layout {
  const t = tries ?? triesOf(steps)
  const moment = now - steps.began
  const until = past ? moment : Infinity
  const frames = Array.from(containersOf(steps)).filter((i) => steps.start[i] && steps.start[i]! - 1 <= until && steps.status[i] !== codeOf(steps, "absent"))
  const n = t.n + (rows === "step" ? frames.length : 0)
  const b = { n, x: new Float32Array(n), y: new Float32Array(n), w: new Float32Array(n), h: new Float32Array(n) }
  const spans: Spans = { run: new Float32Array(n), rest: new Float32Array(n), step: new Uint32Array(n), row: new Uint32Array(n), state: new Uint8Array(n).fill(tryStates.length - 1), last: new Uint8Array(n), lanes: [], known: tries !== undefined }
  const [q, s, e, end] = [new Float64Array(n), new Float64Array(n), new Float64Array(n), new Float64Array(n)]
  const shown: number[] = []
  const code = t.outcomes.map((o) => Math.max(1, tryStates.indexOf(o)))
  const latest = new Map<number, number>()
  const waits = rows === "step" || rows === "queue" // those are no worker's time
  for (let k = 0; k < t.n; k++) {
    if (t.index[k]! >= steps.n) continue
    const span = spanOf(t, k, moment, until, code)
    if (!span || (!waits && span.state === queuedCode)) continue
    spans.step[k] = t.index[k]!
    spans.row[k] = k + 1
    spans.state[k] = span.state
    ;[q[k], s[k], e[k], end[k]] = waits ? [span.q, span.s, span.e, span.end] : [span.s, span.s, span.e, span.e]
    latest.set(t.index[k]!, k)
    shown.push(k)
  }
  if (rows === "step") frames.forEach((i, f) => {
    const k = t.n + f
    const over = ends.has(steps.states[steps.status[i]!]!)
    spans.step[k] = i
    spans.state[k] = Math.max(1, tryStates.indexOf(steps.states[steps.status[i]!]!))
    q[k] = s[k] = steps.start[i]! - 1
    e[k] = end[k] = over ? s[k]! + steps.duration[i]! : Math.max(s[k]!, moment)
    latest.set(i, k)
    shown.push(k)
  })
  // A step that still waits is drawn as waiting until the moment that is shown.
  const still = codeOf(steps, "waiting")
  for (const [i, k] of latest) {
    spans.last[k] = 1
    if (waits && k < t.n && spans.state[k] === waitingCode && t.backoff[k] === 0 && steps.status[i] === still) end[k] = Math.max(end[k]!, moment)
  }
  const fold = folder(shown.filter((k) => k < t.n && spans.state[k] !== queuedCode).sort((x, y) => s[x]! - s[y]! || x - y), (k) => s[k]!, (k) => e[k]!)
  for (const k of shown) {
    b.x[k] = fold.x(q[k]!)
    spans.run[k] = fold.x(s[k]!)
    spans.rest[k] = Math.max(spans.run[k]! + (spans.state[k] === queuedCode ? 0 : 0.5), fold.x(e[k]!))
    b.w[k] = Math.max(0.5, fold.x(end[k]!) - b.x[k]!, spans.rest[k]! - b.x[k]!)
    b.h[k] = rowHeight - 6
  }
  shown.sort((x, y) => q[x]! - q[y]! || spans.step[x]! - spans.step[y]! || x - y)
  if (rows === "step") {
    const at = new Map<number, number>()
    for (const k of shown) {
      const step = spans.step[k]!
      if (!at.has(step)) at.set(step, at.size)
      b.y[k] = at.get(step)! * rowHeight + 3
    }
  } else spans.lanes = pack(shown, rows, t, q, end, b.y)
  return { ...b, frames: Uint32Array.from(frames.map((_, f) => t.n + f).filter((k) => k < n)), index: indexOf(b), gaps: fold.gaps, spans }
}

const ends = new Set(["completed", "failed", "skipped", "cancelled", "timed_out"])

// spanOf is an attempt as far as the moment that is shown; undefined: it comes later. What has not ended lasts until that moment.
function spanOf(t: Tries, k: number, moment: number, until: number, code: number[]): Span | undefined {
  const queued = t.queued[k] || t.started[k]
  if (!queued || queued - 1 > until) return undefined
  const q = queued - 1
  const started = t.started[k] && t.started[k]! - 1 <= until ? t.started[k]! - 1 : -1
  const ended = t.ended[k] && t.ended[k]! - 1 <= until ? t.ended[k]! - 1 : -1
  if (started < 0) { // it was only queued
    const left = ended < 0 ? Math.max(q, moment) : ended
    return { q, s: left, e: left, end: left, state: ended < 0 ? queuedCode : code[t.outcome[k]!]! }
  }
  const e = ended < 0 ? Math.max(started, moment) : Math.max(started, ended)
  return { q: Math.min(q, started), s: started, e, end: ended < 0 ? e : e + t.backoff[k]!, state: ended < 0 ? 1 : code[t.outcome[k]!]! }
}

// pack puts what does not overlap into the same row, for each worker or queue by itself.
function pack(shown: number[], rows: Rows, t: Tries, q: Float64Array, end: Float64Array, y: Float32Array): Lane[] {
  const groups = new Map<string, number[]>()
  for (const k of shown) {
    const name = rows === "worker" ? t.workers[t.worker[k]!] || "unknown worker" : rows === "queue" ? t.queues[t.queue[k]!] || "default" : ""
    const of = groups.get(name)
    if (of) of.push(k)
    else groups.set(name, [k])
  }
  const lanes: Lane[] = []
  let top = 0
  for (const name of [...groups.keys()].sort()) {
    const from = top
    if (name) top += headHeight
    const free = new Heap()
    let count = 0
    for (const k of groups.get(name)!) {
      const row = free.take(q[k]!) ?? count++
      free.add(end[k]!, row)
      y[k] = top + row * rowHeight + 3
    }
    top += Math.max(1, count) * rowHeight
    if (name) lanes.push({ name, y: from, h: top - from })
  }
  return lanes
}

// Heap has rows by when they become free.
class Heap {
  private items: { end: number; row: number }[] = []

  /** take is the row that has been free the longest at a time. */
  take(at: number): number | undefined {
    const first = this.items[0]
    if (!first || first.end > at) return undefined
    const last = this.items.pop()!
    if (this.items.length > 0) {
      this.items[0] = last
      this.sink()
    }
    return first.row
  }

  add(end: number, row: number) {
    let i = this.items.push({ end, row }) - 1
    while (i > 0) {
      const up = (i - 1) >> 1
      if (this.items[up]!.end <= this.items[i]!.end) return
      ;[this.items[up], this.items[i]] = [this.items[i]!, this.items[up]!]
      i = up
    }
  }

  private sink() {
    for (let i = 0; ;) {
      let least = 2 * i + 1
      if (least >= this.items.length) return
      if (least + 1 < this.items.length && this.items[least + 1]!.end < this.items[least]!.end) least++
      if (this.items[i]!.end <= this.items[least]!.end) return
      ;[this.items[least], this.items[i]] = [this.items[i]!, this.items[least]!]
      i = least
    }
  }
}
