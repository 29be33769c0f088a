// A real Chromium. Whatever a page says on its console, every violation of its policy, and every request to another origin fails the test.
import { hostname } from "node:os"
import AxeBuilder from "@axe-core/playwright"
import { chromium, type Browser, type BrowserContext, type Locator, type Page } from "playwright-core"
import { expect } from "vitest"
import type { Server } from "./server"

let browser: Browser | undefined

type RunOnly = Parameters<AxeBuilder["options"]>[0]["runOnly"]

export interface Options {
  width?: number
  height?: number
  theme?: "light" | "dark"
  /** Console errors that a test causes on purpose, such as of a server that is down. */
  expected?: RegExp
}

/** open opens a page of the server in a context of its own (cookies, storage). */
export async function open(server: Server, path = "/", o: Options = {}): Promise<Opened> {
  browser ??= await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  })
  const context = await browser.newContext({ viewport: { width: o.width ?? 1440, height: o.height ?? 900 }, colorScheme: o.theme ?? "light", reducedMotion: "reduce", timezoneId: "UTC", locale: "en-US", permissions: ["clipboard-read", "clipboard-write"] })
  context.setDefaultTimeout(Number(process.env.PATIENCE ?? 90_000)) // a state comes when it comes: the machine may have much else to do
  const page = await context.newPage()
  const opened = new Opened(server, context, page, o)
  await page.goto(server.url + path)
  return opened
}

/** unnamed takes the name of this machine out of what a page shows, for a picture: workers are called by it. */
export const unnamed = (page: Page) => page.evaluate((name) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  for (let t = texts.nextNode(); t; t = texts.nextNode()) {
    const text = t.textContent!
    const at = text.indexOf(name + "-")
    if (at >= 0) t.textContent = text.slice(0, at) + text.slice(at).replace(name, "worker").replace(/-\d+/, "-1")
  }
}, hostname())

/** closeBrowser ends Chromium; call it in afterAll. */
export async function closeBrowser() {
  await browser?.close()
  browser = undefined
}

/**
 * looksRight opens a page in the light theme and on a phone, waits for what shows that it is there, and runs axe; then it turns the page
 * dark, where only colours can be another matter.
 */
export async function looksRight(server: Server, path: string, there: (page: Page) => Locator, o: Options = {}) {
  for (const look of [{ theme: "light" }, { width: 390, height: 844 }] as const) {
    const opened = await open(server, path, { ...o, ...look })
    await there(opened.page).waitFor()
    await opened.accessible(`${path} ${JSON.stringify(look)}`)
    if ("width" in look) await opened.fits(path)
    else await opened.darkToo(path)
    await opened.close()
  }
}

export class Opened {
  readonly faults: string[] = []

  constructor(readonly server: Server, readonly context: BrowserContext, readonly page: Page, o: Options) {
    page.on("console", (m) => { if ((m.type() === "error" || m.type() === "warning") && !o.expected?.test(m.text())) this.faults.push(`${m.type()}: ${m.text()} ${m.location().url}`) })
    page.on("pageerror", (e) => this.faults.push(`exception: ${e.message}`))
    page.on("request", (r) => {
      const url = new URL(r.url())
      if (url.protocol.startsWith("http") && url.origin !== new URL(server.url).origin) this.faults.push(`a request elsewhere: ${r.url()}`)
    })
  }

  /** accessible runs axe over the page as it is. In one call, as there are no frames, and for violations alone: a quarter of the time. */
  async accessible(where: string, runOnly: RunOnly = { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"] }) {
    const axe = new AxeBuilder({ page: this.page }).options({ resultTypes: ["violations"], runOnly })
    const { violations } = await axe.setLegacyMode().analyze()
    expect(violations.map((v) => `${where}: ${v.id}: ${v.nodes.map((n) => n.target.join(" ")).join(", ")}`)).toEqual([])
  }

  /** darkToo turns the page dark and looks at its colours. */
  async darkToo(where: string) {
    const background = () => this.page.evaluate(() => getComputedStyle(document.body).backgroundColor)
    const light = await background()
    await this.page.emulateMedia({ colorScheme: "dark" })
    await expect.poll(background).not.toBe(light)
    await this.accessible(`${where} dark`, { type: "rule", values: ["color-contrast", "link-in-text-block"] })
  }

  /** fits says that nothing is cut off sideways. */
  async fits(where: string) {
    const wide = await this.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
    expect(wide, `${where}: pixels that stick out`).toBeLessThanOrEqual(0)
  }

  /** close ends the context; the test fails if the page complained. */
  async close() {
    await this.context.close()
    expect(this.faults).toEqual([])
  }
}
