// Pictures of screens that are the same wherever they are taken: the page's code is real, and what the API answers is what it answered
// when the pictures were made; the clock stands at that time, fonts are those beside the pictures.
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { hostname } from "node:os"
import { gunzipSync, gzipSync } from "node:zlib"
import { chromium, type Browser, type Page } from "playwright-core"
import type { Server } from "./server"

export const folder = new URL("./pictures/", import.meta.url)
const size = { width: 1440, height: 900 }
const host = "http://stepwell.test"

interface Answer { status: number; type: string; etag?: string; body: string }
export interface Recording { chromium: string; now: number; screens: Record<string, string>; answers: Record<string, Answer> }

/** kept is the recording beside the pictures; undefined before the first one. */
export function kept(): Recording | undefined {
  const file = new URL("answers.json.gz", folder)
  return existsSync(file) ? (JSON.parse(gunzipSync(readFileSync(file)).toString()) as Recording) : undefined
}

export const keep = (r: Recording) => writeFileSync(new URL("answers.json.gz", folder), gzipSync(JSON.stringify(r), { level: 9 }))

// nameless is an answer without the name of the machine; it stays as long as it is, for it may be columns.
function nameless(body: Buffer): Buffer {
  const name = new RegExp(`${hostname().replace(/\W/g, "\\$&")}-\\d+`, "g")
  return Buffer.from(body.toString("latin1").replace(name, (n) => "worker-1".padEnd(n.length, "0").slice(0, n.length)), "latin1")
}

// stepsOf answers a request for some steps by their index from all that is recorded of them: how many are asked for at once is a
// matter of how fast a page is.
function stepsOf(r: Recording, what: string): Answer | undefined {
  const [, head, asked] = /^(GET .*\/steps\?index=)([\d,]+)/.exec(what) ?? []
  const same = Object.entries(r.answers).filter(([k]) => head && k.startsWith(head)).map(([, a]) => a)
  if (!same[0]) return undefined
  const all = same.flatMap((a) => (JSON.parse(Buffer.from(a.body, "base64").toString()) as { steps: { index: number }[] }).steps)
  const steps = asked!.split(",").map((i) => all.find((s) => s.index === Number(i)))
  return steps.includes(undefined) ? undefined : { ...same[0], body: Buffer.from(JSON.stringify({ steps })).toString("base64") }
}

/** Camera is a browser that takes them. Recording: it asks the server, and keeps what it answers. */
export class Camera {
  /** What was asked for that the recording does not have. */
  readonly missing = new Set<string>()
  private open = 0

  private constructor(readonly browser: Browser, readonly page: Page) {}

  static async of(server: Server, r: Recording, recording: boolean): Promise<Camera> {
    const port = new URL(server.url).port
    const browser = await chromium.launch({
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      args: ["--no-sandbox", "--font-render-hinting=none", "--disable-lcd-text", "--force-color-profile=srgb", "--hide-scrollbars", `--host-resolver-rules=MAP stepwell.test:80 127.0.0.1:${port}`],
    })
    const context = await browser.newContext({ viewport: size, deviceScaleFactor: 1, colorScheme: "light", reducedMotion: "reduce", timezoneId: "UTC", locale: "en-US" })
    const camera = new Camera(browser, await context.newPage())
    await camera.page.clock.setFixedTime(r.now)
    await context.addInitScript(still)
    await context.route(host + "/assets/index.css", async (route) => {
      const answer = await route.fetch({ url: server.url + "/assets/index.css" })
      const face = (name: string, file: string, weight: number) => `@font-face{font-family:${name};src:url(./picture-${file}.woff2);font-weight:${weight};font-display:block}`
      await route.fulfill({ contentType: "text/css", body: `${await answer.text()}\n${face("picture-sans", "sans", 400)}${face("picture-sans", "bold", 700)}${face("picture-mono", "mono", 400)}:root{--sans:picture-sans;--mono:picture-mono}` })
    })
    await context.route(host + "/assets/picture-*", (route) => route.fulfill({ contentType: "font/woff2", body: readFileSync(new URL(/picture-(\w+\.woff2)/.exec(route.request().url())![1]!, folder)) }))
    await context.route(host + "/api/v1/**", async (route) => {
      const request = route.request()
      const what = [request.method(), request.url().slice(host.length), request.postData() ?? ""].join(" ").trim()
      camera.open++
      try {
        if (recording) {
          const { accept = "*/*", "content-type": type = "application/json" } = request.headers()
          const answer = await fetch(server.url + request.url().slice(host.length), { method: request.method(), headers: { accept, "content-type": type }, body: request.postData() })
          r.answers[what] ??= { status: answer.status, type: answer.headers.get("content-type") ?? "", etag: answer.headers.get("etag") ?? undefined, body: nameless(Buffer.from(await answer.arrayBuffer())).toString("base64") }
        }
        const a = r.answers[what] ?? stepsOf(r, what)
        if (!a) camera.missing.add(what.slice(0, 300))
        await route.fulfill(a ? { status: a.status, contentType: a.type, headers: a.etag ? { etag: a.etag } : {}, body: Buffer.from(a.body, "base64") } : { status: 503 })
      } finally {
        camera.open--
      }
    })
    return camera
  }

  /** show opens an address, and waits until nothing is loaded any more. */
  async show(path: string): Promise<void> {
    await this.page.emulateMedia({ colorScheme: "light" })
    await this.page.goto(host + path)
    await this.page.locator("h1, .x-tabs").first().waitFor()
  }

  /** take is the picture of what is shown: when two that were taken one after the other are the same. */
  async take(theme: "light" | "dark"): Promise<Buffer> {
    await this.page.emulateMedia({ colorScheme: theme })
    let last: Buffer = Buffer.alloc(0)
    for (let i = 0; i < 60; i++) {
      await this.page.evaluate(() => document.fonts.ready.then(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))))
      const busy = this.open > 0 || (await this.page.locator("[role=status][aria-label=loading]").count()) > 0
      const now: Buffer = busy ? Buffer.alloc(0) : await this.page.screenshot({ animations: "disabled" })
      if (!busy && now.equals(last)) return now
      last = now
      await this.page.waitForTimeout(i < 3 ? 40 : 150)
    }
    throw new Error(`${this.page.url()} does not come to rest`)
  }

  close() { return this.browser.close() }
}

// still stands in for what comes by itself: the stream says that it is there, and then nothing.
function still() {
  window.EventSource = class extends EventTarget {
    onerror = null
    constructor() {
      super()
      const version = () => document.querySelector<HTMLMetaElement>("meta[name=stepwell-version]")!.content
      setTimeout(() => this.dispatchEvent(new MessageEvent("hello", { data: JSON.stringify({ data: { version: version(), resumed: true } }) })))
    }
    close() { /* there is nothing to close */ }
  } as unknown as typeof EventSource
  window.WebSocket = class extends EventTarget {
    readyState = 0
    send() { /* nobody listens */ }
    close() { /* there is nothing to close */ }
  } as unknown as typeof WebSocket
}
