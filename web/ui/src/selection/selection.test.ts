import { expect, test } from "vitest"
import { codeOf, type Steps } from "../field/steps"
import { fan, layered, synthetic } from "../field/synthetic.test-data"
import { evaluate, glob, needsKeys } from "./evaluate"
import { readKeys, type Keys } from "./keys"
import { parse, print, quote, togglePath, toggleState } from "./parse"

const read = (text: string) => {
  const { expr, fault } = parse(text)
  if (!expr) throw new Error(`${text}: ${fault?.message}`)
  return expr
}

test("what is read is written as the same again", () => {
  for (const [text, written] of [
    ["convert[*]&failed", "convert[*] & failed"],
    ["+deploy+", "+deploy+"],
    ["+ deploy", "+deploy"],
    ["action:util.http | !worker:w1", "action:util.http | !worker:w1"],
    ["a & (b | c) | d", "a & (b | c) | d"],
    ["!(a | b) & !!c", "!(a | b) & c"],
    ["state:failed", "failed"],
    ['"failed" | "a step" | "x:y"', '"failed" | "a step" | "x:y"'],
    ['step:"a b"', 'step:"a b"'],
    ["+(a | b)+ & critical", "+(a | b)+ & critical"],
    ["+(!a)", "+(!a)"],
    ["((a))", "a"],
  ] as const) {
    expect(print(read(text)), text).toBe(written)
    expect(read(written), written).toEqual(read(text))
  }
  expect(parse("  ")).toEqual({})
  expect(read("failed")).toEqual({ kind: "state", state: "failed" })
  expect(read(quote("failed"))).toEqual({ kind: "match", field: "any", pattern: "failed" })
})

test("a wrong text has its place and a hint", () => {
  for (const [text, at, message] of [
    ["a b", 2, "nothing joins"], ["a &", 3, "something is missing behind &"], ["& a", 0, "& cannot stand here"], ["(a | b", 0, "this ( is not closed"], ["a)", 1, "there is no ("],
    ["(a b)", 3, "nothing joins"], ['a & "b', 4, "the quotation mark"], ["colour:red", 0, "there is no colour:"], ["action:", 0, "a name is missing"], ["a | state:broken", 10, "there is no state broken"], ["!", 1, "something is missing"],
    ["a".repeat(501), 500, "longer than 500"], ["(".repeat(30) + "a", 17, "deeper than 16"], [Array(70).fill("a").join("|"), 128, "more than 64 parts"], ["a++", 2, "nothing joins"], ["", 0, ""],
  ] as const) {
    const { fault, expr } = parse(text)
    if (text === "") continue
    expect(expr, text).toBeUndefined()
    expect(fault!.at, text).toBe(at)
    expect(fault!.message, text).toContain(message)
    expect(fault!.hint.length, text).toBeGreaterThan(10)
  }
})

test("any text is read or refused at a place within it", () => {
  const alphabet = ["a", "failed", "&", "|", "!", "(", ")", "+", " ", '"', ":", "action:", "*", "[", "state:"]
  let seed = 7
  const random = (n: number) => (seed = (seed * 48_271) % 2_147_483_647) % n
  for (let k = 0; k < 4000; k++) {
    const text = Array.from({ length: random(12) }, () => alphabet[random(alphabet.length)]).join("")
    const { expr, fault } = parse(text)
    if (fault) expect(fault.at >= 0 && fault.at <= text.length && fault.hint !== "", text).toBe(true)
    else if (expr) expect(parse(print(expr)).expr, text).toEqual(expr)
  }
})

test("chips change their own part of a text alone", () => {
  expect(toggleState(undefined, "failed")).toBe("failed")
  expect(toggleState("failed", "timed_out")).toBe("failed | timed_out")
  expect(toggleState("convert[*] & (failed | timed_out)", "failed")).toBe("convert[*] & timed_out")
  expect(toggleState("failed", "failed")).toBeUndefined()
  expect(toggleState("a | failed", "running")).toBe("(a | failed) & running")
  expect(togglePath("failed", { kind: "critical" })).toBe("failed & critical")
  expect(togglePath("failed & critical", { kind: "critical" })).toBe("failed")
  const up = read("+step:list")
  expect(togglePath("critical & failed", up)).toBe("failed & +step:list")
  expect(togglePath("+step:list", undefined)).toBeUndefined()
})

/** keyed gives steps keys, of which the odd ones have another action and queue. */
function keyed(key: string[]): Keys {
  return { key, action: Uint16Array.from(key, (k, i) => (k ? 1 + (i % 2) : 0)), actions: ["", "util.log", "util.http"], queue: Uint16Array.from(key, (_, i) => i % 2), queues: ["", "slow"] }
}

const chosen = (text: string, steps: Steps, keys: Keys) => [...evaluate(read(text), steps, keys).keys()].filter((i) => evaluate(read(text), steps, keys)[i])

test("what parts select", () => {
  const steps = synthetic(8) // 0 list → 1 convert (2, 3, 4 inside) → 5 deploy → 6 report; 7 is absent
  steps.parent.set([2, 2, 2], 2)
  steps.first.set([0, 0, 1, 1, 1, 1, 2, 3, 3])
  steps.edges = Uint32Array.from([0, 1, 5])
  steps.status[3] = steps.status[6] = codeOf(steps, "failed")
  steps.status[7] = codeOf(steps, "absent")
  steps.workers = ["", "w1", "w2"]
  steps.worker.set([1, 0, 1, 2])
  const keys = keyed(["list", "convert", "convert[0]", "convert[1]", "convert[2].in.x", "deploy", "report", ""])
  for (const [text, want] of [
    ["convert[*]", [2, 3]], ["convert[**", [2, 3, 4]], ["convert[*] & failed", [3]], ["convert", [1, 2, 3, 4]], ["step:convert", [1]], ["failed", [3, 6]], ["!failed", [0, 1, 2, 4, 5]],
    ["deploy", [5]], ["eploy", [5]], ["+deploy", [0, 1, 2, 3, 4, 5]], ["deploy+", [5, 6]], ["+deploy+", [0, 1, 2, 3, 4, 5, 6]], ["+step:convert[1]", [0, 3]],
    ["action:util.http", [1, 3, 5]], ["action:util.*", [0, 1, 2, 3, 4, 5, 6]], ["HTTP", [1, 3, 5]], ["queue:slow", [1, 3, 5]], ["queue:default & !convert", [0, 6]],
    ["worker:w1", [0, 2]], ["worker:*", [0, 2, 3]], ["!worker:*", [1, 4, 5, 6]], ["nosuch", []], ["(list | report) & !failed", [0]],
  ] as [string, number[]][]) expect(chosen(text, steps, keys), text).toEqual(want)
  expect(["failed", "worker:w1", "critical", "a", "!action:x", "+queue:y"].map((t) => needsKeys(read(t)))).toEqual([false, false, false, true, true, true])
})

test("100,000 steps: a selection takes at most 50 ms, on a quiet machine", () => {
  const list: [Steps, Keys][] = [
    [fan(100_000), keyed(["find", "convert", "report", ...Array.from({ length: 100_000 }, (_, i) => `convert[${i}]`)])],
    [layered(500, 200), keyed(Array.from({ length: 100_000 }, (_, i) => `step_${i}`))],
  ]
  for (const [steps, keys] of list) {
    steps.status[54_321] = codeOf(steps, "failed")
    for (const text of ["convert[*] & failed", "+step_5000+", "**7* & !failed", "action:util.http | queue:slow", "convert+ & !(failed | critical)"]) {
      let best = Infinity
      for (let k = 0; k < 4; k++) {
        const fresh = { ...keys }
        const begun = performance.now()
        evaluate(read(text), steps, fresh)
        best = Math.min(best, performance.now() - begun)
      }
      if (process.env.STEPWELL_TIMES) console.log(`${steps.edges.length} edges, ${text}: ${best.toFixed(1)} ms`)
      expect(best, text).toBeLessThan(500) // whatever else runs beside it
    }
  }
})

test("keys are read from the columns, each from what it shares with the one before", () => {
  const text = new TextEncoder().encode("list" + "convert[0]" + "1]" + "ünïx")
  const table = (rows: number, columns: Record<string, Uint8Array>, head: object) => ({ header: { version: 1, rows, from: 0, total: rows, columns: [], ...head }, column: (name: string) => columns[name] })
  const one = table(5, { key: text, key_shared: Uint8Array.of(0, 0, 0, 8, 0), key_length: Uint8Array.of(4, 10, 0, 2, 6), action: Uint8Array.of(1, 2, 0, 2, 1) }, { actions: ["", "a", "b"], queues: [""] })
  const two = table(1, { key: new TextEncoder().encode("ü"), key_shared: Uint8Array.of(0), key_length: Uint8Array.of(2), action: Uint8Array.of(1), queue: Uint8Array.of(1) }, { actions: ["", "b"], queues: ["", "q"] })
  const keys = readKeys([one, two])
  expect(keys.key).toEqual(["list", "convert[0]", "", "convert[1]", "ünïx", "ü"])
  expect([...keys.action].map((a) => keys.actions[a])).toEqual(["a", "b", "", "b", "a", "b"])
  expect(keys.queues[keys.queue[5]!]).toBe("q")
  expect(() => readKeys([table(1, { key: Uint8Array.of(65), key_shared: Uint8Array.of(0), key_length: Uint8Array.of(9) }, {})])).toThrow("cut off")
})

test("patterns with stars fit what a regular expression says, also many of them in no time", () => {
  const say = (pattern: string, step: boolean) =>
    new RegExp(`^${pattern.split(/(\*+)/).map((p) => (p.startsWith("*") ? (p.length > 1 || !step ? ".*" : "[^.[\\]]*") : p.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"))).join("")}$`, "s")
  let seed = 7
  const pick = (of: string[]) => of[(seed = (seed * 48271) % 2147483647) % of.length]!
  const words = (of: string[], most: number) => Array.from({ length: (seed = (seed * 48271) % 2147483647) % most }, () => pick(of)).join("")
  for (let i = 0; i < 20_000; i++) {
    const [pattern, text] = [words(["a", "b", ".", "*", "**", "[", "]"], 7), words(["a", "b", ".", "[", "]"], 9)]
    for (const field of ["step", "action"] as const) {
      if (glob(pattern, field)(text) !== say(pattern, field === "step").test(text)) throw new Error(`${pattern} and ${text} (${field})`)
    }
  }
  const begun = performance.now()
  expect(glob("*a*a*a*a*a*a*a*a*a*a*a*a*x", "step")("a".repeat(300))).toBe(false)
  expect(glob("**a*b**a*b**a*b**a*b**x", "step")("ab.".repeat(200))).toBe(false)
  expect(performance.now() - begun).toBeLessThan(1000)
})
