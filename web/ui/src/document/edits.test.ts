import { readFileSync } from "node:fs"
import { parse } from "yaml"
import { expect, test } from "vitest"
import { addDependency, addStep, dependencies, moveStep, Refusal, removeDependency, removeKey, removeStep, renameStep, setKey, Source, wrapInGroup, type Edit } from "./edits"
import { applyChanges, foretold } from "./source"
import { documents, root } from "../../test/repository"

const flow = `# the pipeline
name: nightly   # every night
steps:
  # gets it
  - id: fetch
    action: util.http
    params: {url: "https://example.org/{{ params.region }}", headers: {a: b}}   # as agreed

  # stores it
  - id: store
    action: util.exec
    depends_on: [fetch]
    params:
      command: |
        echo one
        echo two

  - id: tell
    action: util.log
    depends_on:
      - fetch
      - store
    params: {message: 'it is done'}
finally:
  - {id: bye, action: util.log, params: {message: bye}}
`

test("a value is changed in the style of what stood there", () => {
  expect(setKey(flow, ["steps", 0, "params", "url"], "https://example.org/x y").text).toBe(flow.replace('"https://example.org/{{ params.region }}"', '"https://example.org/x y"'))
  expect(setKey(flow, ["steps", 2, "params", "message"], "it's done").text).toBe(flow.replace("'it is done'", "'it''s done'"))
  expect(setKey(flow, ["name"], "weekly").text).toBe(flow.replace("nightly", "weekly"))
  expect(setKey(flow, ["steps", 1, "params", "command"], "echo three").text).toBe(flow.replace("command: |\n        echo one\n        echo two\n", "command: echo three\n"))
  expect(setKey(flow, ["steps", 1, "params", "command"], "a\nb\n").text).toBe(flow.replace("echo one\n        echo two", "a\n        b"))
})

test("a new key stands behind the others, comments stay where they are", () => {
  expect(setKey(flow, ["steps", 0, "timeout_seconds"], 30).text).toBe(flow.replace("# as agreed\n", "# as agreed\n    timeout_seconds: 30\n"))
  expect(setKey(flow, ["steps", 1, "retry"], { max_attempts: 3 }).text).toBe(flow.replace("        echo two\n", "        echo two\n    retry:\n      max_attempts: 3\n"))
  expect(setKey(flow, ["steps", 0, "params", "headers", "c"], "d").text).toBe(flow.replace("{a: b}", "{a: b, c: d}"))
  expect(setKey(flow, ["settings", "timeout_seconds"], 60).text).toBe(flow + "settings:\n  timeout_seconds: 60\n")
  expect(removeKey(flow, ["steps", 2, "depends_on"]).text).toBe(flow.replace("    depends_on:\n      - fetch\n      - store\n", ""))
})

test("dependencies keep the style of their list, and go with the last one", () => {
  expect(addDependency(flow, "tell", "fetch").changes).toEqual([])
  const more = addStep(flow, { after: "store" }, { id: "check", action: "util.log", params: { message: "{{ steps.store.status }}" } }).text
  expect(more).toBe(flow.replace("        echo two\n", '        echo two\n  - id: check\n    action: util.log\n    params:\n      message: "{{ steps.store.status }}"\n'))
  expect(addDependency(more, "tell", "check").text).toContain("      - store\n      - check\n")
  expect(addDependency(more, "store", "check").text).toContain("depends_on: [fetch, check]")
  expect(removeDependency(flow, "store", "fetch").text).toBe(flow.replace("    depends_on: [fetch]\n", ""))
  expect(removeDependency(flow, "tell", "fetch").text).toBe(flow.replace("      - fetch\n", ""))
})

test("a step goes with its comment and the dependencies on it; it moves with its comment", () => {
  expect(removeStep(flow, "store").text).toBe(flow.replace(/  # stores it\n(.*\n){7}\n/, "").replace("      - store\n", ""))
  const moved = moveStep(flow, "store", "").text
  expect(moved.indexOf("# stores it")).toBeLessThan(moved.indexOf("# gets it"))
  expect(parse(moved).steps.map((s: any) => s.id)).toEqual(["store", "fetch", "tell"])
  expect(() => removeStep("steps: [{id: a, action: util.log}]", "a")).toThrow("its last one")
  expect(removeStep(flow, "finally.bye").text).not.toContain("finally")
})

test("a rename changes the id and the places that are named, or nothing", () => {
  const at = (what: string, from = 0) => ({ from: flow.indexOf(what, from) + what.indexOf("fetch"), to: flow.indexOf(what, from) + what.indexOf("fetch") + 5 })
  const places = [at("[fetch]"), at("- fetch")]
  expect(renameStep(flow, "fetch", "get", places).text).toBe(flow.replace("id: fetch", "id: get").replace("[fetch]", "[get]").replace("- fetch", "- get"))
  expect(() => renameStep(flow, "fetch", "get", [{ from: 0, to: 5 }])).toThrow(Refusal)
  expect(() => renameStep(flow, "fetch", "store", [])).toThrow("called store already")
  expect(() => renameStep(flow, "fetch", "a b", [])).toThrow("begins with a letter")
})

test("steps become a group, and what depended on them depends on it", () => {
  const { text } = wrapInGroup(flow, ["store"], "work")
  const doc = parse(text)
  expect(doc.steps[1]).toEqual({ id: "work", depends_on: ["fetch"], steps: [{ id: "store", action: "util.exec", params: { command: "echo one\necho two\n" } }] })
  expect(doc.steps[2].depends_on).toEqual(["fetch", "work"])
  expect(text).toContain("  # stores it")
  expect(() => wrapInGroup(flow, ["fetch", "tell"], "g")).toThrow("one after the other")
})

test("JSON stays JSON, Windows lines stay Windows lines", () => {
  const json = '{\n  "steps": [\n    {"id": "a", "action": "util.log", "params": {"message": "x"}}\n  ]\n}\n'
  const more = addStep(json, { after: "a" }, { id: "b", action: "util.log", depends_on: ["a"], params: { message: "y" } }).text
  expect(JSON.parse(more).steps.map((s: any) => s.id)).toEqual(["a", "b"])
  expect(JSON.parse(setKey(more, ["steps", 0, "timeout_seconds"], 5).text).steps[0].timeout_seconds).toBe(5)
  const crlf = flow.replaceAll("\n", "\r\n")
  expect(setKey(crlf, ["steps", 0, "timeout_seconds"], 30).text).toBe(flow.replace("# as agreed\n", "# as agreed\n    timeout_seconds: 30\n").replaceAll("\n", "\r\n"))
})

test("what others share is refused with its place", () => {
  const shared = "steps:\n  - &a {id: one, action: util.log, params: {message: x}}\n  - <<: *a\n    id: two\n"
  for (const edit of [() => setKey(shared, ["steps", 0, "timeout_seconds"], 3), () => removeStep(shared, "one")]) {
    try {
      edit()
      expect.unreachable()
    } catch (err) {
      expect(err).toBeInstanceOf(Refusal)
      expect((err as Refusal).message).toContain("anchor &a")
      expect((err as Refusal).at).toBeGreaterThan(0)
    }
  }
  expect(() => setKey("steps: [", ["name"], "x")).toThrow(Refusal)
})

// Every document of the repository: each edit does what was meant and nothing else, or says why not.
test("edits of all documents of the repository", { timeout: 300_000 }, () => {
  let docs = 0
  let made = 0
  const refused: string[] = []
  for (const file of documents()) {
    const text = readFileSync(file, "utf8")
    if (!/^\s*"?steps"?\s*:|^\s*\{/m.test(text) || text.length > 40_000) continue
    let source: Source
    try {
      source = new Source(text)
      JSON.stringify(source.value())
    } catch {
      continue
    }
    const steps = source.steps().filter((s, _, all) => s.id && all.filter((o) => o.key === s.key).length === 1)
    if (steps.length === 0) continue
    docs++
    const attempt = (what: string, edit: () => Edit, right: (value: any) => boolean) => {
      try {
        const e = edit()
        made++
        expect(applyChanges(text, e.changes), `${file}: ${what}`).toBe(e.text)
        expect(right(parse(e.text, { merge: true, maxAliasCount: 10_000, logLevel: "error" })), `${file}: ${what}:\n${e.text}`).toBe(true)
      } catch (err) {
        if (!(err instanceof Refusal)) throw err
        refused.push(`${file.slice(root.length)}: ${what}: ${err.message}`)
      }
    }
    const find = (value: any, path: readonly (string | number)[]) => path.reduce((at, p) => at?.[p], value)
    for (const s of steps.slice(0, 6)) {
      attempt(`timeout of ${s.key}`, () => setKey(text, [...s.path, "timeout_seconds"], 17), (v) => find(v, s.path).timeout_seconds === 17)
      attempt(`name of ${s.key}`, () => setKey(text, [...s.path, "name"], "a: b # c"), (v) => find(v, s.path).name === "a: b # c")
      attempt(`retry of ${s.key}`, () => setKey(text, [...s.path, "retry"], { max_attempts: 4 }), (v) => find(v, s.path).retry.max_attempts === 4)
      attempt(`text of ${s.key}`, () => setKey(text, [...s.path, "description"], "one\n  two\nthree\n"), (v) => find(v, s.path).description === "one\n  two\nthree\n")
      attempt(`a step after ${s.key}`, () => addStep(text, { after: s.key }, { id: "new-step", action: "util.log", params: { message: "{{ 1 }}" } }), (v) => find(v, s.path.slice(0, -1))[s.index + 1].id === "new-step")
      attempt(`remove ${s.key}`, () => removeStep(text, s.key), (v) => !(find(v, s.path.slice(0, -1)) ?? []).some((o: any) => o?.id === s.id))
      attempt(`rename ${s.key}`, () => renameStep(text, s.key, "renamed-step", []), (v) => find(v, s.path).id === "renamed-step")
      const other = steps.find((o) => o.list === s.list && o !== s && !dependencies(s).includes(o.id))
      if (other) attempt(`${s.key} depends on ${other.id}`, () => addDependency(text, s.key, other.id), (v) => find(v, s.path).depends_on.includes(other.id))
      for (const d of dependencies(s).slice(0, 2)) attempt(`${s.key} no longer depends on ${d}`, () => removeDependency(text, s.key, d), (v) => !(find(v, s.path).depends_on ?? []).includes(d))
      if (s.index > 0) attempt(`move ${s.key} first`, () => moveStep(text, s.key, ""), (v) => find(v, s.path.slice(0, -1))[0].id === s.id)
    }
  }
  if (process.env.EDITS) console.log(docs, made, refused.length, refused.join("\n"))
  expect(docs).toBeGreaterThan(100)
  expect(made).toBeGreaterThan(1_000)
  // Refused are the texts that share values, and steps on one line that are to be moved.
  expect(refused.filter((r) => r.includes("by a click")).map((r) => r.split(": ").slice(0, 2).join(": "))).toEqual([
    "definition/testdata/bad/step-depends-on-mapping.yaml: b depends on a", // its depends_on is no list
    "definition/testdata/good/yaml-features.yaml: move second first", // before the anchor that it merges
  ])
  expect(refused.length / made).toBeLessThan(0.1)
})

test("who asks for an edit hears of its text, once, and of no other", () => {
  const heard: string[] = []
  const hear = (text: string) => void heard.push(text)
  const made = foretold(hear, () => addDependency(flow, "tell", "missing"))
  expect(heard).toEqual([made.text])
  foretold(hear, () => addDependency(flow, "tell", "fetch")) // it does already
  expect(() => foretold(hear, () => removeStep(flow, "nobody"))).toThrow(Refusal)
  addDependency(flow, "tell", "missing")
  expect(heard).toHaveLength(1)
})
