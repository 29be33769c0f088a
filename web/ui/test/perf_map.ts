// Measures the map with 100,000 footprints (ui.md §11, row 13).
import { chromium } from "playwright-core"
import type { Server } from "./server"

const count = 100_000

/** map runs a stream of that many items, and opens its map. */
export async function map(server: Server, runs: number, moving: (page: import("playwright-core").Page, cdp: import("playwright-core").CDPSession, host: string) => Promise<object>) {
  const lines = Array.from({ length: count }, (_, i) => {
    const [x, y] = [((i * 137.508) % 358) - 179, ((i * 61.803) % 150) - 75]
    return JSON.stringify({ id: `item-${i}`, n: i % 200 === 0 ? "text" : i, bbox: [x, y, x + 1, y + 1] })
  })
  const path = server.file("footprints.ndjson", lines.join("\n") + "\n")
  const x = await server.run({ name: "footprints", settings: { output_failures: path.replace(".nd", ".failures.") }, steps: [
    { id: "read", module: "stream.read", config: { path } },
    { id: "some", module: "stream.filter", depends_on: ["read"], config: { when: "item.n + 1 > 0" } },
    { id: "write", module: "stream.write", depends_on: ["some"], config: { path: path.replace(".nd", ".out.nd") } },
  ] })
  const tries = []
  for (let i = 0; i < runs; i++) {
    const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] })
    try {
      const page = await (await browser.newContext({ viewport: { width: 1600, height: 900 } })).newPage()
      const cdp = await page.context().newCDPSession(page)
      await cdp.send("Performance.enable", { timeDomain: "threadTicks" })
      const begun = Date.now()
      await page.goto(`${server.url}/map?execution=${x.execution_id}`)
      await page.locator("canvas[data-drawn]").waitFor()
      tries.push({ drawn_ms: Date.now() - begun, ...(await moving(page, cdp, ".map-host")) })
    } finally {
      await browser.close()
    }
  }
  return { footprints: count, tries }
}
