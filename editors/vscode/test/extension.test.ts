import assert from "node:assert/strict"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { after, test } from "node:test"
import * as client from "vscode-languageclient/node"
import * as vscode from "vscode"
import { activate, deactivate } from "../src/extension"
import { quote, reportOf } from "../src/tests"

// The stand-ins have more than what they stand in for.
type Stub = typeof import("./vscode")
const code = vscode as unknown as Stub
const started = (client as unknown as typeof import("./client")).clients
const stepwell = process.env.STEPWELL_BINARY
assert.ok(stepwell, "STEPWELL_BINARY names the program")

const dir = mkdtempSync(join(tmpdir(), "stepwell-vscode-"))
after(() => rmSync(dir, { recursive: true, force: true }))

const context = { subscriptions: [] as { dispose(): void }[] }

test("the program of the settings is started, and another one when they change", async () => {
  code.settings.set("stepwell.path", stepwell)
  await activate(context as never)
  assert.deepEqual(started.at(-1)!.server, { command: stepwell, args: ["lsp"] })
  assert.ok(started.at(-1)!.running)
  code.settings.set("stepwell.arguments", ["--lenient"])
  code.workspace.change("stepwell.arguments")
  while (started.length < 2 || !started[1]!.running) await new Promise((done) => setTimeout(done, 10))
  assert.ok(!started[0]!.running)
  assert.deepEqual(started[1]!.server.args, ["lsp", "--lenient"])
  code.settings.delete("stepwell.arguments")
})

test("a program that is not there is told, with what to do", async () => {
  code.settings.set("stepwell.path", join(dir, "nothing"))
  await code.commands.known.get("stepwell.restart")!()
  assert.match(code.told.errors.at(-1)!, /the program .*nothing was not found.*stepwell\.path/)
  code.settings.set("stepwell.path", stepwell)
  await code.commands.known.get("stepwell.restart")!()
  assert.ok(started.at(-1)!.running)
  await deactivate()
})

test("tests are found, run, and shown where they stand", async () => {
  writeFileSync(join(dir, "p.yaml"), "name: p\nsteps:\n  - {id: a, action: util.exec, params: {command: [x]}}\n")
  writeFileSync(join(dir, "p.test.yaml"), `mock: {a: {outputs: {exit_code: 0}}}
tests:
  - name: it (really) works
    expect: {status: completed}
  - name: it does not
    expect: {status: failed}
`)
  code.workspace.files = [code.Uri.file(join(dir, "p.test.yaml"))]
  const controller = code.tests.made.at(-1)!
  const token = { isCancellationRequested: false, onCancellationRequested: () => ({ dispose() {} }) }
  await controller.run!({}, token)
  const of = (what: string) => controller.results.filter((r) => r[0] === what)
  assert.deepEqual(of("passed").map((r) => r[1]), ["it (really) works"])
  const [[, name, messages]] = of("failed") as [[string, string, { message: string; location: { range: { start: { line: number } } } }[]]]
  assert.equal(name, "it does not")
  assert.match(messages[0]!.message, /expected failed, got completed/)
  assert.equal(messages[0]!.location.range.start.line, 5)
  const file = controller.items.get(code.Uri.file(join(dir, "p.test.yaml")).toString())!
  const one = [...file.children.values()].find((i) => i.label === "it (really) works")!
  assert.equal(one.range!.start.line, 2)
  controller.results.length = 0
  await controller.run!({ include: [one] }, token)
  assert.deepEqual(controller.results.filter((r) => r[0] !== "started").map((r) => r.slice(0, 2)), [["passed", "it (really) works"]])
  writeFileSync(join(dir, "p.test.yaml"), "tests: [")
  controller.results.length = 0
  await controller.run!({ include: [file] }, token)
  assert.match((of("errored")[0]![2] as { message: string }).message, /p\.test\.yaml/)
})

test("the commands run the tests of a pipeline's file, too", async () => {
  code.window.activeTextEditor = { document: { uri: code.Uri.file(join(dir, "p.yaml")), save: async () => true } }
  await code.commands.known.get("stepwell.test")!()
  await code.commands.known.get("stepwell.lab")!()
  assert.deepEqual(code.started.map((t) => t.execution.args), [["test", join(dir, "p.test.yaml")], ["lab", join(dir, "p.test.yaml")]])
})

test("names are quoted for a regular expression, and only a report is one", () => {
  assert.ok(new RegExp(`^${quote("a (b) [c] $1 .*")}$`).test("a (b) [c] $1 .*"))
  assert.equal(reportOf("no"), undefined)
  assert.equal(reportOf("{}"), undefined)
})
