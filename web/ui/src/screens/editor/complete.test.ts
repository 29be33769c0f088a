import { expect, test } from "vitest"
import { parents, suggest, type Known } from "./complete"

const action = (type: string, ...params: any[]) => ({ type, summary: type, idempotent: true, examples: [], outputs: [], params }) as any
const known: Known = {
  schema: { properties: { name: { type: "string" }, settings: { type: "object", properties: { fail_fast: { type: "boolean" } } }, steps: { type: "array", items: { $ref: "#/$defs/step" } } }, $defs: { step: { properties: { id: {}, action: {}, depends_on: { type: "array" }, retry: { anyOf: [{ $ref: "#/$defs/retry" }] }, trigger_rule: { enum: ["all_success", "all_done"] } } }, retry: { properties: { max_attempts: { type: "integer" } } } } },
  actions: [action("util.http", { name: "url", type: "string", required: true }, { name: "method", type: "string", options: ["GET", "POST"] }), action("util.log", { name: "message", type: "string" })],
  modules: [action("stac.ingest", { name: "source", type: "string" })],
  pipelines: ["nightly"],
  steps: [{ id: "fetch", outputs: ["status", "body"] }, { id: "store", outputs: [] }],
  params: ["region"],
}

// The place is where the text has a |.
const at = (text: string) => suggest(text.replace("|", ""), text.indexOf("|"), known)?.options.map((o) => o.label)

test.each([
  ["na|", ["name", "settings", "steps"]],
  ["settings:\n  |", ["fail_fast"]],
  ["settings:\n  fail_fast: |", ["true", "false"]],
  ["steps:\n  - id: a\n    |", ["id", "action", "depends_on", "retry", "trigger_rule"]],
  ["steps:\n  - id: a\n    action: |", ["util.http", "util.log"]],
  ["steps:\n  - id: a\n    module: st|", ["stac.ingest"]],
  ["steps:\n  - id: a\n    trigger_rule: |", ["all_success", "all_done"]],
  ["steps:\n  - id: a\n    retry:\n      |", ["max_attempts"]],
  ["steps:\n  - id: a\n    action: util.http\n    params:\n      |", ["url", "method"]],
  ["steps:\n  - id: a\n    action: util.http\n    params:\n      url: x\n      method: |", ["GET", "POST"]],
  ["steps:\n  - id: a\n    params:\n      |\n    action: util.log", ["message"]],
  ["steps:\n  - id: a\n    depends_on: [fe|", ["fetch", "store"]],
  ["steps:\n  - id: a\n    depends_on:\n      - |", ["fetch", "store"]],
  ['x: "{{ |', ["params", "steps", "item", "index", "execution", "secrets", "settings"]],
  ['x: "{{ params.|', ["region"]],
  ['x: "{{ steps.f|', ["fetch", "store"]],
  ['x: "{{ steps.fetch.|', ["outputs", "status", "error", "attempt"]],
  ['x: "{{ steps.fetch.outputs.|', ["status", "body"]],
  ["x: {{ a }} |", undefined],
])("%s", (text, want) => expect(at(text)).toEqual(want))

test("the keys around a line", () => {
  const text = "steps:\n  - id: a\n    retry:\n      "
  expect(parents(text, text.lastIndexOf("\n") + 1, 6)).toEqual(["retry", "steps"])
})
