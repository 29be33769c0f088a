// Starts the user's `stepwell lsp` for YAML and JSON files, and shows the tests of pipelines. The server leaves files alone that are none of
// Stepwell's.
import * as path from "node:path"
import * as vscode from "vscode"
import { LanguageClient, type LanguageClientOptions, type ServerOptions } from "vscode-languageclient/node"
import { missing, program } from "./program"
import { tests } from "./tests"

let client: LanguageClient | undefined

export async function activate(context: vscode.ExtensionContext) {
  tests(context)
  context.subscriptions.push(
    vscode.commands.registerCommand("stepwell.restart", restart),
    vscode.commands.registerCommand("stepwell.test", () => asTask("test")),
    vscode.commands.registerCommand("stepwell.lab", () => asTask("lab")),
    vscode.workspace.onDidChangeConfiguration((e) => { if (e.affectsConfiguration("stepwell")) void restart() }),
  )
  await start()
}

export async function deactivate() {
  await client?.stop()
  client = undefined
}

async function start() {
  const { command, args } = program()
  const server: ServerOptions = { command, args: ["lsp", ...args] }
  const options: LanguageClientOptions = {
    documentSelector: [{ scheme: "file", language: "yaml" }, { scheme: "file", language: "json" }, { scheme: "file", pattern: "**/*.stepwell.{yaml,yml,json}" }],
    synchronize: { fileEvents: vscode.workspace.createFileSystemWatcher("**/*.{yaml,yml,json}") },
  }
  client = new LanguageClient("stepwell", "Stepwell", server, options)
  try {
    await client.start()
  } catch (err) {
    client = undefined
    if (/ENOENT/.test(String(err))) void missing(command)
    else void vscode.window.showErrorMessage(`Stepwell: the language server could not be started: ${err instanceof Error ? err.message : String(err)}`)
  }
}

async function restart() {
  await deactivate()
  await start()
}

/** asTask runs a command for the tests of the file that is shown; its terminal stays. */
async function asTask(command: "test" | "lab") {
  const document = vscode.window.activeTextEditor?.document
  const file = document?.uri.fsPath
  if (!document || !file) return
  const own = /\.test\.(ya?ml|json)$/.test(file) ? file : file.replace(/\.(ya?ml|json)$/, ".test.$1")
  await document.save()
  const execution = new vscode.ProcessExecution(program().command, [command, own], { cwd: path.dirname(file) })
  await vscode.tasks.executeTask(new vscode.Task({ type: "stepwell", command }, vscode.TaskScope.Workspace, `${command} ${path.basename(own)}`, "stepwell", execution))
}
