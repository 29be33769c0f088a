import { expect, test } from "vitest"
import { costSince, timesOf } from "./days"

const b = { from: "2026-11-27T00:00:00Z", ended: 10, completed: 5, completed_with_failures: 2, failed: 1, timed_out: 1, cost: "0.5", p50_seconds: 2, p95_seconds: 3 }

test("every day of the range is there, and completed are those with failed items too", () => {
  expect(timesOf({ bucket: "day", from: "2026-11-26T00:00:00Z", to: "2026-11-29T00:00:00Z", buckets: [b] })).toEqual([
    { at: "2026-11-26", ended: 0, completed: 0, withFailures: 0, bad: 0, cost: 0, p50: undefined, p95: undefined },
    { at: "2026-11-27", ended: 10, completed: 7, withFailures: 2, bad: 2, cost: 0.5, p50: 2, p95: 3 },
    { at: "2026-11-28", ended: 0, completed: 0, withFailures: 0, bad: 0, cost: 0, p50: undefined, p95: undefined },
  ])
})

test("hours and minutes are cut as the server counts them", () => {
  expect(timesOf({ bucket: "hour", from: "2026-11-26T20:00:00Z", to: "2026-11-27T01:00:00Z", buckets: [b] }).map((t) => t.ended)).toEqual([0, 0, 0, 0, 10])
  expect(timesOf({ bucket: "minute", from: "2026-11-26T23:58:00Z", to: "2026-11-27T00:02:00Z", buckets: [b] }).map((t) => t.ended)).toEqual([0, 0, 10, 0])
})

test("the cost of today is that of the hours since midnight", () => {
  const hours = [b, { ...b, from: "2026-11-27T13:00:00Z", cost: "0.25" }, { ...b, from: "2026-11-26T23:00:00Z", cost: "8" }]
  expect(costSince(hours, Date.parse("2026-11-27T00:00:00Z"))).toBe(0.75)
  expect(costSince(hours, Date.parse("2026-11-27T12:30:00Z"))).toBe(0.25)
})
