import { expect, test } from "vitest"
import { dayKey, gridOf, timingWords } from "./timing"

test("every type of schedule has words", () => {
  expect(timingWords({ type: "interval", expression: "@every 30m" })).toBe("every 30m")
  expect(timingWords({ type: "after", after: { job_id: "a", on: "failure" } })).toBe("after a failed")
  expect(timingWords({ type: "cron", expression: "0 0 * * 5#2" })).toBe("0 0 * * 5#2")
})

test("a month is shown in whole weeks from Monday", () => {
  const grid = gridOf("month", new Date(2026, 10, 28))
  expect([dayKey(grid[0]!), dayKey(grid.at(-1)!), grid.length]).toEqual(["2026-10-26", "2026-12-06", 42])
  expect(gridOf("week", new Date(2026, 10, 29)).map(dayKey)[0]).toBe("2026-11-23")
  expect(gridOf("month", new Date(2027, 1, 10)).length).toBe(28)
})
