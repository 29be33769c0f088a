import { expect, test } from "vitest"
import { critical, related } from "./paths"
import { synthetic } from "./synthetic.test-data"
import type { Steps } from "./steps"

/** made makes steps of [dependencies, parent (−1: none), start, duration]. */
function made(list: [number[], number, number, number][]): Steps {
  const s = synthetic(list.length)
  const edges: number[] = []
  list.forEach(([deps, parent, start, duration], i) => {
    edges.push(...deps)
    s.first[i + 1] = edges.length
    s.parent[i] = parent + 1
    s.start[i] = start
    s.duration[i] = duration
  })
  return { ...s, edges: Uint32Array.from(edges) }
}

const from = (n: number, i: number) => Uint8Array.from({ length: n }, (_, k) => (k === i ? 1 : 0))
const marked = (m: Uint8Array) => [...m.keys()].filter((i) => m[i])

// 0 → 1 (with 4 → 5 inside) → 2, and 0 → 3 → 2; 6 stands alone.
const steps = made([[[], -1, 1, 10], [[0], -1, 11, 40], [[1, 3], -1, 51, 10], [[0], -1, 11, 5], [[], 1, 11, 10], [[4], 1, 21, 30], [[], -1, 1, 2]])

test("up and down follow the edges, through what a step is inside of, and take in what is inside", () => {
  expect(marked(related(steps, from(7, 2), "up"))).toEqual([0, 1, 2, 3, 4, 5])
  expect(marked(related(steps, from(7, 3), "up"))).toEqual([0, 3])
  expect(marked(related(steps, from(7, 5), "up"))).toEqual([0, 4, 5])
  expect(marked(related(steps, from(7, 4), "down"))).toEqual([2, 4, 5])
  expect(marked(related(steps, from(7, 0), "down"))).toEqual([0, 1, 2, 3, 4, 5])
  expect(marked(related(steps, from(7, -1), "up"))).toEqual([])
})

test("the critical path is what was waited for the longest, inside too", () => {
  expect(marked(critical(steps))).toEqual([0, 1, 2, 4, 5])
  expect(marked(critical(made([])))).toEqual([])
})

test("circles end, and 200,000 steps in a row need no stack", () => {
  expect(marked(related(made([[[1], -1, 1, 1], [[0], -1, 1, 1]]), from(2, 0), "up"))).toEqual([0, 1])
  const row = made(Array.from({ length: 200_000 }, (_, i): [number[], number, number, number] => [i > 0 ? [i - 1] : [], -1, 1 + i, 1]))
  expect(marked(related(row, from(200_000, 199_999), "up")).length).toBe(200_000)
  expect(marked(critical(row)).length).toBe(200_000)
})
