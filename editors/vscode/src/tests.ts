// The tests of pipelines (NAME.test.yaml) in the Test Explorer. `stepwell test` finds them, runs them and says where each stands.
import * as path from "node:path"
import * as vscode from "vscode"
import { missing, program, run } from "./program"

interface Report {
  tests: { file: string; line: number; name: string; passed: boolean; failures?: Failure[]; seconds: number }[]
}

interface Failure { file?: string; line?: number; column?: number; message: string; hint?: string; step?: string; why?: string[]; events?: string[] }

export const pattern = "**/*.test.{yaml,yml,json}"
const mostFiles = 2_000

/** tests adds the controller of the Test Explorer. */
export function tests(context: vscode.ExtensionContext) {
  const controller = vscode.tests.createTestController("stepwell", "Stepwell")
  context.subscriptions.push(controller)
  const add = (uri: vscode.Uri) => {
    const item = controller.items.get(uri.toString()) ?? controller.createTestItem(uri.toString(), vscode.workspace.asRelativePath(uri), uri)
    controller.items.add(item)
    return item
  }
  controller.resolveHandler = async (item) => {
    if (!item) for (const uri of await vscode.workspace.findFiles(pattern, "**/node_modules/**", mostFiles)) add(uri)
  }
  controller.refreshHandler = () => controller.resolveHandler!(undefined)
  const watcher = vscode.workspace.createFileSystemWatcher(pattern)
  watcher.onDidCreate(add)
  watcher.onDidDelete((uri) => controller.items.delete(uri.toString()))
  context.subscriptions.push(watcher)
  controller.createRunProfile("Run", vscode.TestRunProfileKind.Run, (request, token) => runAll(controller, request, token), true)
}

/** runAll runs the files that are asked for, one after the other. One test is run with its file: they share what they say of mocks. */
async function runAll(controller: vscode.TestController, request: vscode.TestRunRequest, token: vscode.CancellationToken) {
  const results = controller.createTestRun(request)
  const abort = new AbortController()
  const stop = token.onCancellationRequested(() => abort.abort())
  if (!request.include) await controller.resolveHandler!(undefined)
  const wanted: vscode.TestItem[] = request.include ? [...request.include] : []
  if (!request.include) controller.items.forEach((item) => wanted.push(item))
  for (const item of wanted) {
    if (token.isCancellationRequested) break
    await runOne(controller, results, item.parent ?? item, item.parent ? item : undefined, abort.signal)
  }
  stop.dispose()
  results.end()
}

async function runOne(controller: vscode.TestController, results: vscode.TestRun, file: vscode.TestItem, only: vscode.TestItem | undefined, cancel: AbortSignal) {
  results.started(only ?? file)
  const args = ["test", "-o", "json", ...(only ? ["--run", `^${quote(only.label)}$`] : []), file.uri!.fsPath]
  try {
    const { out, err } = await run(args, path.dirname(file.uri!.fsPath), cancel)
    const report = reportOf(out)
    if (!report) {
      results.errored(file, new vscode.TestMessage(err.trim() || "stepwell test said nothing"))
      return
    }
    for (const test of report.tests) tell(controller, results, file, test)
  } catch (err) {
    if (cancel.aborted) results.skipped(only ?? file)
    else if ((err as NodeJS.ErrnoException).code === "ENOENT") {
      results.errored(only ?? file, new vscode.TestMessage(`the program ${program().command} was not found`))
      void missing(program().command)
    } else results.errored(only ?? file, new vscode.TestMessage(String(err)))
  }
}

/** tell puts the result of a test into the explorer. */
function tell(controller: vscode.TestController, results: vscode.TestRun, file: vscode.TestItem, test: Report["tests"][number]) {
  const id = `${file.id}#${test.name}`
  const item = file.children.get(id) ?? controller.createTestItem(id, test.name, file.uri)
  item.range = at(test.line, 1)
  file.children.add(item)
  if (test.passed) results.passed(item)
  else results.failed(item, (test.failures ?? []).map((f) => {
    const message = new vscode.TestMessage([f.message, f.hint && `hint: ${f.hint}`, ...(f.why ?? []).map((w) => `why: ${w}`), ...(f.events?.length ? ["last events:", ...f.events] : [])].filter(Boolean).join("\n"))
    message.location = new vscode.Location(file.uri!, at(f.line ?? test.line, f.column ?? 1))
    return message
  }))
}

const at = (line: number, column: number) => {
  const p = new vscode.Position(Math.max(0, line - 1), Math.max(0, column - 1))
  return new vscode.Range(p, p)
}

/** quote is a text for a regular expression. */
export const quote = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")

/** reportOf reads what `stepwell test -o json` wrote; undefined: it is no report. */
export function reportOf(out: string): Report | undefined {
  try {
    const report = JSON.parse(out) as Report
    return Array.isArray(report.tests) ? report : undefined
  } catch {
    return undefined
  }
}
