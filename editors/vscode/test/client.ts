// Stands in for vscode-languageclient: which server is started, and whether it can be.
import { spawn } from "node:child_process"

export interface Server { command: string; args: string[] }
export type ServerOptions = Server
export interface LanguageClientOptions { documentSelector: object[] }
export const clients: LanguageClient[] = []

export class LanguageClient {
  running = false
  constructor(readonly id: string, readonly name: string, readonly server: Server, readonly options: LanguageClientOptions) { clients.push(this) }
  async start() {
    await new Promise<void>((done, fail) => {
      const child = spawn(this.server.command, this.server.args, { stdio: ["pipe", "ignore", "ignore"] })
      child.on("error", fail)
      child.on("spawn", () => { child.stdin.end(); done() })
    })
    this.running = true
  }
  async stop() { this.running = false }
}
