import { expect, test } from "vitest"
import { depths, type Depths } from "./depth"

test("the depth of a queue keeps what changed, the highest points, and ten minutes", () => {
  let d: Depths | undefined
  for (const [t, n] of [[0, 0], [1, 0], [2, 5], [3, 5], [4, 0]] as const) d = depths(d, t * 1000, n)
  expect(d).toEqual({ from: 0, most: 5, at: [[0, 0], [2000, 5], [4000, 0]] })
  for (let i = 0; i < 5000; i++) d = depths(d, 5000 + i * 20, i === 2500 ? 99 : i % 2)
  expect(d!.at.length).toBeLessThanOrEqual(241)
  expect(d!.most).toBe(99)
  d = depths(d, 3_600_000, 1)
  d = depths(d, 3_600_001, 2)
  expect(d.from).toBe(3_600_001 - 600_000)
  expect(d.at.length).toBeLessThanOrEqual(4)
})
