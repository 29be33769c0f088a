import { expect, test } from "vitest"
import { filled } from "./Templates"

test("values become the defaults of their parameters; every other byte stays", () => {
  const text = "# why\nparameters:\n  - {name: a, type: integer, default: 1}   # one\n  - name: b\n    type: string\nsteps: []\n"
  expect(filled(text, { a: 2, b: "x y" })).toBe("# why\nparameters:\n  - {name: a, type: integer, default: 2}   # one\n  - name: b\n    type: string\n    default: x y\nsteps: []\n")
  expect(filled(text, { a: 1, nosuch: 3 })).toBe(text)
})
