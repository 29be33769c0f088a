import { expect, test } from "vitest"
import { readAs, shownAs } from "./FieldInput"

test.each([
  ["", "integer", undefined, undefined],
  ["5", "integer", 5, undefined],
  ["5.5", "integer", undefined, "a whole number"],
  ["x", "number", undefined, "a number, or an expression in {{ }}"],
  ["{{ params.n }}", "integer", "{{ params.n }}", undefined],
  ["true", "boolean", true, undefined],
  ["yes", "boolean", undefined, "true or false"],
  ["[1]", "array", [1], undefined],
  ["{}", "array", undefined, "a list: [1, 2]"],
  ["{", "object", undefined, 'an object in JSON: {"a": 1}'],
  ["null", "object", undefined, 'an object: {"a": 1}'],
  ["007", "string", "007", undefined],
  ["07:00", "any", "07:00", undefined],
] as const)("%s as %s", (text, type, value, wrong) => {
  expect(readAs(text, { type } as any)).toEqual({ ...(value !== undefined ? { value } : {}), ...(wrong ? { wrong } : {}) })
})

test("bounds", () => {
  expect(readAs("0", { type: "integer", min: 1 })).toEqual({ wrong: "at least 1" })
  expect(readAs("9", { type: "number", max: 5 })).toEqual({ wrong: "at most 5" })
})

test("what is shown is read as the same value", () => {
  for (const [value, type] of [["a", "string"], [3, "integer"], [true, "boolean"], [[1, { a: "b" }], "array"], [{ a: null }, "object"]] as const) {
    expect(readAs(shownAs(value), { type })).toEqual({ value })
  }
})
