// A page that is measured: times are taken inside of it, by its own clock, and processor time is that of its main thread alone.
import { writeFileSync } from "node:fs"
import { chromium, type Browser, type CDPSession, type Page } from "playwright-core"

/** within has a new browser, which has opened one page already, so that what it does once in its life is not counted. */
export async function within<T>(act: (browser: Browser) => Promise<T>): Promise<T> {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] })
  try {
    const page = await browser.newPage()
    await page.goto("data:text/html,<canvas></canvas>")
    await page.close()
    return await act(browser)
  } finally {
    await browser.close()
  }
}

/** Measured is a page of its own context: nothing is cached or stored. */
export class Measured {
  private constructor(readonly page: Page, private readonly cdp: CDPSession) {}

  static async of(browser: Browser, width = 1600, height = 900): Promise<Measured> {
    const page = await (await browser.newContext({ viewport: { width, height } })).newPage()
    const cdp = await page.context().newCDPSession(page)
    await cdp.send("Performance.enable", { timeDomain: "threadTicks" })
    await page.addInitScript(inPage)
    return new Measured(page, cdp)
  }

  /** open goes to an address and gives the milliseconds from the navigation until a selector was painted. */
  async open(url: string, selector: string): Promise<number> {
    await this.page.goto(url, { waitUntil: "commit" })
    return this.page.evaluate((s) => window.measure.painted(s), selector)
  }

  /** from arms the clock: it starts with the next event of a type in the page; the promise is the milliseconds until a test holds and
   * is painted. */
  async from(type: string, test: string): Promise<() => Promise<number>> {
    await this.page.evaluate(([t, e]) => window.measure.from(t!, e!), [type, test])
    return () => this.page.evaluate(() => window.measure.taken!)
  }

  /** cpu is the milliseconds of the main thread since the page came, and its heap in megabytes. */
  async cpu(): Promise<{ task: number; heap: number }> {
    const { metrics } = await this.cdp.send("Performance.getMetrics")
    const of = (name: string) => metrics.find((m) => m.name === name)?.value ?? 0
    return { task: of("TaskDuration") * 1000, heap: of("JSHeapUsedSize") / 1e6 }
  }

  /** collected is the heap in megabytes, with the memory of arrays, once what nothing needs any more is gone. */
  async collected(): Promise<number> {
    await this.cdp.send("HeapProfiler.collectGarbage")
    // backingStorageSize is newer than the types of the protocol.
    const { usedSize, backingStorageSize } = (await this.cdp.send("Runtime.getHeapUsage")) as { usedSize: number; backingStorageSize: number }
    return (usedSize + backingStorageSize) / 1e6
  }

  /** profiled is act; with PROFILE, a folder, the profile of the main thread meanwhile is left there as a file with a name, which the
   * browser's developer tools open. */
  async profiled<T>(name: string, act: () => Promise<T>): Promise<T> {
    const folder = process.env.PROFILE
    if (!folder) return act()
    await this.cdp.send("Profiler.enable")
    await this.cdp.send("Profiler.setSamplingInterval", { interval: 500 })
    await this.cdp.send("Profiler.start")
    try {
      return await act()
    } finally {
      writeFileSync(`${folder}/${name}.cpuprofile`, JSON.stringify((await this.cdp.send("Profiler.stop")).profile))
    }
  }

  close() { return this.page.context().close() }
}

declare global {
  interface Window {
    measure: {
      painted: (selector: string) => Promise<number>
      from: (type: string, test: string) => void
      taken?: Promise<number>
      frames: number[]
      moving: boolean
      /** Messages of the field's stream with the time at which each came, and the times at which the field was drawn; ms since 1970. */
      messages: { at: number; body: ArrayBuffer }[]
      drawn: number[]
    }
  }
}

// inPage runs before the page's own scripts. It is sent as text: it may use nothing from outside.
function inPage() {
  // The frame after the one in which something is there begins when that one has been painted. What is drawn within a frame, behind this
  // look in it, is seen there too: else its picture would count one frame too late.
  const when = (is: () => boolean) => new Promise<number>((done) => {
    let [within, found] = [false, false]
    const over = new MessageChannel() // a task comes behind the frame
    over.port1.onmessage = () => { within = false }
    const end = () => {
      found = true
      watch.disconnect()
      requestAnimationFrame(() => done(performance.now()))
    }
    const watch = new MutationObserver(() => { if (within && !found && is()) end() })
    watch.observe(document, { subtree: true, childList: true, attributes: true })
    const look = () => {
      if (found) return
      if (is()) return end()
      within = true
      over.port2.postMessage(null)
      requestAnimationFrame(look)
    }
    if (is()) end()
    else requestAnimationFrame(look)
  })
  window.measure = {
    painted: (selector) => when(() => document.querySelector(selector) !== null),
    from(type, test) {
      const holds = ({
        step: () => { const was = document.querySelector<HTMLElement>("canvas[data-drawn]")?.dataset.drawn; return () => location.search.includes("step=") && document.querySelector<HTMLElement>("canvas[data-drawn]")?.dataset.drawn !== was },
      } as Record<string, () => () => boolean>)[test]?.() ?? (() => document.querySelector(test) !== null)
      window.measure.taken = new Promise((done) => {
        addEventListener(type, (e) => void when(holds).then((at) => done(at - e.timeStamp)), { once: true, capture: true })
      })
    },
    frames: [],
    moving: false,
    messages: [],
    drawn: [],
  }
  const Plain = window.WebSocket
  window.WebSocket = class extends Plain {
    constructor(url: string | URL) {
      super(url)
      if (String(url).includes("/field/stream")) this.addEventListener("message", (e) => { if (e.data instanceof ArrayBuffer) window.measure.messages.push({ at: Date.now(), body: e.data.slice(0) }) })
    }
  } as typeof WebSocket
}

export const quantile = (list: number[], q: number) => [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * q))] ?? 0
export const round = (n: number) => Math.round(n * 10) / 10
/** spread is the best, the middle and the worst of some tries. */
export const spread = (list: number[]) => ({ best: round(Math.min(...list)), middle: round(quantile(list, 0.5)), worst: round(Math.max(...list)) })

/** times does something several times, one after the other. */
export async function times<T>(n: number, act: (i: number) => Promise<T>): Promise<T[]> {
  const out: T[] = []
  for (let i = 0; i < n; i++) out.push(await act(i))
  return out
}
