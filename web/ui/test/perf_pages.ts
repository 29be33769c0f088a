// The other pages: home, a log of 1,000,000 lines, the editor with 200 steps, search, and a server that is killed.
import { Measured, quantile, round, spread, times, within } from "./perf_page"
import { asks } from "./definitions"
import type { Server } from "./server"

/** home is the first paint of a browser that has nothing in its cache, and when what Home is for was there. */
export const home = (server: Server, runs: number) => within(async (browser) => {
  const tries = await times(runs, async () => {
    const m = await Measured.of(browser)
    const shown = await m.open(server.url + "/", ".tiles, .begin")
    // Told after the frame was shown: it may not be there yet.
    const first = await m.page.evaluate(() => new Promise<number>((done) => new PerformanceObserver((list) => { for (const e of list.getEntriesByName("first-contentful-paint")) done(e.startTime) }).observe({ type: "paint", buffered: true })))
    const { task } = await m.cpu()
    await m.close()
    return { first, shown, task }
  })
  return { first_paint_ms: spread(tries.map((t) => t.first)), shown_ms: spread(tries.map((t) => t.shown)), main_thread_ms: spread(tries.map((t) => t.task)) }
})

/** log opens the log of an execution, jumps to its beginning and searches it. */
export async function log(server: Server, runs: number) {
  const each = 5000 // of a step as many are stored as they come, none is left out
  const parts = Number(process.env.LINES ?? 1_000_000) / each
  const x = await server.run({ name: "talker", steps: [{ id: "say", action: "util.exec", for_each: { items: parts, max_concurrency: 4 }, params: { command: `seq -f 'line {{ item }} %.0f of the log' ${each}` } }] })
  const { lines: total } = await server.ask("GET", `/executions/${x.execution_id}/logs/histogram?spans=1`)
  return within(async (browser) => {
    const tries = await times(runs, async (i) => {
      const m = await Measured.of(browser)
      const open = await m.open(`${server.url}/executions/${x.execution_id}/log`, ".log-line")
      await m.page.getByRole("slider", { name: "Where in the log" }).focus()
      const jump = await m.from("keydown", ".log-line[data-chosen]")
      await m.page.keyboard.press("Home")
      const jumped = await jump()
      const box = m.page.getByRole("searchbox", { name: "Search in the log" })
      const rare = await m.from("input", ".log-line mark")
      await box.fill(`line ${parts / 2} ${each - i} of`)
      const hits = await rare()
      await m.close()
      return { open, jumped, hits }
    })
    return { status: x.status, lines: total, open_ms: spread(tries.map((t) => t.open)), jump_ms: spread(tries.map((t) => t.jumped)), first_hits_ms: spread(tries.map((t) => t.hits)) }
  })
}

/** editor types a fault into a pipeline of 200 steps, and drops an action onto its graph. */
export async function editor(server: Server, runs: number) {
  const steps = Array.from({ length: 200 }, (_, i) => `  - id: s${i}\n    action: util.log\n    params: {message: "step ${i}"}\n${i < 10 ? "" : `    depends_on: [s${i - 10}]\n`}`)
  const { pipeline_id: id } = await server.ask("POST", "/pipelines", { document: `name: long\nsteps:\n${steps.join("")}` })
  return within(async (browser) => {
    const tries = await times(runs, async () => {
      const m = await Measured.of(browser)
      const { page } = m
      const open = await m.open(`${server.url}/pipelines/${id}/edit`, ".react-flow__node")
      await page.getByText("0 errors").waitFor()
      await page.getByRole("searchbox", { name: "Search actions" }).fill("util.wait")
      const laid = await m.from("drop", '.react-flow__node[data-id="wait"]')
      const dropped = await m.profiled("drop", async () => {
        await page.getByRole("complementary", { name: "Pieces" }).getByRole("button", { name: /util\.wait/ }).first().dragTo(page.locator(".graph-pane"))
        return laid()
      })
      await page.getByText("0 errors").waitFor()
      await page.getByRole("textbox", { name: "Pipeline as text" }).click()
      await page.keyboard.press("Control+End")
      const shown = await m.from("keydown", ".editor-errors")
      const problem = await m.profiled("key", async () => {
        await page.keyboard.press("x")
        return shown()
      })
      await m.close()
      return { open, dropped, problem }
    })
    return { open_ms: spread(tries.map((t) => t.open)), key_to_problem_ms: spread(tries.map((t) => t.problem)), drop_to_laid_out_ms: spread(tries.map((t) => t.dropped)) }
  })
}

/** search asks for what is found by a few letters, as the palette does. */
export async function search(server: Server) {
  const took = await times(200, async (i) => {
    const begun = performance.now()
    await server.ask("GET", `/search?q=${["lo", "fan", "say", "e", "zzz"][i % 5]}`)
    return performance.now() - begun
  })
  return { ...spread(took), p99: round(quantile(took, 0.99)) }
}

/** kill kills the server while a page shows an execution that waits, and starts it again; then the execution goes on to its end. */
export async function kill(server: Server, runs: number) {
  return within(async (browser) => {
    const tries = await times(runs, async () => {
      const x = await server.run(asks, {}, false)
      const m = await Measured.of(browser)
      await m.open(`${server.url}/executions/${x.execution_id}`, '.live[data-on="true"]')
      await server.kill()
      await m.page.locator('.live[data-on="false"]').first().waitFor()
      const begun = Date.now()
      await server.start()
      const started = Date.now()
      const back = await m.page.evaluate(() => window.measure.painted('.live[data-on="true"]').then(() => Date.now()))
      await server.ask("POST", `/approvals/${x.execution_id}.ok/approve`, {})
      await m.page.locator(".x-status").getByText("completed").waitFor()
      await m.close()
      return { ready: started - begun, back: back - begun }
    })
    return { server_ready_ms: spread(tries.map((t) => t.ready)), page_back_ms: spread(tries.map((t) => t.back)) }
  })
}
