// Measures the replay of an execution with 300,000 changes (ui.md §11, row 8): from the moved slider to the drawn picture.
import { chromium } from "playwright-core"
import type { Server } from "./server"

const jumps = Number(process.env.JUMPS ?? 60)

export async function replayed(server: Server, _runs = 1, items = 149_999, count = jumps) {
  const x = await server.run({ name: "replayed", steps: [{ id: "each", action: "util.noop", for_each: { items } }] })
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] })
  try {
    const page = await (await browser.newContext({ viewport: { width: 1600, height: 900 } })).newPage()
    let requests = 0
    const begun = Date.now()
    await page.goto(`${server.url}/executions/${x.execution_id}/fan?at=2`)
    await page.locator("canvas[data-drawn]").waitFor()
    await page.getByText("commit 2 of").waitFor()
    const first_moment_ms = Date.now() - begun
    page.on("request", (r) => { if (/\/field|events\.columns/.test(r.url())) requests++ })
    const took: number[] = []
    for (let k = 0; k < count; k++) {
      took.push(await page.evaluate((part) => new Promise<number>((done) => {
        const slider = document.querySelector<HTMLInputElement>(".x-replay input[type=range]")!
        const canvas = document.querySelector<HTMLCanvasElement>("canvas[data-drawn]")!
        const before = canvas.dataset.drawn
        const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")!.set!
        const from = performance.now()
        new MutationObserver((_, o) => {
          if (canvas.dataset.drawn === before) return
          o.disconnect()
          done(performance.now() - from)
        }).observe(canvas, { attributes: true })
        let to = 1 + Math.floor(part * Number(slider.max))
        if (String(to) === slider.value) to += to > 1 ? -1 : 1 // where it is there is nothing to draw
        set.call(slider, String(to))
        slider.dispatchEvent(new Event("input", { bubbles: true }))
      }), (k * 0.618034 + 0.1) % 1))
      await page.waitForTimeout(300) // what is asked for when the slider rests is not part of a jump
    }
    took.sort((a, b) => a - b)
    const of = (q: number) => Math.round(took[Math.min(took.length - 1, Math.floor(took.length * q))]! * 10) / 10
    const answer = await fetch(`${server.url}/api/v1/executions/${x.execution_id}/events.columns`)
    const raw = await answer.arrayBuffer()
    const changes = (JSON.parse(new TextDecoder().decode(new Uint8Array(raw, 8, new DataView(raw).getUint32(4, true)))) as { total: number }).total
    return { changes, first_moment_ms, jump_ms: { p50: of(0.5), p95: of(0.95), most: of(1) }, requests }
  } finally {
    await browser.close()
  }
}
