import { expect, test } from "vitest"
import { formatSearch, parseSearch } from "./url"

test("what is written into an address is read from it", () => {
  for (const search of [{}, { step: "convert[17]" }, { q: "a&b=c d", at: "12", x: "ü%" }, { filter: "convert[*] & failed" }]) {
    expect(parseSearch(formatSearch(search))).toEqual(search)
  }
})

test("empty parameters are left out, the order is fixed", () => {
  expect(formatSearch({ b: "2", a: "1", c: "", d: undefined })).toBe("?a=1&b=2")
})

test("the first of repeated parameters counts", () => {
  expect(parseSearch("?a=1&a=2")).toEqual({ a: "1" })
})
