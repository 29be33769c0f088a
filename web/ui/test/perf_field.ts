// Executions of 100,000 steps: their first paint, the whole field, moving it, the next failure; and the same while steps change.
import { decode } from "../src/field/columns"
import { Measured, quantile, round, spread, times, within } from "./perf_page"
import type { Server } from "./server"

const frames = Number(process.env.FRAMES ?? 180)
// A server takes documents of 4 MiB, so that layers and diamonds are the bodies of a for_each.
const shapes: Record<string, object> = {
  fan: { name: "fan", steps: [{ id: "each", action: "util.fail", params: { message: "one" }, condition: "{{ item == 54321 }}", for_each: { items: 99_998, max_failures: "10%" } }, { id: "after", action: "util.noop", depends_on: ["each"] }] },
  layers: { name: "layers", steps: [{ id: "row", for_each: { items: 199 }, steps: Array.from({ length: 500 }, (_, i) => ({ id: `s${i}`, action: "util.noop", ...(i > 0 ? { depends_on: [`s${i - 1}`] } : {}) })) }] },
  diamonds: { name: "diamonds", steps: [{ id: "each", for_each: { items: 9_090 }, steps: diamond(8) }] },
}

/** fields100k is the definition of a shape. */
export const fields100k = (name: string) => shapes[name]!

function diamond(width: number) {
  const sides = Array.from({ length: width }, (_, i) => `side${i}`)
  return [{ id: "top", action: "util.noop" }, ...sides.map((id) => ({ id, action: "util.noop", depends_on: ["top"] })), { id: "bottom", action: "util.noop", depends_on: sides }]
}

/** moving drags the field, and takes the times between frames, until there were enough of them or something is over. */
export async function moving(m: Measured, over?: () => boolean, host = ".field-host") {
  const { page } = m
  const box = (await page.locator(host).boundingBox())!
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2]
  await page.evaluate(() => {
    window.measure.frames = []
    window.measure.moving = true
    const tick = (t: number) => {
      window.measure.frames.push(t)
      if (window.measure.moving) requestAnimationFrame(tick)
    }
    requestAnimationFrame(tick)
  })
  const before = await m.cpu()
  await page.mouse.move(x, y)
  await page.mouse.down()
  for (let i = 0; over ? !over() : i < frames; i++) {
    await page.mouse.move(x + 60 * Math.sin(i / 9), y + 40 * Math.cos(i / 7))
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(done)))
  }
  await page.mouse.up()
  const at = await page.evaluate(() => {
    window.measure.moving = false
    return window.measure.frames
  })
  const gaps = at.slice(1).map((t, i) => t - at[i]!)
  return { frames: gaps.length, p50: round(quantile(gaps, 0.5)), p95: round(quantile(gaps, 0.95)), worst: round(Math.max(...gaps)), cpu_per_frame: round(((await m.cpu()).task - before.task) / gaps.length) }
}

/** load opens an address in a context of its own: nothing is cached. */
async function load(browser: Parameters<typeof Measured.of>[0], url: string, selector: string, name: string) {
  const m = await Measured.of(browser)
  const ms = round(await m.profiled(name, () => m.open(url, selector)))
  return { m, ms, cpu: round((await m.cpu()).task) }
}

type Moved = Awaited<ReturnType<typeof moving>>

/** Figures of an execution of 100,000 steps. */
export interface Figures { first_meaningful_paint_ms: number; first_main_thread_ms: number; whole_field_ms: number; whole_main_thread_ms: number; next_failure_ms: number | null; far: Moved; near?: Moved; waterfall?: Moved; heap_mb?: number }

/** fields runs a shape; each call of what it gives measures its page. Short: without what only figures are wanted of. */
export async function fields(server: Server, name: string): Promise<() => Promise<Figures>> {
  const x = await server.run(shapes[name]!)
  return () => measure(server, x.execution_id, true)
}

async function measure(server: Server, id: string, short = false): Promise<Figures> {
  return within(async (browser) => {
    const first = await load(browser, `${server.url}/executions/${id}`, ".x-node, canvas[data-drawn]", "first")
    await first.m.close()
    const { m, ms, cpu } = await load(browser, `${server.url}/executions/${id}/graph?all=1`, "canvas[data-drawn]", "whole")
    const out: Figures = { first_meaningful_paint_ms: first.ms, first_main_thread_ms: first.cpu, whole_field_ms: ms, whole_main_thread_ms: cpu, far: await moving(m), next_failure_ms: null }
    const next = await m.from("keydown", "step")
    out.next_failure_ms = await m.profiled("next", async () => {
      await m.page.keyboard.press("]")
      return Promise.race([next().then(round), new Promise<null>((done) => setTimeout(done, 3000, null))])
    })
    if (short) {
      await m.close()
      return out
    }
    out.near = await moving(m)
    await m.open(`${server.url}/executions/${id}/waterfall`, "canvas[data-drawn]")
    out.waterfall = await moving(m)
    out.heap_mb = round((await m.cpu()).heap)
    await m.close()
    return out
  })
}

/** ended measures the shapes that are wanted, each several times. */
export async function ended(server: Server, wanted: string[], runs: number) {
  const out: Record<string, unknown> = {}
  for (const [name, definition] of Object.entries(shapes)) {
    if (!wanted.includes(name)) continue
    const x = await server.run(definition)
    out[name] = { steps: x.progress.total, status: x.status, tries: await times(runs, () => measure(server, x.execution_id)) }
  }
  return out
}

/** changing pans while the steps of an execution change as fast as the server can. They wait for a decision until the page is there. */
export async function changing(server: Server) {
  const items = Number(process.env.ITEMS ?? 399_998)
  const x = await server.run({ name: "busy", steps: [{ id: "go", action: "util.approval", params: { message: "go?" } }, { id: "each", action: "util.noop", depends_on: ["go"], for_each: { items } }] }, {}, false)
  return within(async (browser) => {
    const m = await Measured.of(browser)
    await m.open(`${server.url}/executions/${x.execution_id}/graph?all=1`, "canvas[data-drawn]")
    await m.page.evaluate(() => {
      new MutationObserver(() => window.measure.drawn.push(Date.now())).observe(document.querySelector(".field-host")!, { subtree: true, attributes: true, attributeFilter: ["data-drawn"] })
    })
    const { approvals } = await server.ask("GET", "/approvals")
    await server.ask("POST", `/approvals/${approvals[0].approval_id}/approve`, {})
    let over = false
    const end = server.ended(x.execution_id).finally(() => { over = true })
    const [panned, ended, shown] = await m.profiled("changing", async () => {
      const panned = await moving(m, () => over)
      const ended = await end
      await m.page.locator(".x-status").getByText("completed").waitFor()
      return [panned, ended, await m.page.evaluate(() => Date.now())] as const
    })
    const seen = await m.page.evaluate(() => ({ drawn: window.measure.drawn, messages: window.measure.messages.map(({ at, body }) => ({ at, body: [...new Uint8Array(body)] })) }))
    const seconds = (Date.parse(ended.completed_at) - Date.parse(ended.started_at)) / 1000
    return { ...panned, steps: ended.progress.total, seconds: round(seconds), ...behind(seen), end_shown_after_ms: shown - Date.parse(ended.completed_at), heap_mb: round((await m.cpu()).heap) }
  })
}

// behind says how long after the newest step of a message had begun or ended the field was drawn with it.
function behind({ drawn, messages }: { drawn: number[]; messages: { at: number; body: number[] }[] }) {
  const late: number[] = []
  let [changes, again, from, to] = [0, 0, Infinity, 0]
  for (const { at, body } of messages) {
    const { header, column } = decode(Uint8Array.from(body).buffer)
    if (header.again) again++
    if (header.rows === 0) continue
    changes += header.rows
    from = Math.min(from, at)
    to = Math.max(to, at)
    const [start, duration] = [column("start")!, column("duration")!]
    let newest = 0
    for (let i = 0; i < header.rows; i++) if (start[i]! > 0) newest = Math.max(newest, start[i]! - 1 + duration[i]!)
    const painted = drawn.find((d) => d >= at)
    if (newest > 0 && painted) late.push(painted - (header.began! + newest))
  }
  return { messages: messages.length, fetched_again: again, changes, changes_per_second: Math.round((changes * 1000) / Math.max(1, to - from)), drawn_behind_ms: late.length ? { ...spread(late), p95: round(quantile(late, 0.95)) } : null }
}
