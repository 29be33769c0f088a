import { expect, test } from "vitest"
import { csvOf, daysBetween } from "./csv"

test("values with commas, quotes and lines are quoted; formulas become texts; numbers stay", () => {
  expect(csvOf(["a", "b"], [["x,y", 1], ['say "no"', "two\nlines"], ["=1+1", "-3.5"], ["-x", "@y"], ["", "0.004"]])).toBe('a,b\r\n"x,y",1\r\n"say ""no""","two\nlines"\r\n\'=1+1,-3.5\r\n\'-x,\'@y\r\n,0.004\r\n')
})

test("days of a range", () => {
  expect(daysBetween("2026-02-27T00:00:00Z", "2026-03-02T00:00:00Z")).toEqual(["2026-02-27", "2026-02-28", "2026-03-01"])
  expect(daysBetween("2026-03-02T00:00:00Z", "2026-03-02T00:00:00Z")).toEqual([])
})
