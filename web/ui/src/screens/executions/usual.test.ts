import { expect, test } from "vitest"
import { barOf, usualOf } from "./usual"

test("what is usual is known of stored pipelines of which some completed", () => {
  expect([...usualOf([{ pipeline_id: "a", p50_seconds: 1, p95_seconds: 4 }, { pipeline_id: "", p50_seconds: 1, p95_seconds: 2 }, { pipeline_id: "b" }])]).toEqual([["a", { p50: 1, p95: 4 }]])
})

test("a duration stands before, in or behind the usual span, and never outside of the bar", () => {
  expect(barOf({ p50: 1, p95: 4 }, 2)).toEqual({ from: 12.5, to: 50, at: 25, late: false })
  expect(barOf({ p50: 1, p95: 4 }, 100)).toEqual({ from: 12.5, to: 50, at: 100, late: true })
  expect(barOf({ p50: 0, p95: 0 }, 0)).toEqual({ from: 0, to: 0, at: 0, late: false })
})
