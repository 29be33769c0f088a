import { expect, test } from "vitest"
import { daysOf } from "./days"

test("every day of the range is there, and completed are those with failed items too", () => {
  const b = { from: "2026-11-27T00:00:00Z", ended: 10, completed: 5, completed_with_failures: 2, failed: 1, timed_out: 1, cost: "0.5", p95_seconds: 3 }
  expect(daysOf({ from: "2026-11-26T00:00:00Z", to: "2026-11-29T00:00:00Z", buckets: [b] })).toEqual([
    { day: "2026-11-26", ended: 0, completed: 0, withFailures: 0, bad: 0, cost: 0, p95: undefined },
    { day: "2026-11-27", ended: 10, completed: 7, withFailures: 2, bad: 2, cost: 0.5, p95: 3 },
    { day: "2026-11-28", ended: 0, completed: 0, withFailures: 0, bad: 0, cost: 0, p95: undefined },
  ])
})
