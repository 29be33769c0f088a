// All attempts of an execution's steps as arrays, in the order in which they were queued. Pure.
import type { Table } from "./columns"
import { codeOf, type Steps } from "./steps"

export interface Tries {
  version: number
  n: number
  /** Milliseconds since 1970 from which the times count. */
  began: number
  outcomes: string[]
  workers: string[]
  queues: string[]
  /** Of the step. */
  index: Uint32Array
  /** The number of the attempt, from 1 on. */
  attempt: Uint32Array
  /** Milliseconds after began, plus 1; 0: not. */
  queued: Uint32Array
  started: Uint32Array
  ended: Uint32Array
  /** Milliseconds after its end until the step went on, or will; 0: none. */
  backoff: Uint32Array
  outcome: Uint8Array
  worker: Uint16Array
  queue: Uint16Array
}

/** joinTries makes one of the tables of successive attempts. */
export function joinTries(tables: Table[]): Tries {
  const head = tables[0]!.header
  const n = tables.reduce((sum, t) => sum + t.header.rows, 0)
  const wide = (name: string) => {
    const out = new Uint32Array(n)
    let at = 0
    for (const t of tables) {
      const values = t.column(name)
      if (values) out.set(values.subarray(0, t.header.rows), at)
      at += t.header.rows
    }
    return out
  }
  const workers: string[] = [""]
  const queues: string[] = [""]
  const listed = (name: string, of: (t: Table) => string[], all: string[]) => {
    const out = new Uint16Array(n)
    let at = 0
    for (const t of tables) {
      const place = of(t).map((x) => {
        if (!all.includes(x)) all.push(x)
        return all.indexOf(x)
      })
      const values = t.column(name)
      for (let row = 0; row < t.header.rows; row++) out[at++] = place[values?.[row] ?? 0] ?? 0
    }
    return out
  }
  return {
    version: Math.min(...tables.map((t) => t.header.version)), n, began: head.began ?? 0, outcomes: head.outcomes ?? [""], workers, queues,
    index: wide("index"), attempt: wide("attempt"), queued: wide("queued"), started: wide("started"), ended: wide("ended"), backoff: wide("backoff"),
    outcome: Uint8Array.from(wide("outcome")), worker: listed("worker", (t) => t.header.workers ?? [""], workers), queue: listed("queue", (t) => t.header.queues ?? [""], queues),
  }
}

/** triesOf is one attempt of each step that has started: what is known without the attempts. */
export function triesOf(steps: Steps): Tries {
  const absent = codeOf(steps, "absent")
  const shown: number[] = []
  const inner = new Uint8Array(steps.n)
  for (let i = 0; i < steps.n; i++) if (steps.parent[i]) inner[steps.parent[i]! - 1] = 1
  for (let i = 0; i < steps.n; i++) if (steps.start[i] && steps.status[i] !== absent && !inner[i]) shown.push(i)
  const outcomes = ["", "completed", "failed", "skipped", "cancelled", "timed_out"]
  const code = steps.states.map((s) => Math.max(0, outcomes.indexOf(s)))
  const index = Uint32Array.from(shown)
  const started = index.map((i) => steps.start[i]!)
  const outcome = Uint8Array.from(index, (i) => code[steps.status[i]!]!)
  return {
    version: steps.version, n: index.length, began: steps.began, outcomes, workers: steps.workers, queues: [""], index, attempt: index.map((i) => steps.attempt[i]!), queued: started, started,
    ended: index.map((i, k) => (outcome[k] ? steps.start[i]! + steps.duration[i]! : 0)), backoff: new Uint32Array(index.length), outcome,
    worker: Uint16Array.from(index, (i) => steps.worker[i]!), queue: new Uint16Array(index.length),
  }
}

/** ranIn marks the steps of which an attempt ran at some moment from one time to another, in milliseconds after began. One that has not ended
 * runs still. */
export function ranIn(t: Tries, n: number, from: number, to: number): Uint8Array {
  const mark = new Uint8Array(n)
  for (let k = 0; k < t.n; k++) {
    if (!t.started[k] || t.started[k]! - 1 > to || (t.ended[k] && t.ended[k]! - 1 < from)) continue
    if (t.index[k]! < n) mark[t.index[k]!] = 1
  }
  return mark
}

/** nameTry writes an attempt for an address: its number, and which part of it if it has several, because it waited and went on. */
export function nameTry(t: Tries, row: number): string {
  let part = 1
  for (let k = 0; k < row; k++) if (t.index[k] === t.index[row] && t.attempt[k] === t.attempt[row]) part++
  return part > 1 ? `${t.attempt[row]}.${part}` : `${t.attempt[row]}`
}

/** parseTry reads such a name. */
export function parseTry(text: string | undefined): { number: number; part: number } | undefined {
  const m = /^([1-9]\d{0,6})(?:\.([1-9]\d{0,6}))?$/.exec(text ?? "")
  return m ? { number: Number(m[1]), part: Number(m[2] ?? 1) } : undefined
}

/** findTry is the row of an attempt of a step; without a name of its last one. −1: it has none. */
export function findTry(t: Tries, index: number, name: string | undefined): number {
  const wanted = parseTry(name)
  let [part, last] = [0, -1]
  for (let k = 0; k < t.n; k++) {
    if (t.index[k] !== index) continue
    last = k
    if (wanted && t.attempt[k] === wanted.number && ++part === wanted.part) return k
  }
  return last
}
