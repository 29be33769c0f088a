import { expect, test } from "vitest"
import type { Table, Values } from "../field/columns"
import { states, synthetic } from "../field/synthetic.test-data"
import { Replay } from "./replay"

interface Change { index: number; status: number; attempt: number; start: number; duration: number; version: number; dt: number }

const absent = states.indexOf("absent")

/** part is changes as the server sends them, with the states before the first of all. */
function part(all: Change[], from: number, to: number, o: { main: number; steps: number; version?: number; gap?: number[] }): Table {
  const rows = all.slice(from, to)
  const columns = new Map<string, Values>(
    (["index", "start", "duration", "version"] as const).map((name) => [name, Uint32Array.from(rows, (c) => c[name])] as [string, Values]).concat(
      (["status", "attempt"] as const).map((name) => [name, Uint8Array.from(rows, (c) => c[name])] as [string, Values]), [["dt", Uint16Array.from(rows, (c) => c.dt)], ["gap", Uint32Array.from(o.gap ?? [])]]),
  )
  if (from === 0) {
    columns.set("at_status", Uint8Array.from({ length: o.steps }, (_, i) => (i < o.main ? 0 : absent)))
    columns.set("at_attempt", new Uint8Array(o.steps))
    columns.set("at_start", new Uint32Array(o.steps))
    columns.set("at_duration", new Uint32Array(o.steps))
  }
  const at = 1_000_000 + all.slice(0, from).reduce((sum, c) => sum + c.dt, 0)
  return { header: { version: o.version ?? all.at(-1)!.version, rows: rows.length, from, total: all.length, columns: [], states, began: 1_000_000, at }, column: (name) => columns.get(name) }
}

// A small generator of numbers, so that a failure can be repeated.
function random(seed: number) {
  let s = seed
  return (below: number) => { s = (Math.imul(s, 1664525) + 1013904223) >>> 0; return s % below }
}

function history(n: number, steps: number): Change[] {
  const next = random(n)
  let version = 1
  return Array.from({ length: n }, () => ({ index: next(steps), status: next(states.length), attempt: next(4), start: next(9999), duration: next(9999), version: (version += next(3) === 0 ? 1 : 0), dt: next(5) }))
}

test("the states of any version are those of all changes up to it, in any order of asking, across parts and keyframes", () => {
  const [steps, main] = [5000, 10]
  const all = history(70_000, steps)
  const r = new Replay()
  for (let from = 0; from < all.length; from += 30_000) r.add(part(all, from, from + 30_000, { main, steps }))
  expect([r.count, r.version]).toEqual([70_000, all.at(-1)!.version])
  const next = random(7)
  const now = synthetic(steps)
  for (const version of [0, 1, r.version, ...Array.from({ length: 8 }, () => next(r.version + 1))]) {
    const want = Array.from({ length: steps }, (_, i) => [i < main ? 0 : absent, 0, 0, 0])
    for (const c of all) {
      if (c.version > version) break
      want[c.index] = [c.status, c.attempt, c.start, c.duration]
    }
    const got = r.show(now, version)
    expect(Array.from(got.status)).toEqual(want.map((w) => w[0]))
    expect(Array.from(got.attempt)).toEqual(want.map((w) => w[1]))
    expect(Array.from(got.start)).toEqual(want.map((w) => w[2]))
    expect(Array.from(got.duration)).toEqual(want.map((w) => w[3]))
    expect(got.version).toBe(version)
  }
})

test("times: of a version, of the next change, and back", () => {
  const change = (version: number, dt: number): Change => ({ index: 0, status: 1, attempt: 1, start: 1, duration: 0, version, dt })
  const all = [change(1, 0), change(2, 10), change(2, 0), change(5, 65_535), change(9, 7)]
  const r = new Replay()
  r.add(part(all, 0, 5, { main: 1, steps: 1, version: 11, gap: [5, 1] })) // 2³² + 5 ms
  const far = 1_000_010 + 2 ** 32 + 5
  expect([1, 2, 3, 5, 8, 9, 11].map((v) => r.timeOf(v))).toEqual([1_000_000, 1_000_010, 1_000_010, far, far, far + 7, far + 7])
  expect([r.next(2), r.next(9)]).toEqual([far, undefined])
  expect([0, 1_000_000, 1_000_009, 1_000_010, far, far + 8].map((t) => r.versionAt(t))).toEqual([1, 1, 1, 2, 5, 11])
})

test("steps that are added later are absent before; what does not follow is refused", () => {
  const all = [...history(100, 20), { index: 30, status: 2, attempt: 1, start: 5, duration: 0, version: 1000, dt: 1 }]
  const r = new Replay()
  r.add(part(all, 0, 100, { main: 20, steps: 20 }))
  expect(() => r.add(part(all, 50, 100, { main: 20, steps: 20 }))).toThrow("begin at 50")
  const before = Array.from(r.at(5).status)
  r.add(part(all, 100, 101, { main: 20, steps: 31 }))
  expect(Array.from(r.at(5).status)).toEqual([...before, ...Array.from({ length: 11 }, () => absent)])
  expect(r.at(1000).status[30]).toBe(2)
  expect(r.show(synthetic(40), 1000).status[35]).toBe(absent)
  expect(() => new Replay().add(part(all, 100, 101, { main: 20, steps: 31 }))).toThrow("begin at 100")
})
