// The changes of an execution's steps, folded into the states after any of its commits. Pure.
import type { Table, Values } from "../field/columns"
import type { Steps } from "../field/steps"

/** States are the columns of steps that change. */
export interface States { status: Uint8Array; attempt: Uint8Array; start: Uint32Array; duration: Uint32Array }

const between = 16_384 // changes between two keyframes, and as many as there are steps at least: so they take no more memory than the changes
const long = 65_535 // a dt that is in gap

/** Replay holds the changes. Each part of them is added once, in order. */
export class Replay {
  /** The version up to which changes are there. */
  version = 0
  /** How many changes are there, and how many the server has. */
  count = 0
  total = 0
  /** Indexes of steps. */
  steps = 0
  states: string[] = []
  private index = new Uint32Array(0)
  private versions = new Uint32Array(0)
  private times = new Float64Array(0) // ms since 1970
  private after: States = statesOf(0) // of each change
  private first: States = statesOf(0) // before all of them
  private keyframes: { at: number; states: States }[] = []

  /** add adds the changes of a table. It throws where they do not follow those that are there. */
  add(table: Table) {
    const h = table.header
    const column = (name: string): Values => {
      const values = table.column(name)
      if (!values || values.length < h.rows) throw new Error(`these are no changes: the column ${name} is missing or short`)
      return values
    }
    if (h.from !== this.count) throw new Error(`these changes begin at ${h.from}, ${this.count} are there`)
    this.begin(table)
    this.grow(this.count + h.rows)
    const [index, versions, dt] = [column("index"), column("version"), column("dt")]
    const gap = table.column("gap") ?? new Uint32Array(0)
    let time = h.at ?? 0
    for (let k = 0, g = 0; k < h.rows; k++) {
      if (dt[k] === long) {
        time += (gap[g] ?? 0) + (gap[g + 1] ?? 0) * 2 ** 32
        g += 2
      } else time += dt[k]!
      this.times[this.count + k] = time
    }
    let most = 0
    for (let k = 0; k < h.rows; k++) if (index[k]! >= most) most = index[k]! + 1
    this.widen(most)
    this.index.set(index.subarray(0, h.rows), this.count)
    this.versions.set(versions.subarray(0, h.rows), this.count)
    for (const name of ["status", "attempt", "start", "duration"] as const) this.after[name].set(column(name).subarray(0, h.rows), this.count)
    this.count += h.rows
    this.total = h.total
    this.version = this.count >= h.total ? h.version : (this.versions[this.count - 1] ?? 0)
  }

  /** at gives the states after the commit with a version. Its cost is that of the steps. */
  at(version: number): States {
    const to = this.changesUntil(version)
    const every = Math.max(between, this.steps)
    // Keyframes are made where they are first needed.
    while (this.keyframes.length <= Math.floor(to / every)) {
      const last = this.keyframes.at(-1)
      this.keyframes.push(last ? { at: last.at + every, states: this.fold(last.states, last.at, last.at + every) } : { at: 0, states: this.first })
    }
    const key = this.keyframes[Math.floor(to / every)]!
    return this.fold(key.states, key.at, to)
  }

  /** changesUntil counts the changes up to a version. */
  changesUntil(version: number): number { return above(this.versions, this.count, version) }

  /** timeOf is when the last change up to a version was committed, in milliseconds since 1970. */
  timeOf(version: number): number { return this.times[Math.max(0, this.changesUntil(version) - 1)] ?? 0 }

  /** next is when the first change behind a version was committed; undefined: there is none. */
  next(version: number): number | undefined {
    const at = this.changesUntil(version)
    return at < this.count ? this.times[at] : undefined
  }

  /** versionAt is the version of the last change up to a time; behind the last change, the last version. */
  versionAt(time: number): number {
    const at = above(this.times, this.count, time)
    return at === this.count ? this.version : at === 0 ? 1 : this.versions[at - 1]!
  }

  /** show gives steps as they were: what has changed is that of the version, places and edges are those that are known now. */
  show(now: Steps, version: number): Steps {
    const then = this.at(version)
    const absent = now.states.indexOf("absent")
    const code = this.states.map((s) => Math.max(0, now.states.indexOf(s)))
    const same = code.every((c, i) => c === i)
    const out = statesOf(now.n)
    const n = Math.min(now.n, this.steps)
    out.status.fill(absent, n)
    for (const name of ["status", "attempt", "start", "duration"] as const) out[name].set(then[name].subarray(0, n))
    if (!same) for (let i = 0; i < n; i++) out.status[i] = code[out.status[i]!] ?? absent
    return { ...now, ...out, version, at: this.timeOf(version) }
  }

  private fold(from: States, first: number, to: number): States {
    const out = { status: from.status.slice(), attempt: from.attempt.slice(), start: from.start.slice(), duration: from.duration.slice() }
    const { index, after } = this
    for (let e = first; e < to; e++) {
      const i = index[e]!
      out.status[i] = after.status[e]!
      out.attempt[i] = after.attempt[e]!
      out.start[i] = after.start[e]!
      out.duration[i] = after.duration[e]!
    }
    return out
  }

  private begin(table: Table) {
    const [status, attempt, start, duration] = ["at_status", "at_attempt", "at_start", "at_duration"].map((name) => table.column(name))
    if (this.states.length > 0) {
      if (status) this.widen(status.length)
      return
    }
    if (!status || !attempt || !start || !duration) throw new Error("these are no changes: the states before the first of them are missing")
    this.states = table.header.states ?? []
    this.steps = status.length
    this.first = statesOf(this.steps)
    this.first.status.set(status)
    this.first.attempt.set(attempt)
    this.first.start.set(start)
    this.first.duration.set(duration)
  }

  // widen makes room for steps that were added meanwhile: absent until they change.
  private widen(steps: number) {
    if (steps <= this.steps) return
    if (steps > 1 << 24) throw new Error(`these are no changes: one is of step ${steps}`)
    const wide = statesOf(steps)
    wide.status.fill(this.states.indexOf("absent"), this.steps)
    for (const name of ["status", "attempt", "start", "duration"] as const) wide[name].set(this.first[name])
    this.first = wide
    this.steps = steps
    this.keyframes = []
  }

  private grow(count: number) {
    if (count <= this.index.length) return
    const room = Math.max(count, 2 * this.index.length)
    const bigger = <T extends Values | Float64Array>(old: T, made: T): T => { made.set(old as never); return made }
    this.index = bigger(this.index, new Uint32Array(room))
    this.versions = bigger(this.versions, new Uint32Array(room))
    this.times = bigger(this.times, new Float64Array(room))
    const wide = statesOf(room)
    for (const name of ["status", "attempt", "start", "duration"] as const) wide[name].set(this.after[name])
    this.after = wide
  }
}

const statesOf = (n: number): States => ({ status: new Uint8Array(n), attempt: new Uint8Array(n), start: new Uint32Array(n), duration: new Uint32Array(n) })

// above counts the first values of a sorted list that are not above one.
function above(list: Uint32Array | Float64Array, n: number, value: number): number {
  let [low, high] = [0, n]
  while (low < high) {
    const middle = (low + high) >> 1
    if (list[middle]! <= value) low = middle + 1
    else high = middle
  }
  return low
}
