// The user's stepwell: the extension carries none.
import { execFile } from "node:child_process"
import * as vscode from "vscode"

export interface Program { command: string; args: string[] }

/** program is what the settings name. */
export function program(): Program {
  const settings = vscode.workspace.getConfiguration("stepwell")
  return { command: settings.get<string>("path")?.trim() || "stepwell", args: settings.get<string[]>("arguments") ?? [] }
}

/** missing says that there is no such program, and what to do. */
export async function missing(command: string) {
  const settings = "Open settings", install = "How to install it"
  const chosen = await vscode.window.showErrorMessage(`Stepwell: the program ${command} was not found. Install it, or name it in the setting stepwell.path.`, settings, install)
  if (chosen === settings) await vscode.commands.executeCommand("workbench.action.openSettings", "stepwell.path")
  if (chosen === install) await vscode.env.openExternal(vscode.Uri.parse("https://github.com/stepwell/stepwell#readme"))
}

export interface Output { code: number; out: string; err: string }

const most = 64 << 20 // bytes of output
const patience = 10 * 60_000 // ms

/** run runs the program in a folder. It is rejected only if the program cannot be started, or was cancelled. */
export function run(args: string[], dir: string, cancel?: AbortSignal): Promise<Output> {
  const { command } = program()
  return new Promise((done, fail) => {
    execFile(command, args, { cwd: dir, maxBuffer: most, timeout: patience, ...(cancel ? { signal: cancel } : {}) }, (error, out, err) => {
      if (error && typeof error.code !== "number") fail(error)
      else done({ code: typeof error?.code === "number" ? error.code : 0, out, err })
    })
  })
}
