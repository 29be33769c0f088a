// A real server for tests: `stepwell serve` on a port that the system chose, its database in a folder of its own.
import { spawn, type ChildProcess } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createServer, request, type Server as HTTP } from "node:http"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import { extname, join } from "node:path"
import { gunzipSync } from "node:zlib"

const binary = process.env.STEPWELL_BINARY ?? ""
// While developing: pages from a folder (UI_DIST, made by web/build) in front of a server that was built before.
const dev = process.env.UI_DIST

export class Server {
  readonly dir = mkdtempSync(join(tmpdir(), "stepwell-ui-"))
  url = ""
  /** Sent with every request of ask; set it where the server has keys. */
  token = ""
  private child?: ChildProcess
  private front?: HTTP
  private behind = ""
  private log = ""

  constructor(private readonly args: string[] = [], private readonly env: Record<string, string> = {}) {
    if (!binary) throw new Error("STEPWELL_BINARY names no program: go test ./web runs these tests")
  }

  /** start starts the server, or starts it again at the same address. Its log has said that this process listens. */
  async start(): Promise<this> {
    const listen = this.behind ? this.behind.replace("http://", "") : "127.0.0.1:0"
    const child = spawn(binary, ["serve", "--listen", listen, "--data", join(this.dir, "data"), ...this.args], { env: { ...process.env, HOME: this.dir, ...this.env }, stdio: ["ignore", "pipe", "pipe"] })
    this.child = child
    this.log = ""
    this.behind = await new Promise<string>((found, failed) => {
      const read = (chunk: Buffer) => {
        this.log += chunk.toString()
        const at = /"address":"([^"]+)"/.exec(this.log)?.[1]
        if (at) found("http://" + at)
      }
      child.stdout!.on("data", read)
      child.stderr!.on("data", read)
      child.on("exit", (code) => failed(new Error(`stepwell serve ended with ${code}:\n${this.log}`)))
    })
    if (dev) {
      this.front ??= await frontOf(() => this.behind, dev)
      const at = this.front.address() as { port: number }
      this.url = `http://127.0.0.1:${at.port}`
    } else this.url = this.behind
    await this.until(async () => (await fetch(this.behind + "/api/v1/ready")).ok)
    return this
  }

  /** kill ends the process at once, as a crash does. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise((done) => child.on("exit", done))
    child.kill(signal)
    await ended
  }

  async stop(): Promise<void> {
    await this.kill("SIGTERM")
    this.front?.closeAllConnections()
    this.front?.close()
    rmSync(this.dir, { recursive: true, force: true })
  }

  /** ask calls the API as a program does. */
  async ask<T = any>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
    const auth: Record<string, string> = this.token ? { Authorization: `Bearer ${this.token}` } : {}
    const text = typeof body === "string" ? body : body === undefined ? undefined : JSON.stringify(body)
    const response = await fetch(this.behind + "/api/v1" + path, { method, headers: { "Content-Type": "application/json", ...auth, ...headers }, body: text })
    const answer = await response.text()
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${answer}`)
    return (answer ? JSON.parse(answer) : undefined) as T
  }

  /** run starts an execution of a definition (an object), and waits for its end unless that is false. */
  async run(definition: object, params: object = {}, wait = true): Promise<any> {
    const x = await this.ask("POST", "/execute", { workflow_definition: definition, params })
    return wait ? this.ended(x.execution_id) : x
  }

  /** ended waits for the end of an execution. */
  async ended(id: string): Promise<any> {
    let now: any
    await this.until(async () => {
      now = await this.ask("GET", `/executions/${id}?wait_seconds=30`)
      return !["pending", "running", "cancelling"].includes(now.status)
    })
    return now
  }

  async until(is: () => Promise<boolean>): Promise<void> {
    const end = Date.now() + 60_000
    for (;;) {
      try {
        if (await is()) return
      } catch (err) {
        if (Date.now() > end) throw err
      }
      if (Date.now() > end) throw new Error("it did not come about within a minute\n" + this.log.slice(-2000))
      await new Promise((r) => setTimeout(r, 20))
    }
  }

  /** file writes a file that steps of the server may read. */
  file(name: string, text: string): string {
    const path = join(this.dir, name)
    writeFileSync(path, text)
    return path
  }
}

// frontOf serves the pages of a folder as package web does, and passes all else on.
async function frontOf(behind: () => string, dist: string): Promise<HTTP> {
  const policy = /const policy = "([^"]+)"/.exec(readFileSync(new URL("../../web.go", import.meta.url), "utf8"))![1]!
  const kinds: Record<string, string> = { ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".json": "application/json" }
  const front = createServer((req, res) => {
    const path = new URL(req.url!, "http://x").pathname
    try {
      if (path.startsWith("/assets/")) {
        res.writeHead(200, { "Content-Type": kinds[extname(path)] ?? "", "Content-Encoding": "gzip" }).end(readFileSync(join(dist, path + ".gz")))
        return
      }
    } catch {
      res.writeHead(404).end()
      return
    }
    if (req.headers.accept?.includes("text/html") && !path.startsWith("/api/") && path !== "/docs") {
      const page = gunzipSync(readFileSync(join(dist, "index.html.gz"))).toString().replace("{{.Base}}", "/").replace("{{.Nonce}}", "devnonce").replace("{{.Version}}", "dev")
      res.writeHead(200, { "Content-Type": "text/html", "Content-Security-Policy": policy.replace("%s", "devnonce") }).end(page)
      return
    }
    const to = request(behind() + req.url, { method: req.method, headers: req.headers }, (answer) => {
      res.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(res)
      answer.on("error", () => res.destroy()) // a stream whose server was killed
    })
    to.on("error", () => res.destroy())
    res.on("close", () => to.destroy())
    req.pipe(to)
  })
  front.on("upgrade", (req, socket, head) => {
    const { hostname, port } = new URL(behind())
    const to = connect(Number(port), hostname, () => {
      to.write(`${req.method} ${req.url} HTTP/1.1\r\n${Object.entries(req.headers).map(([k, v]) => `${k}: ${v}`).join("\r\n")}\r\n\r\n`)
      to.write(head)
      socket.pipe(to).pipe(socket)
    })
    to.on("error", () => socket.destroy())
    socket.on("error", () => to.destroy())
  })
  await new Promise<void>((done) => front.listen(0, "127.0.0.1", done))
  return front
}
