// Measures the page of an execution with 100,000 steps in a real Chromium with its default flags (ui.md §11, rows 3 to 6), and prints
// JSON. It is no test: run it on a quiet machine.
//
//   STEPWELL_BINARY=/path/to/stepwell npm run perf          # RUNS=3 FRAMES=180 SHAPES=fan,layers,diamonds,changing,map
import { chromium, type CDPSession, type Page } from "playwright-core"
import { map } from "./perf_map"
import { Server } from "./server"

const runs = Number(process.env.RUNS ?? 3)
const frames = Number(process.env.FRAMES ?? 180)
const wanted = (process.env.SHAPES ?? "fan,layers,diamonds,changing,map").split(",")
// A server takes documents of 4 MiB, so that layers and diamonds are the bodies of a for_each.
const shapes: Record<string, object> = {
  fan: { name: "fan", steps: [{ id: "each", action: "util.fail", params: { message: "one" }, condition: "{{ item == 54321 }}", for_each: { items: 99_998, max_failures: "10%" } }, { id: "after", action: "util.noop", depends_on: ["each"] }] },
  layers: { name: "layers", steps: [{ id: "row", for_each: { items: 199 }, steps: Array.from({ length: 500 }, (_, i) => ({ id: `s${i}`, action: "util.noop", ...(i > 0 ? { depends_on: [`s${i - 1}`] } : {}) })) }] },
  diamonds: { name: "diamonds", steps: [{ id: "each", for_each: { items: 9_090 }, steps: diamond(8) }] },
}

function diamond(width: number) {
  const sides = Array.from({ length: width }, (_, i) => `side${i}`)
  return [{ id: "top", action: "util.noop" }, ...sides.map((id) => ({ id, action: "util.noop", depends_on: ["top"] })), { id: "bottom", action: "util.noop", depends_on: sides }]
}

const cpu = async (cdp: CDPSession) => {
  const { metrics } = await cdp.send("Performance.getMetrics")
  const of = (name: string) => metrics.find((m) => m.name === name)?.value ?? 0
  return { task: of("TaskDuration") * 1000, heap: of("JSHeapUsedSize") / 1e6 }
}

const quantile = (list: number[], q: number) => [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * q))] ?? 0
const round = (n: number) => Math.round(n * 10) / 10

/** moving drags the field for some frames, and takes the times between them. */
async function moving(page: Page, cdp: CDPSession, host = ".field-host") {
  const box = (await page.locator(host).boundingBox())!
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2]
  const before = await cpu(cdp)
  await page.evaluate(() => {
    const w = window as unknown as { times: number[]; stop: boolean }
    w.times = []
    w.stop = false
    const tick = (t: number) => {
      w.times.push(t)
      if (!w.stop) requestAnimationFrame(tick)
    }
    requestAnimationFrame(tick)
  })
  await page.mouse.move(x, y)
  await page.mouse.down()
  for (let i = 0; i < frames; i++) {
    await page.mouse.move(x + 60 * Math.sin(i / 9), y + 40 * Math.cos(i / 7))
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(done)))
  }
  await page.mouse.up()
  const times = await page.evaluate(() => {
    const w = window as unknown as { times: number[]; stop: boolean }
    w.stop = true
    return w.times
  })
  const gaps = times.slice(1).map((t, i) => t - times[i]!)
  return { frames: gaps.length, p50: round(quantile(gaps, 0.5)), p95: round(quantile(gaps, 0.95)), worst: round(Math.max(...gaps)), cpu_per_frame: round(((await cpu(cdp)).task - before.task) / gaps.length) }
}

async function measure(server: Server, id: string) {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] })
  try {
    const page = await (await browser.newContext({ viewport: { width: 1600, height: 900 } })).newPage()
    const cdp = await page.context().newCDPSession(page)
    await cdp.send("Performance.enable", { timeDomain: "threadTicks" })
    const out: Record<string, unknown> = {}
    let begun = Date.now()
    await page.goto(`${server.url}/executions/${id}`)
    await page.locator(".x-node, canvas[data-drawn]").first().waitFor()
    out.first_meaningful_paint_ms = Date.now() - begun
    begun = Date.now()
    await page.goto(`${server.url}/executions/${id}/graph?all=1`)
    await page.locator("canvas[data-drawn]").waitFor()
    out.whole_field_ms = Date.now() - begun
    out.main_thread_ms = round((await cpu(cdp)).task)
    out.far = await moving(page, cdp)
    begun = Date.now()
    await page.keyboard.press("]")
    await page.waitForFunction(() => new URL(location.href).searchParams.has("step"), undefined, { timeout: 3000 }).then(() => { out.next_failure_ms = Date.now() - begun }, () => { out.next_failure_ms = null })
    out.near = await moving(page, cdp)
    await page.goto(`${server.url}/executions/${id}/waterfall`)
    await page.locator("canvas[data-drawn]").waitFor()
    out.waterfall = await moving(page, cdp)
    out.heap_mb = round((await cpu(cdp)).heap)
    return out
  } finally {
    await browser.close()
  }
}

/** changing pans while an execution runs, whose states change as fast as the server can. */
async function changing(server: Server) {
  const x = await server.run({ name: "busy", steps: [{ id: "each", action: "util.noop", for_each: { items: 99_999 } }] }, {}, false)
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] })
  try {
    const page = await (await browser.newContext({ viewport: { width: 1600, height: 900 } })).newPage()
    const cdp = await page.context().newCDPSession(page)
    await cdp.send("Performance.enable", { timeDomain: "threadTicks" })
    await page.goto(`${server.url}/executions/${x.execution_id}/fan`)
    await page.locator("canvas[data-drawn]").waitFor()
    const done = async () => (await server.ask("GET", `/executions/${x.execution_id}`)).progress.completed as number
    const [from, at] = [await done(), Date.now()]
    const panned = await moving(page, cdp)
    const changed = (await done()) - from
    await server.until(async () => (await server.ask("GET", `/executions/${x.execution_id}`)).status === "completed")
    const ended = Date.now()
    await page.locator(".x-status").getByText("completed").waitFor()
    return { ...panned, changes_per_second: Math.round((changed * 1000) / Math.max(1, ended - at)), end_shown_after_ms: Date.now() - ended, heap_mb: round((await cpu(cdp)).heap) }
  } finally {
    await browser.close()
  }
}

export async function main() {
  const server = await new Server().start()
  const result: Record<string, unknown> = { shapes: {} }
  try {
    for (const [name, definition] of Object.entries(shapes)) {
      if (!wanted.includes(name)) continue
      const x = await server.run(definition)
      const tries = []
      for (let i = 0; i < runs; i++) tries.push(await measure(server, x.execution_id))
      ;(result.shapes as Record<string, unknown>)[name] = { steps: x.progress.total, status: x.status, tries }
    }
    if (wanted.includes("map")) result.map = await map(server, runs, moving)
    if (wanted.includes("changing")) result.changing = await changing(server)
  } finally {
    await server.stop()
  }
  console.log(JSON.stringify(result, null, 2))
}
