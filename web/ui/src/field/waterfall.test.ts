import { expect, test } from "vitest"
import { arrange } from "./layouts"
import { packed, paintPixels } from "./pixels"
import type { Scene } from "./raster"
import { codeOf } from "./steps"
import { fan, synthetic } from "./synthetic.test-data"
import { findTry, joinTries, nameTry, parseTry, ranIn, triesOf, type Tries } from "./tries"
import { fit } from "./view"
import { rowHeight, tryStates } from "./waterfall"

const outcomes = ["", "completed", "failed", "skipped", "cancelled", "timed_out", "waiting", "lost"]

/** made makes attempts of [step, number, queued, started, ended, backoff, outcome, worker, queue]; times count from 0, −1: not. */
function made(rows: [number, number, number, number, number, number, string, number, number][]): Tries {
  const wide = (at: number, plus = 0) => Uint32Array.from(rows, (r) => (r[at] as number) + plus)
  return {
    version: 1, n: rows.length, began: 1_700_000_000_000, outcomes, workers: ["", "w1", "w2"], queues: ["", "slow"], index: wide(0), attempt: wide(1), queued: wide(2, 1), started: wide(3, 1), ended: wide(4, 1), backoff: wide(5),
    outcome: Uint8Array.from(rows, (r) => outcomes.indexOf(r[6])), worker: Uint16Array.from(rows, (r) => r[7]), queue: Uint16Array.from(rows, (r) => r[8]),
  }
}

const steps = synthetic(3)
const tries = made([[0, 1, 0, 10, 110, 0, "completed", 1, 0], [1, 1, 100, 150, 200, 1000, "failed", 1, 1], [2, 1, 100, 160, 260, 0, "completed", 2, 0], [1, 2, 1200, 1210, 1300, 0, "lost", 2, 1], [1, 3, 1300, 1400, -1, 0, "", 1, 1]])
const state = (l: ReturnType<typeof arrange>, k: number) => tryStates[l.spans!.state[k]!]

test("attempts of a step lie in its row, with the time in which they were queued before and the backoff behind", () => {
  const l = arrange(steps, { kind: "waterfall", rows: "step", now: steps.began + 2000 }, tries)
  expect([...l.y].map((y) => Math.floor(y / rowHeight))).toEqual([0, 1, 2, 1, 1])
  expect([l.x[1], l.spans!.run[1], l.spans!.rest[1]]).toEqual([100, 150, 200])
  expect(l.x[1]! + l.w[1]!).toBeCloseTo(l.x[3]!, 3) // the backoff ends where the next attempt is queued
  expect([0, 1, 2, 3, 4].map((k) => state(l, k))).toEqual(["completed", "failed", "completed", "lost", "running"])
  expect([...l.spans!.last]).toEqual([1, 0, 1, 0, 1])
  expect([...l.spans!.step]).toEqual([0, 1, 2, 1, 1])
})

test("rows of workers have what ran there at the same time below each other, those of queues what waited too", () => {
  const busy = made([[0, 1, 0, 0, 100, 0, "completed", 1, 0], [1, 1, 0, 50, 150, 0, "completed", 1, 0], [2, 1, 0, 160, 200, 0, "completed", 2, 0]])
  const w = arrange(steps, { kind: "waterfall", rows: "worker", now: 0 }, busy)
  expect(w.spans!.lanes.map((l) => l.name)).toEqual(["w1", "w2"])
  expect(w.y[1]! - w.y[0]!).toBe(rowHeight)
  expect(w.y[2]!).toBeGreaterThan(w.spans!.lanes[1]!.y)
  expect(w.x[1]).toBe(w.spans!.run[1]) // no worker's time is what it was queued
  const q = arrange(steps, { kind: "waterfall", rows: "queue", now: steps.began + 2000 }, tries)
  expect(q.spans!.lanes.map((l) => l.name)).toEqual(["default", "slow"])
  const p = arrange(steps, { kind: "waterfall", rows: "packed", now: 0 }, busy)
  expect([...p.y].map((y) => Math.floor(y / rowHeight))).toEqual([0, 1, 0])
  // Whatever lies in the same row does not overlap.
  for (const l of [w, q, p]) for (let a = 0; a < l.n; a++) for (let b = a + 1; b < l.n; b++) if (l.y[a] === l.y[b]) expect(l.x[a]! + l.w[a]! <= l.x[b]! + 0.6 || l.x[b]! + l.w[b]! <= l.x[a]! + 0.6).toBe(true)
})

test("a step that waits for what nobody knows the end of waits until now, and only its last attempt", () => {
  const s = synthetic(3)
  s.status[1] = codeOf(s, "waiting")
  const t = made([[1, 1, 0, 10, 20, 300, "waiting", 1, 0], [1, 1, -1, 320, 330, 0, "waiting", 1, 0], [2, 1, 0, 10, 20, 0, "waiting", 1, 0]])
  const l = arrange(s, { kind: "waterfall", rows: "step", now: s.began + 2000 }, t)
  expect([0, 1, 2].map((k) => state(l, k))).toEqual(["waiting", "waiting", "waiting"])
  expect([0, 1, 2].map((k) => l.x[k]! + l.w[k]! > l.spans!.rest[k]!)).toEqual([true, true, false])
  expect(arrange(s, { kind: "waterfall", rows: "worker", now: s.began + 2000 }, t).w[1]).toBeLessThan(20)
})

test("a moment of the past has no later attempt, and what had not ended", () => {
  const l = arrange(steps, { kind: "waterfall", rows: "step", now: steps.began + 180, past: true }, tries)
  expect([...l.w].map((w) => w > 0)).toEqual([true, true, true, false, false])
  expect([0, 1, 2].map((k) => state(l, k))).toEqual(["completed", "running", "running"])
  const before = arrange(steps, { kind: "waterfall", rows: "step", now: steps.began + 120, past: true }, tries)
  expect([state(before, 1), state(before, 2)]).toEqual(["queued", "queued"])
})

test("without the attempts each step that has started has one", () => {
  const s = synthetic(3)
  s.start.set([1, 101, 0])
  s.duration.set([50, 60, 0])
  s.status[1] = codeOf(s, "running")
  const t = triesOf(s)
  expect([t.n, ...t.started, ...t.ended]).toEqual([2, 1, 101, 51, 0])
  const l = arrange(s, { kind: "waterfall", rows: "packed", now: s.began + 500 })
  expect(l.spans!.known).toBe(false)
  expect(l.w[1]).toBe(400)
})

test("names of attempts, and which steps ran in a time", () => {
  const t = made([[7, 1, 0, 0, 1, 0, "waiting", 1, 0], [7, 1, 5, 5, 9, 0, "failed", 1, 0], [7, 2, 20, 20, 30, 0, "completed", 1, 0], [3, 1, 0, -1, -1, 0, "", 0, 0]])
  expect([0, 1, 2].map((k) => nameTry(t, k))).toEqual(["1", "1.2", "2"])
  expect(["1", "1.2", "2", undefined, "9"].map((name) => findTry(t, 7, name))).toEqual([0, 1, 2, 2, 2])
  expect([findTry(t, 4, undefined), parseTry("x"), parseTry("0"), parseTry("3.2")]).toEqual([-1, undefined, undefined, { number: 3, part: 2 }])
  expect([...ranIn(t, 8, 10, 25)].flatMap((v, i) => (v ? [i] : []))).toEqual([7])
  expect([...ranIn(t, 8, 10, 15)]).not.toContain(1)
})

test("tables of attempts are joined, each with its own lists of names", () => {
  const table = (columns: Record<string, number[]>, head: object) => ({ header: { version: 3, rows: 1, from: 0, total: 2, columns: [], outcomes, ...head }, column: (name: string) => (columns[name] ? Uint32Array.from(columns[name]) : undefined) })
  const t = joinTries([table({ index: [5], worker: [1], queue: [0], queued: [9] }, { workers: ["", "w2"], queues: [""] }), table({ index: [6], worker: [1], queue: [1] }, { workers: ["", "w1"], queues: ["", "slow"] })])
  expect([[...t.index], [...t.queued], [...t.worker].map((w) => t.workers[w]), [...t.queue].map((q) => t.queues[q])]).toEqual([[5, 6], [9, 0], ["w2", "w1"], ["", "slow"]])
})

test("one failed attempt among 100,000 that run has 3 × 3 pixels at least, wherever it lies", () => {
  const s = fan(100_000)
  const shown = triesOf(s)
  const [width, height] = [800, 450]
  for (const rows of ["packed", "step", "worker", "queue"] as const) {
    for (const one of rows === "step" ? [54_321] : [0, 99_999]) {
      const t = { ...shown, outcome: new Uint8Array(shown.n).fill(0), ended: new Uint32Array(shown.ended) }
      t.outcome[one] = outcomes.indexOf("failed")
      const l = arrange(s, { kind: "waterfall", rows, now: s.began + 200_000 }, { ...t, outcomes })
      const view = fit(l.index.bounds, width, height, true, 0.02)
      // Also where it is cut off by the edge of the picture.
      for (const dx of [0, (l.index.bounds[2] - l.index.bounds[0]) / 2]) {
        const out = new Uint32Array(width * height)
        const scene: Scene = { layout: l, status: l.spans!.state }
        paintPixels(out, width, height, scene, { ...view, x: view.x + dx }, { fill: tryStates.map((x) => (x === "failed" ? "#ff0000" : x === "absent" ? undefined : "#00ff00")), loud: tryStates.map((x) => (x === "failed" ? 2 : x === "running" ? 1 : 0)), ground: "#ffffff" }, 3)
        const red = packed("#ff0000")
        const n = out.reduce((sum, p) => sum + (p === red ? 1 : 0), 0)
        if (dx === 0) expect(n, `${rows} ${one}`).toBeGreaterThanOrEqual(9)
        else expect(n === 0 || n >= 9, `${rows} ${one} at the edge: ${n}`).toBe(true)
      }
    }
  }
}, 60_000)
