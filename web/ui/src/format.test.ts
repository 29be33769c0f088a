import { expect, test } from "vitest"
import { formatAgo, formatBytes, formatCount, formatDuration, shortID } from "./format"

test("durations", () => {
  for (const [seconds, text] of [[0, "0.00 s"], [0.044, "0.04 s"], [3.25, "3.3 s"], [59.94, "59.9 s"], [59.96, "1:00"], [65, "1:05"], [7384, "2:03:04"], [273_600, "3 d 4 h"], [-1, "0.00 s"], [null, "–"], [NaN, "–"]] as const) {
    expect(formatDuration(seconds)).toBe(text)
  }
})

test("moments told by their distance", () => {
  const now = 1_000_000_000_000
  for (const [seconds, text] of [[0, "now"], [-30, "30 s ago"], [-240, "4 min ago"], [7200, "in 2 h"], [-400_000, "4 d ago"]] as const) {
    expect(formatAgo(now + seconds * 1000, now)).toBe(text)
  }
})

test("counts and sizes", () => {
  for (const n of [0, 7, 999, 1000, 61_204, 999_999, 1_000_000, 1_234_567_890, -4_321, 1234.5]) expect(formatCount(n)).toBe(n.toLocaleString("en-US"))
  expect([formatBytes(999), formatBytes(2300), formatBytes(14_000_000)]).toEqual(["999 B", "2.3 KB", "14 MB"])
})

test("an id is shortened only if it is long", () => {
  expect(shortID("01a22804-00c3-75a4-ba9d-308c8bb969a7")).toBe("01a22804…69a7")
  expect(shortID("geography")).toBe("geography")
})
