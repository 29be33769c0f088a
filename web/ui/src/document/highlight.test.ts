import { expect, test } from "vitest"
import { diffKind, partsOf } from "./highlight"

test("the parts of a line are the line, and are what they are", () => {
  const lines = ["# all", 'name: hello # why', '  - {name: who, type: string, default: "a: b", n: 12, on: true}', '    message: "Hello, {{ params.who }}"', '"key": [1.5, "x"]', "", "  url: http://a#b", "x".repeat(3000)]
  for (const line of lines) expect(partsOf(line).map((p) => p.text).join("")).toBe(line)
  expect(partsOf("name: hello # why")).toEqual([{ text: "name", kind: "key" }, { text: ": hello ", kind: "" }, { text: "# why", kind: "comment" }])
  expect(partsOf('n: 12').at(-1)).toEqual({ text: "12", kind: "number" })
  expect(partsOf("m: {{ a }}").at(-1)).toEqual({ text: "{{ a }}", kind: "template" })
  expect(partsOf("  url: http://a#b").some((p) => p.kind === "comment")).toBe(false)
})

test("lines of a diff", () => {
  expect(["+a", "-b", " c", "@@ -1 +1 @@", "+++ x"].map(diffKind)).toEqual(["added", "removed", "", "place", "place"])
})
