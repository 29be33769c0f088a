import { expect, test } from "vitest"
import { joinPages } from "../../api/pages"
import { canCancel, canRetry, queryOf } from "./query"

test("the address becomes a query; what it does not know is left out", () => {
  expect(queryOf({ status: "failed,nonsense,running", pipeline: "p" }, 0)).toMatchObject({ status: ["failed", "running"], pipeline: "p", from: undefined })
  expect([queryOf({ warned: "1" }, 0).warned, queryOf({ warned: "no" }, 0).warned, queryOf({}, 0).warned]).toEqual([true, undefined, undefined])
  const at = Date.parse("2026-11-28T10:00:59Z")
  expect(queryOf({ range: "1h", from: "2020-01-01" }, at)).toMatchObject({ from: "2026-11-28T09:00:00.000Z", to: undefined })
  expect(queryOf({ from: "2026-11-28T10:00:00Z", to: "no date" }, at)).toMatchObject({ from: "2026-11-28T10:00:00.000Z", to: undefined })
})

test("what can be cancelled cannot be retried", () => {
  for (const status of ["pending", "running", "paused", "cancelling", "completed", "failed", "timed_out", "completed_with_failures", "cancelled"] as const) {
    expect(canCancel({ status }) && canRetry({ status }), status).toBe(false)
  }
  expect(canRetry({ status: "completed" })).toBe(false)
  expect(canCancel({ status: "running" })).toBe(true)
})

test("pages are joined without rows twice; those that left the first page's range by no longer matching go", () => {
  const o = { id: (n: number) => String(n), order: (a: number, b: number) => b - a }
  expect(joinPages([9, 8, 6], true, [7, 6, 5, 4], o)).toEqual([9, 8, 6, 5, 4])
  expect(joinPages([9, 8], false, [5, 4], o)).toEqual([9, 8])
  expect(joinPages([1, 2], true, [2, 3, 3], { id: String })).toEqual([1, 2, 3])
})
