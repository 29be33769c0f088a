import { expect, test } from "vitest"
import { merged } from "./merge"

const base = "a\nb\nc\nd\ne\n"

test.each([
  ["only one changed", base, "a\nb\nC\nd\ne\n", "a\nb\nC\nd\ne\n"],
  ["other lines", "A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\n", "A\nb\nc\nd\nE\n"],
  ["the other way round", "a\nb\nc\nd\nE\n", "A\nb\nc\nd\ne\n", "A\nb\nc\nd\nE\n"],
  ["the same change", "A\nb\nc\nd\ne\n", "A\nb\nc\nd\ne\n", "A\nb\nc\nd\ne\n"],
  ["the same line", "A\nb\nc\nd\ne\n", "AA\nb\nc\nd\ne\n", undefined],
  ["lines that touch", "a\nB\nc\nd\ne\n", "a\nb\nC\nd\ne\n", undefined],
  ["one adds, one removes elsewhere", "a\nx\nb\nc\nd\ne\n", "a\nb\nc\nd\n", "a\nx\nb\nc\nd\n"],
])("%s", (_, theirs, mine, want) => expect(merged(base, theirs, mine)).toBe(want))
