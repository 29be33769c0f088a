import { expect, test } from "vitest"
import { commandOf, keyAt, nextIn, placeOf, planOf, readOnly, valuesAt, wanted } from "./partitions"

const days = (from: string, n: number) => Array.from({ length: n }, (_, i) => new Date(Date.parse(from) + i * 86_400_000).toISOString().slice(0, 10))

test("the last parameter has the columns; each place leads to its partition and back", () => {
  const axes = [["a", "b"], ["x", "y", "z"], ["1", "2"]]
  const plan = planOf(axes)
  expect([plan.rows, plan.columns, plan.rowName(4), plan.columnName(1)]).toEqual([6, 2, "b · y", "2"])
  for (let at = 0; at < 12; at++) {
    expect(plan.at(...plan.place(at))).toBe(at)
    expect(placeOf(axes, keyAt(axes, at))).toBe(at)
  }
  expect(valuesAt(axes, 11)).toEqual(["b", "z", "2"])
})

test("a calendar alone is folded; before its first day and after its last there is nothing", () => {
  const axes = [days("2026-01-30", 5)]
  const plan = planOf(axes)
  expect([plan.rows, plan.rowName(0), plan.rowName(1)]).toEqual([2, "2026-01", "2026-02"])
  expect(Array.from({ length: plan.columns }, (_, c) => plan.columnName(c))).toEqual(["01", "02", "03", "30", "31"])
  expect(plan.at(0, 0)).toBe(-1)
  for (let at = 0; at < 5; at++) expect(plan.at(...plan.place(at))).toBe(at)
  expect(planOf([["2026-03-01T00", "2026-03-01T01"]]).columnName(1)).toBe("01")
  expect(planOf([["2026-W09", "2026-W10"]]).rows).toBe(1)
  expect([planOf([["s2", "2026-01"]]).rows, planOf([["s2", "l9"]]).columns, planOf([[], ["x"]]).rows, planOf([["x"], []]).rows]).toEqual([2, 1, 0, 0])
})

test("names with signs, and those that nothing has", () => {
  const axes = [["a/b", "50%"], ["x y"]]
  expect(keyAt(axes, 0)).toBe("a%2Fb/x%20y")
  for (const key of ["", "a", "a%2Fb/x", "%zz/x y", "a/b/x y"]) expect(placeOf(axes, key)).toBe(-1)
})

test("what a backfill makes, and its command", () => {
  const t = { axes: [["s2", "l9"], ["1", "2", "3"]], grid: ".fsdr." }
  expect(wanted(t, ["missing", "failed"], [[], []], 2)).toEqual({ count: 3, first: [0, 1] })
  expect(wanted(t, ["missing"], [["l9"], ["3", "2"]], 9)).toEqual({ count: 1, first: [5] })
  expect([nextIn(t.grid, ["failed"], 1, 1), nextIn(t.grid, ["missing"], 0, 1), nextIn(t.grid, ["missing"], 0, -1), nextIn(t.grid, [], 0, 1)]).toEqual([1, 5, 5, -1])
  expect(readOnly(" 1, 3", t.axes[1]!)).toEqual({ values: ["1", "3"] })
  expect(readOnly("1,4", t.axes[1]!)).toEqual({ values: ["1", "4"], wrong: "4" })
  expect(readOnly("a,b", ["a,b"]).values).toEqual(["a,b"])
  expect(commandOf({ name: "my mirror", by: ["c", "m"], states: ["missing"], only: [["it's"], []], params: { n: 3, token: "s3cret" }, secrets: ["token"], parallel: 4, server: "http://x:1" }))
    .toBe(`stepwell backfill 'my mirror' --missing --only 'c=it'\\''s' -p n=3 -p token="$TOKEN" --max-parallel 4 --server http://x:1`)
})

test("100,000 partitions are arranged and counted within a moment", () => {
  const axes = [days("1900-01-01", 100_000)]
  const began = performance.now()
  const plan = planOf(axes)
  expect(plan.columns).toBe(31)
  expect(wanted({ axes, grid: ".".repeat(100_000) }, ["missing"], [[]], 50).count).toBe(100_000)
  expect(performance.now() - began).toBeLessThan(5_000)
})
