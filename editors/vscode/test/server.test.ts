// The language server, by the protocol library that the extension has.
import assert from "node:assert/strict"
import { spawn } from "node:child_process"
import { test } from "node:test"
import * as protocol from "vscode-languageserver-protocol/node"

const stepwell = process.env.STEPWELL_BINARY
assert.ok(stepwell, "STEPWELL_BINARY names the program")

test("problems, completion and rename", async () => {
  const server = spawn(stepwell, ["lsp"], { stdio: ["pipe", "pipe", "inherit"] })
  const link = protocol.createProtocolConnection(new protocol.StreamMessageReader(server.stdout), new protocol.StreamMessageWriter(server.stdin))
  link.listen()
  const { capabilities } = await link.sendRequest(protocol.InitializeRequest.type, { processId: process.pid, rootUri: null, capabilities: {} })
  assert.ok(capabilities.completionProvider && capabilities.renameProvider && capabilities.hoverProvider)
  await link.sendNotification(protocol.InitializedNotification.type, {})
  const uri = "file:///nowhere/p.stepwell.yaml"
  const text = "name: p\nsteps:\n  - {id: first, action: util.set_output, params: {n: 1}}\n  - {id: second, action: util.log, depends_on: [first], params: {message: \"{{ steps.first.outputs.m }}\"}}\n"
  const problems = new Promise<protocol.PublishDiagnosticsParams>((done) => { link.onNotification(protocol.PublishDiagnosticsNotification.type, (p) => { if (p.diagnostics.length) done(p) }) })
  await link.sendNotification(protocol.DidOpenTextDocumentNotification.type, { textDocument: { uri, languageId: "yaml", version: 1, text } })
  const { diagnostics } = await problems
  assert.ok(diagnostics.some((d) => d.code === "SW101" && d.range.start.line === 3 && /no member m/.test(String(d.message))), JSON.stringify(diagnostics))
  const position = { line: 3, character: text.split("\n")[3]!.indexOf("outputs.m") + "outputs.".length }
  const found = await link.sendRequest(protocol.CompletionRequest.type, { textDocument: { uri }, position })
  assert.ok((Array.isArray(found) ? found : (found?.items ?? [])).some((i) => i.label === "n"), JSON.stringify(found))
  const renamed = await link.sendRequest(protocol.RenameRequest.type, { textDocument: { uri }, position: { line: 2, character: text.split("\n")[2]!.indexOf("first") }, newName: "begin" })
  const edits = Object.values(renamed?.changes ?? {}).flat().length + (renamed?.documentChanges ?? []).flatMap((c) => ("edits" in c ? c.edits : [])).length
  assert.equal(edits, 3)
  await link.sendRequest(protocol.ShutdownRequest.type)
  await link.sendNotification(protocol.ExitNotification.type)
  assert.equal(await new Promise((done) => server.on("exit", done)), 0)
})
