// An hour of one page that follows executions of 100,000 steps, one after the other (ui.md §11, row 5): what it keeps.
//
//   PARTS=hour MINUTES=60 PAUSE=0 ITEMS=99998     # PAUSE: seconds between two executions, so that the machine has time for others
import { readFileSync } from "node:fs"
import type { Browser } from "playwright-core"
import { Measured, round, within } from "./perf_page"
import type { Server } from "./server"

const minutes = Number(process.env.MINUTES ?? 60)
const pause = Number(process.env.PAUSE ?? 0)
const items = Number(process.env.ITEMS ?? 99_998)

interface Sample { minute: number; heap_mb: number; renderer_mb: number; executions: number; changes: number }

/** hour prints the heap of the page each minute, arrays included, after collecting garbage, and the memory that its process has of its own, workers and
 * arrays included. The page stays: one goes from one execution to the next within it. */
export async function hour(server: Server) {
  return within(async (browser) => {
    const m = await Measured.of(browser)
    const samples: Sample[] = []
    let [executions, changes, next] = [0, 0, 0]
    const begun = Date.now()
    const since = () => (Date.now() - begun) / 60_000
    const sample = async () => {
      if (since() < next) return
      const s = { minute: round(since()), heap_mb: round(await m.collected()), renderer_mb: round(await own(browser)), executions, changes }
      samples.push(s)
      next = Math.floor(since()) + 1
      console.error(JSON.stringify(s))
    }
    await m.open(`${server.url}/executions`, "main")
    while (since() < minutes) {
      const x = await server.run({ name: "hour", steps: [{ id: "go", action: "util.approval", params: { message: "go?" } }, { id: "each", action: "util.noop", depends_on: ["go"], for_each: { items } }] }, {}, false)
      await m.page.evaluate((to) => history.pushState(null, "", to), `${new URL(server.url).pathname.replace(/\/$/, "")}/executions/${x.execution_id}/graph?all=1`)
      await m.page.locator(`a[href*="${x.execution_id}"]`).first().waitFor()
      await m.page.locator("canvas[data-drawn]").waitFor()
      await server.ask("POST", `/approvals/${x.execution_id}.go/approve`, {})
      const ended = await server.ended(x.execution_id)
      await m.page.locator(".x-status").getByText("completed").waitFor()
      await m.page.evaluate(() => { window.measure.messages = []; window.measure.drawn = [] }) // what only the measurement keeps
      executions++
      changes += 2 * ended.progress.total
      for (const until = Date.now() + 1000 * pause; ;) {
        await sample()
        if (Date.now() >= until) break
        await new Promise((done) => setTimeout(done, 1000))
      }
    }
    next = 0
    await sample()
    return { minutes: round(since()), executions, changes, heap_mb: { first: samples[0]!.heap_mb, most: Math.max(...samples.map((s) => s.heap_mb)), last: samples.at(-1)!.heap_mb }, samples }
  })
}

// own is the memory in megabytes that the page's process shares with no file or other process; 0 where the system does not tell.
async function own(browser: Browser): Promise<number> {
  const cdp = await browser.newBrowserCDPSession()
  const { processInfo } = await cdp.send("SystemInfo.getProcessInfo")
  await cdp.detach()
  const sizes = processInfo.filter((p) => p.type === "renderer").map((p) => {
    try {
      return Number(/^RssAnon:\s+(\d+)/m.exec(readFileSync(`/proc/${p.id}/status`, "utf8"))?.[1] ?? 0) / 1024
    } catch {
      return 0
    }
  })
  return Math.max(0, ...sizes)
}
