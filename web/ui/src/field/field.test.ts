import { expect, test } from "vitest"
import { decode } from "./columns"
import { arrange, histogram, insideOf, momentOf } from "./layouts"
import { at, inside } from "./pick"
import { packed, paintPixels } from "./pixels"
import type { Scene } from "./raster"
import { codeOf, countStates, join, nextIn, patch, select } from "./steps"
import { fan, layered, states, synthetic } from "./synthetic.test-data"
import { fit, formatView, pan, parseView, reveal, zoom } from "./view"
import { neighbour } from "./walk"

type Column = { name: string; type: "u8" | "u16" | "u32"; values: number[] }

function table(header: object, columns: Column[]): ArrayBuffer {
  const aligned = (n: number) => Math.ceil(n / 8) * 8
  const sizes = { u8: 1, u16: 2, u32: 4 }
  const head = new TextEncoder().encode(JSON.stringify({ ...header, columns: columns.map((c) => ({ name: c.name, type: c.type, length: c.values.length })) }))
  const out = new ArrayBuffer(columns.reduce((n, c) => n + aligned(c.values.length * sizes[c.type]), aligned(8 + head.length)))
  const view = new DataView(out)
  new Uint8Array(out).set(new TextEncoder().encode("SWC1"))
  view.setUint32(4, head.length, true)
  new Uint8Array(out, 8).set(head)
  let from = aligned(8 + head.length)
  for (const c of columns) {
    c.values.forEach((v, i) => (c.type === "u8" ? view.setUint8(from + i, v) : c.type === "u16" ? view.setUint16(from + 2 * i, v, true) : view.setUint32(from + 4 * i, v, true)))
    from += aligned(c.values.length * sizes[c.type])
  }
  return out
}

test("tables of columns are read, and joined with their edges", () => {
  const head = { version: 7, rows: 2, from: 0, total: 3, states: ["pending", "completed"], workers: ["", "w1"], began: 1000 }
  const first = decode(table(head, [{ name: "status", type: "u8", values: [1, 0] }, { name: "layer", type: "u16", values: [0, 300] }, { name: "degree", type: "u8", values: [0, 1] }, { name: "edges", type: "u32", values: [1] }, { name: "new", type: "u32", values: [9] }]))
  expect(Array.from(first.column("layer")!)).toEqual([0, 300])
  expect(first.column("nosuch")).toBeUndefined()
  // The last step depends on both, and on one that does not exist; the second distance is modulo 2³².
  const second = decode(table({ ...head, rows: 1, from: 2 }, [{ name: "status", type: "u8", values: [1] }, { name: "degree", type: "u8", values: [3] }, { name: "edges", type: "u32", values: [2, 1, 0xffffff00] }]))
  const steps = join([first, second])
  expect(Array.from(steps.status)).toEqual([1, 0, 1])
  expect(Array.from(steps.first)).toEqual([0, 0, 1, 3])
  expect(Array.from(steps.edges)).toEqual([0, 0, 1])
  expect(countStates(steps)).toEqual({ pending: 1, completed: 2 })
})

test("messages of changes are written into the steps, or say that everything is to be fetched again", () => {
  const steps = synthetic(3)
  const change = (o: object, index = [1], status = [6]) => decode(table({ version: 2, rows: index.length, from: 0, total: 3, began: steps.began, states, ...o }, [
    { name: "index", type: "u32", values: index }, { name: "status", type: "u8", values: status }, { name: "attempt", type: "u8", values: index.map(() => 3) },
    { name: "start", type: "u32", values: index.map(() => 10) }, { name: "duration", type: "u32", values: index.map(() => 20) },
  ]))
  expect(patch(steps, change({}))).toBe(true)
  expect([steps.version, steps.status[1], steps.attempt[1], steps.start[1], steps.duration[1]]).toEqual([2, 6, 3, 10, 20])
  expect(patch(steps, change({ version: 1 }, [1], [5]))).toBe(true)
  expect(steps.status[1]).toBe(6) // it was older
  // Another server's order of states.
  expect(patch(steps, change({ version: 3, states: ["waiting"] }, [0], [0]))).toBe(true)
  expect(states[steps.status[0]!]).toBe("waiting")
  for (const [o, index] of [[{ again: true }, []], [{ total: 4 }, [3]], [{ began: 1 }, [1]]] as const) expect(patch(steps, change({ version: 9, ...o }, [...index], index.map(() => 5)))).toBe(false)
  steps.status[2] = codeOf(steps, "absent")
  expect(patch(steps, change({ version: 9 }, [2], [1]))).toBe(false)
})

test("messages with places add steps, and give places to those that are known: as fetching all again does", () => {
  const whole = layered(5, 4)
  const [n, had] = [whole.n, 9]
  // What is known before: the first steps, of which one has no place yet.
  const columns = (index: number[], prefix = "") => {
    const of = (i: number) => Array.from(whole.edges.subarray(whole.first[i]!, whole.first[i + 1]!))
    return [
      { name: prefix + "parent", type: "u32", values: index.map((i) => whole.parent[i]!) }, { name: prefix + "layer", type: "u8", values: index.map((i) => whole.layer[i]!) }, { name: prefix + "pos", type: "u8", values: index.map((i) => whole.pos[i]!) },
      { name: prefix + "degree", type: "u8", values: index.map((i) => of(i).length) }, { name: prefix + "edges", type: "u32", values: index.flatMap((i) => of(i).map((d) => (i - d) >>> 0)) },
    ] as Column[]
  }
  const all = Array.from({ length: n }, (_, i) => i)
  const head = { from: 0, began: whole.began, states, workers: [""] }
  const steps = join([decode(table({ ...head, version: 1, rows: had, total: had }, [{ name: "status", type: "u8", values: all.slice(0, had).map((i) => (i === 6 ? states.indexOf("absent") : 5)) }, ...columns(all.slice(0, had).map((i) => (i === 6 ? 0 : i)))]))])
  const message = (version: number, total: number, index: number[], placed: number[]) => decode(table({ ...head, version, rows: index.length, total }, [
    { name: "index", type: "u32", values: index }, { name: "status", type: "u8", values: index.map(() => 5) }, { name: "attempt", type: "u8", values: index.map(() => 1) },
    { name: "start", type: "u32", values: index.map(() => 0) }, { name: "duration", type: "u32", values: index.map(() => 0) }, { name: "worker", type: "u8", values: index.map(() => 0) },
    { name: "place_index", type: "u32", values: placed }, ...columns(placed, "place_"),
  ]))
  expect(patch(steps, message(2, 12, [6, 10], [6, 10]))).toBe(true)
  expect([steps.n, states[steps.status[9]!], states[steps.status[11]!]]).toEqual([12, "absent", "absent"])
  expect(Array.from(steps.edges.subarray(steps.first[6]!, steps.first[7]!))).toEqual(Array.from(whole.edges.subarray(whole.first[6]!, whole.first[7]!)))
  expect(patch(steps, message(3, n, [9, 11, ...all.slice(12)], [9, 11, ...all.slice(12)]))).toBe(true)
  for (const name of ["status", "layer", "pos", "parent", "first", "edges"] as const) expect(Array.from(steps[name]), name).toEqual(Array.from(whole[name]))
  expect(patch(steps, message(4, n - 1, [], []))).toBe(false)
})

test("what is no table is refused", () => {
  const good = table({ version: 1, rows: 1, from: 0, total: 1 }, [{ name: "status", type: "u8", values: [1] }])
  expect(() => decode(new ArrayBuffer(3))).toThrow("SWC1")
  expect(() => decode(good.slice(0, good.byteLength - 8))).toThrow("cut off")
  const long = good.slice(0)
  new DataView(long).setUint32(4, 1 << 30, true)
  expect(() => decode(long)).toThrow("header")
})

// Leaves never overlap, and lie inside the steps around them.
function checked(l: ReturnType<typeof arrange>, parent: Uint32Array) {
  const outside: number[] = []
  for (let i = 0; i < l.n; i++) {
    const p = parent[i]! - 1
    if (l.w[i] === 0 || p < 0) continue
    if (!(l.x[i]! >= l.x[p]! && l.y[i]! >= l.y[p]! && l.x[i]! + l.w[i]! <= l.x[p]! + l.w[p]! + 1 && l.y[i]! + l.h[i]! <= l.y[p]! + l.h[p]! + 1)) outside.push(i)
  }
  expect(outside).toEqual([])
  const frames = new Set(l.frames)
  let compared = 0
  for (let i = 0; i < l.n; i += Math.max(1, Math.floor(l.n / 500))) {
    if (l.w[i] === 0 || frames.has(i)) continue
    const touching = inside(l, l.index, l.x[i]! + 0.1, l.y[i]! + 0.1, l.x[i]! + l.w[i]! - 0.1, l.y[i]! + l.h[i]! - 0.1).filter((k) => !frames.has(k))
    expect(touching).toEqual([i])
    compared++
  }
  expect(compared).toBeGreaterThan(100)
}

test("a graph of 100,000 iterations is as wide as a screen, with the iterations inside", () => {
  const steps = fan(100_000)
  const l = arrange(steps, { kind: "graph" })
  expect(Array.from(l.frames)).toEqual([1])
  checked(l, steps.parent)
  const [x0, y0, x1, y1] = l.index.bounds
  expect((x1 - x0) / (y1 - y0)).toBeGreaterThan(1)
  expect((x1 - x0) / (y1 - y0)).toBeLessThan(3)
})

test("layers lie from left to right", () => {
  const steps = layered(500, 200)
  const l = arrange(steps, { kind: "graph" })
  checked(l, steps.parent)
  const back: number[] = []
  for (let i = 0; i < steps.n; i++) for (let k = steps.first[i]!; k < steps.first[i + 1]!; k++) if (l.x[steps.edges[k]!]! + l.w[steps.edges[k]!]! >= l.x[i]!) back.push(i)
  expect(back).toEqual([])
})

test("steps inside each other in a circle, and absent ones, are not drawn", () => {
  const steps = synthetic(5)
  steps.parent[1] = 3
  steps.parent[2] = 2
  steps.status[3] = codeOf(steps, "absent")
  const l = arrange(steps, { kind: "graph" })
  expect(Array.from(l.w, (w) => w > 0)).toEqual([true, false, false, false, true])
})

test("a waterfall draws long idle times short, and knows the time of every place", () => {
  const steps = synthetic(3)
  steps.start.set([1, 2001, 1_000_001])
  steps.duration.set([1500, 3000, 2000])
  const l = arrange(steps, { kind: "waterfall", rows: "packed", now: steps.began })
  expect(l.gaps).toHaveLength(1)
  expect(l.gaps[0]).toMatchObject({ at: 5000, takes: 995_000 })
  expect(l.x[1]).toBe(2000)
  expect(l.x[2]! - 5000).toBeLessThan(1000)
  for (let i = 0; i < 3; i++) expect(Math.abs(momentOf(l.gaps, l.x[i]!) - (steps.start[i]! - 1))).toBeLessThan(1)
  // One that runs lasts until now.
  steps.status[2] = codeOf(steps, "running")
  const later = arrange(steps, { kind: "waterfall", rows: "step", now: steps.began + 1_010_000 })
  expect(Math.round(later.w[2]!)).toBe(10_000)
  expect(later.y[2]!).toBeGreaterThan(later.y[1]!)
})

test("a fan has the iterations in order of the input", () => {
  const steps = fan(100_000)
  steps.pos[3] = 99_999
  steps.pos[100_002] = 0
  const shown = insideOf(steps, 1)
  expect(shown).toHaveLength(100_000)
  expect([shown[0], shown.at(-1)]).toEqual([100_002, 3])
  const l = arrange(steps, { kind: "fan", parent: 1 })
  expect([l.x[100_002], l.y[100_002]]).toEqual([0, 0])
  expect(l.w[0]).toBe(0)
  const h = histogram(steps, shown)
  expect(h.counts.reduce((a, b) => a + b, 0)).toBe(100_000)
  expect([h.least, h.most]).toEqual([5, 44])
})

test("what is under the pointer is found as a plain scan finds it", () => {
  const steps = layered(300, 300)
  const l = arrange(steps, { kind: "graph" })
  let seed = 1
  const random = () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647
  let hits = 0
  for (let k = 0; k < 100; k++) {
    const [x, y] = [l.index.bounds[2] * random(), l.index.bounds[3] * random()]
    let want = -1
    for (let i = 0; i < l.n; i++) if (x >= l.x[i]! && x <= l.x[i]! + l.w[i]! && y >= l.y[i]! && y <= l.y[i]! + l.h[i]!) want = i
    expect(at(l, l.index, x, y, 0, 0)).toBe(want)
    if (want >= 0) hits++
  }
  expect(hits).toBeGreaterThan(10)
})

test("one failed step among 100,000 has 3 × 3 pixels at least, and nothing hides it", () => {
  const steps = fan(100_000)
  const failed = codeOf(steps, "failed")
  steps.status[54_321] = failed
  const l = arrange(steps, { kind: "graph" })
  const [width, height] = [800, 450]
  const view = fit(l.index.bounds, width, height, false)
  expect(30 * view.sy).toBeLessThan(1)
  const out = new Uint32Array(width * height)
  const scene: Scene = { layout: l, status: steps.status }
  paintPixels(out, width, height, scene, view, { fill: states.map((s) => (s === "failed" ? "#ff0000" : s === "absent" ? undefined : "#00ff00")), loud: states.map((s) => (s === "failed" ? 2 : s === "running" ? 1 : 0)), ground: "#ffffff" }, 3)
  const red = packed("#ff0000")
  expect(out.filter((p) => p === red)).toHaveLength(9)
  const first = out.indexOf(red)
  expect([first + 2, first + 2 * width, first + 2 * width + 2].map((i) => out[i])).toEqual([red, red, red])
  expect(nextIn(steps.status, states.map((s) => s === "failed"), 60_000, 1)).toBe(54_321)
  expect(nextIn(steps.status, states.map((s) => s === "waiting"), 0, -1)).toBe(-1)
  expect(Array.from(select(steps, (s) => s === "failed"))).toEqual([54_321])
})

test("views: what is under the pointer stays there, and an address keeps a view", () => {
  const v = { x: 10, y: 20, sx: 0.5, sy: 0.5 }
  const z = zoom(v, 3, 100, 50, "both", { least: 0.001, most: 10 })
  expect([z.x + 100 / z.sx, z.y + 50 / z.sy]).toEqual([210, 120])
  expect(z.sx).toBe(1.5)
  expect(zoom(v, 3, 100, 50, "x", { least: 0.001, most: 10 }).sy).toBe(0.5)
  expect(parseView(formatView(z))).toEqual({ x: expect.closeTo(z.x, 2), y: expect.closeTo(z.y, 2), sx: 1.5, sy: 1.5 })
  for (const bad of [undefined, "", "1,2,3", "1,2,0,1", "a,b,c,d"]) expect(parseView(bad)).toBeUndefined()
  const far = pan(v, -1e9, 1e9, [0, 0, 1000, 1000], 400, 300)
  expect(far.x).toBeLessThanOrEqual(1000)
  expect(far.y + 300 / far.sy).toBeGreaterThanOrEqual(0)
  const shown = reveal({ x: 0, y: 0, sx: 0.01, sy: 0.01 }, 5000, 9000, 144, 30, 800, 400)
  expect(30 * shown.sy).toBeCloseTo(16)
  expect((5000 - shown.x) * shown.sx).toBeGreaterThan(0)
  expect((5000 - shown.x) * shown.sx).toBeLessThan(800)
})

test("arrow keys walk along edges, and to the nearest step else", () => {
  const steps = layered(4, 3)
  const scene = { layout: arrange(steps, { kind: "graph" }), status: steps.status, first: steps.first, edges: steps.edges }
  expect(neighbour(scene, -1, 1, 0)).toBe(0)
  expect(neighbour(scene, 4, -1, 0)).toBe(1)
  expect(neighbour(scene, 4, 1, 0)).toBe(6)
  expect(neighbour(scene, 4, 0, 1)).toBe(5)
  expect(neighbour(scene, 4, 0, -1)).toBe(3)
  expect(neighbour(scene, 5, 0, 1)).toBe(-1)
})
