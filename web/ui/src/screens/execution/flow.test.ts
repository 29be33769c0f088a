import { expect, test } from "vitest"
import { columnsOf, rate } from "./flow"

test("a module stands behind all whose items it takes", () => {
  const m = (step_id: string, ...inputs: string[]) => ({ step_id, inputs })
  const columns = columnsOf([m("a"), m("b"), m("c", "a"), m("join", "c", "b"), m("out", "join"), m("raw", "a")])
  expect(columns.map((c) => c.map((x) => x.step_id))).toEqual([["a", "b"], ["c", "raw"], ["join"], ["out"]])
})

test("rates", () => {
  expect([rate(undefined), rate(0), rate(9.94), rate(1234.5)]).toEqual([undefined, "0.0/s", "9.9/s", "1,235/s"])
})
