import { readFileSync } from "node:fs"
import { expect, test } from "vitest"
import { documents } from "../../test/repository"
import { canonical, means, valueAfter } from "./check"
import { addStep, removeStep, setKey } from "./edits"
import { applyChanges, Source, type Change } from "./source"

const flow = `name: nightly
steps:
  - id: a
    action: util.log
  - {id: b, action: util.log, depends_on: [a]}
  # the third
  - id: c
    action: util.exec
    params:
      command: |
        echo one
  - id: d
    action: util.log
  - id: e
    action: util.log
finally:
- id: f
  action: util.log
- id: g
  action: util.log
`

const whole = (text: string): string | undefined => {
  try {
    return canonical(structuredClone(new Source(text).value()))
  } catch {
    return undefined
  }
}

test("an edit of a step is checked by a part of the text", () => {
  const source = new Source(flow)
  for (const edit of [
    ...["a", "b", "c", "d", "e", "finally.f", "finally.g"].map((after) => addStep(flow, { after }, { id: "new", action: "util.log", params: { message: "x\ny" } })),
    addStep(flow, { list: ["steps"] }, { id: "new", action: "util.log" }),
    setKey(flow, ["steps", 0, "id"], "z"), setKey(flow, ["steps", 2, "timeout_seconds"], 3), setKey(flow, ["finally", 1, "timeout_seconds"], 3), removeStep(flow, "c"),
  ]) {
    const value = valueAfter(source, edit.text, edit.changes)
    expect(value, edit.text).toBeDefined()
    expect(canonical(value)).toBe(whole(edit.text))
  }
  expect(canonical(source.value())).toBe(whole(flow))
})

test("what reaches beyond a part is seen", () => {
  const source = new Source(flow)
  const at = flow.indexOf("  # the third")
  for (const insert of ["  - 'open\n", "  - [open\n", "  - id: x\n   bad: y\n", "- id: x\n", "x: y\n", "  - *a\n", "  - &a x\n---\n", "...\n", "    id: b\n", "  - x", "\u2028- x\n", "finally: x\n", "steps: x\n"]) {
    const change = { from: at, to: at, insert }
    const text = applyChanges(flow, [change])
    const value = valueAfter(source, text, [change])
    if (value) expect(canonical(value), insert).toBe(whole(text))
    // Whatever it is, it is not what was meant.
    let right = false
    try { right = means(source, text, [change], (doc) => doc.put(["steps", 1, "name"], "x")) } catch { /* it does not parse */ }
    expect(right, insert).toBe(false)
  }
  expect(canonical(source.value())).toBe(whole(flow)) // nothing has changed it
})

test("what a text shares is changed in all places, and read as a whole", () => {
  const shared = "steps:\n  - &a\n    id: one\n    params: {message: x}\n  - id: two\n  - id: three\n  - id: four\n    like: *a\n"
  const { text, changes } = setKey(shared, ["steps", 0, "params", "message"], "y")
  expect(valueAfter(new Source(shared), text, changes)).toBeUndefined()
  expect((new Source(text).value() as any).steps[3].like.params.message).toBe("y")
})

// A generator of numbers that are the same each time.
function chance(seed: number): (below: number) => number {
  return (below) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
    return Math.floor((seed / 2 ** 32) * below)
  }
}

const pieces = [
  "'", '"', "|", "|\n", "|+\n\n", ">-\n", "[", "]", "{", "}", ",", ":", ": ", "\n", "\n\n", " ", "  ", "\t", "#", " # c\n", "-", "- ", "\n- ", "\n  - ", "  - id: x\n", "- id: x\n", "    key: v\n", "key: v\n", "&a ", "*a", " *a ",
  "<<: ", "<<: {a: b}\n", "!!str ", "!x ", "---\n", "...\n", "%YAML 1.1\n", "? ", "? a\n: b\n", "steps:\n", "finally:\n", "name: y\n", "~", "\r\n", "\r", "\u2028", "\u0085", "\ufeff", "\\", "@", "`", "0x1f", "yes", "x",
]

// Whatever changes a text: what was read of a part of it is what the whole text says, and a text that does not parse is never passed.
test("a part says what the whole says", { timeout: 300_000 }, () => {
  const next = chance(2026)
  let [parts, seen] = [0, 0]
  for (const file of documents()) {
    const text = readFileSync(file, "utf8")
    if (text.length > 20_000 || !/^\s*"?steps"?\s*:/m.test(text) || whole(text) === undefined) continue
    const source = new Source(text)
    const tries = Number(process.env.CHANGES ?? 40)
    for (let i = 0; i < tries; i++) {
      const changes: Change[] = []
      let at = 0
      for (let n = 1 + next(2); n > 0; n--) {
        let from = at + next(text.length + 1 - at)
        if (next(2) === 0) from = Math.max(at, next(2) === 0 ? source.lineStart(from) : source.lineEnd(from))
        const to = next(2) === 0 ? from : Math.min(text.length, next(3) === 0 ? source.lineEnd(from) : from + next(12))
        changes.push({ from, to, insert: Array.from({ length: next(4) }, () => pieces[next(pieces.length)]).join("") })
        at = to
      }
      const after = applyChanges(text, changes)
      const value = valueAfter(source, after, changes)
      seen++
      if (!value) continue
      parts++
      expect(canonical(structuredClone(value)), `${file}: ${JSON.stringify(changes)}`).toBe(whole(after))
    }
    expect(canonical(structuredClone(source.value())), file).toBe(whole(text))
  }
  if (process.env.CHANGES) console.log(seen, parts)
  expect(parts).toBeGreaterThan(300)
})
