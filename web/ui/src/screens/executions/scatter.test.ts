import { expect, test } from "vitest"
import type { Execution } from "./query"
import { nearest, scatter } from "./scatter"

const row = (id: string, at: number, seconds?: number) => ({ execution_id: id, pipeline: "p", status: "completed", created_at: new Date(at).toISOString(), started_at: new Date(at).toISOString(), completed_at: seconds === undefined ? null : new Date(at + seconds * 1000).toISOString() }) as unknown as Execution

test("points stand by time and by ratio of durations; what has not ended has none", () => {
  const s = scatter([row("c", 3_000_000, 100), row("b", 2_000_000, 10), row("a", 1_000_000, 1), row("running", 2_500_000)])
  expect(s.points.map((p) => [p.id, p.x, Number(p.y.toFixed(6))])).toEqual([["c", 1, 1], ["b", 0.5, 0.5], ["a", 0, 0]])
  expect([s.least, s.most, s.left]).toEqual([1, 100, 0])
  expect(nearest(s.points, 0.5, 0.5, 1000, 100)?.id).toBe("b")
  expect(nearest(s.points, 0.45, 0.5, 1000, 100)).toBeUndefined()
})

test("one alone stands in the middle, and thousands are bounded", () => {
  expect(scatter([row("a", 5, 3)]).points[0]).toMatchObject({ x: 0.5, y: 0.5 })
  const s = scatter(Array.from({ length: 2_500 }, (_, i) => row(String(i), i, 1 + i)))
  expect([s.points.length, s.left]).toEqual([2_000, 500])
})
