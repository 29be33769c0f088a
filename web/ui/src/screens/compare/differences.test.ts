import { expect, test } from "vitest"
import { differences, textDiff } from "./differences"

test("values differ by member, in words that templates use", () => {
  const of = (a: unknown, b: unknown) => differences(a, b).list.map((d) => `${d.kind} ${d.path}`)
  expect(of({ a: 1, b: [1, 2, { c: 3 }] }, { a: 1, b: [1, 2, { c: 3 }] })).toEqual([])
  expect(of({ a: 1, b: [1, 2, { c: 3 }], gone: null }, { a: "1", b: [1, 2, { c: 4, d: 5 }, 6], "odd key": 1 })).toEqual(["changed a", "changed b[2].c", "added b[2].d", "added b[3]", "removed gone", 'added ["odd key"]'])
  expect(of({ a: null }, {})).toEqual(["removed a"])
  expect(of([], {})).toEqual(["changed "])
  expect(of(undefined, { a: 1 })).toEqual(["added "])
})

test("many differences are cut, and deep values end", () => {
  const big = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`k${i}`, i]))
  expect(differences(big, {}, 200)).toMatchObject({ more: true })
  expect(differences(big, {}, 200).list).toHaveLength(200)
  expect(differences(big, {}, 1000).more).toBe(false)
  let [x, y]: unknown[] = [1, 2]
  for (let i = 0; i < 500; i++) [x, y] = [[x], [y]]
  expect(differences(x, y).list).toHaveLength(1)
  expect(differences(x, JSON.parse(JSON.stringify(x))).list).toHaveLength(0)
})

test("texts differ by lines, or in too much", () => {
  expect(textDiff("a\nb\n", "a\nb\n")).toBe("")
  expect(textDiff("a\nb\nc\n", "a\nB\nc\n")).toBe("@@ -1,3 +1,3 @@\n a\n-b\n+B\n c")
  const lines = (n: number, f: (i: number) => string) => Array.from({ length: n }, (_, i) => f(i)).join("\n")
  expect(textDiff(lines(100_000, (i) => `x${i}`), lines(100_000, (i) => `y${i}`))).toBeUndefined()
})
