import { expect, test } from "vitest"
import { parametersOf, textOf, valueOf, valuesOf } from "./params"

test("parameters are read from YAML and JSON; required follows from the default", async () => {
  const yaml = "name: a\nparameters:\n  - {name: who, type: string, default: world, enum: [world, moon]}\n  - {name: n, type: integer}\n  - nonsense\nsteps: []\n"
  const found = await parametersOf(yaml)
  expect(found).toEqual([
    { name: "who", type: "string", description: "", required: false, secret: false, default: "world", enum: ["world", "moon"] },
    { name: "n", type: "integer", description: "", required: true, secret: false },
  ])
  expect(await parametersOf(JSON.stringify({ parameters: [{ name: "k", secret: true, required: false }] }))).toEqual([{ name: "k", type: "any", description: "", required: false, secret: true }])
  expect(await parametersOf("just text")).toEqual([])
})

test("values have their types, and what is wrong is said", () => {
  const of = (type: string, text: string) => valueOf({ type, required: true }, text)
  expect(of("integer", " 12 ")).toEqual({ value: 12 })
  expect(of("integer", "1.5").problem).toContain("whole number")
  expect(of("integer", "9007199254740993").problem).toContain("too large")
  expect(of("number", "1e3")).toEqual({ value: 1000 })
  expect(of("boolean", "false")).toEqual({ value: false })
  expect(of("array", '["a"]')).toEqual({ value: ["a"] })
  expect(of("array", "{}").problem).toContain("list")
  expect(of("object", "[").problem).toContain("JSON")
  expect(of("any", "plain")).toEqual({ value: "plain" })
  expect(of("string", " kept ")).toEqual({ value: " kept " })
  expect(of("string", "").problem).toBeDefined()
  expect(valueOf({ type: "string", required: false }, "")).toEqual({})
})

test("a form gives only what was typed, and every default survives being shown", () => {
  const params = [{ name: "a", type: "array", description: "", required: false, secret: false, default: ["x", { y: 1 }] }, { name: "b", type: "integer", description: "", required: true, secret: false }]
  expect(valuesOf(params, {})).toEqual({ values: {}, problems: { b: "a value is needed" } })
  expect(valuesOf(params, { a: textOf("array", params[0]!.default), b: "2" })).toEqual({ values: { a: ["x", { y: 1 }], b: 2 }, problems: {} })
})
