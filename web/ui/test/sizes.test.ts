// Every screen in four sizes: nothing sticks out, no text is cut off without saying so, and nothing that can be pressed lies over
// something else. One page is resized in place, and asked by a script inside of it.
import { afterAll, beforeAll, expect, test } from "vitest"
import type { Page } from "playwright-core"
import { screens } from "../src/screens/screens"
import { closeBrowser, open } from "./browser"
import { diamond } from "./definitions"
import { approval, as, hello, key, store } from "./seed"
import { Server } from "./server"

const sizes = [[2560, 1440], [1440, 900], [1280, 800], [390, 844]] as const

const one = { name: "thumbnails-of-all", steps: [{ id: "convert-images", action: "util.fail", params: { message: "no decoder for webp" } }] }
const waits = { name: "transcode-videos", settings: { concurrency: { key: "videos", limit: 1 }, sla: { max_seconds: 1 } }, steps: [{ id: "wait-for-files", action: "util.wait", params: { seconds: 3600 } }] }

let server: Server
/** The addresses of screens by their path; one without parameters needs none. */
let addresses: Record<string, string[]>
beforeAll(async () => {
  server = await new Server().start()
  const pipeline = await store(server, hello)
  const parted = await store(server, "name: parted\nparameters: [{name: place, type: string}, {name: month, type: string}]\nsettings: {partition: {by: [place, month], values: {place: {list: [Sentinel-2 over the whole of Europe, l9]}, month: {every: month, from: 2020-01, until: 2026-04}}}}\nsteps: [{id: a, action: util.noop}]\n")
  const { job_id } = await server.ask("POST", "/scheduler/jobs", { name: "A schedule with quite a long name, as people write them", schedule: { type: "cron", expression: "*/10 2 * * *", timezone: "Europe/Berlin" }, callback: { type: "workflow", workflow_id: pipeline } })
  const project = await server.ask("POST", "/projects", { name: "Geography of Asia", tags: "school, 2026" })
  // Names as people give them: none of them may be cut, in no list.
  const nightly = await store(server, "name: landsat-nightly\ndescription: Reads what came in the night.\nsettings: {sequential: true}\nsteps: [{id: fetch-scenes, action: util.noop}]\n")
  for (const name of ["landsat-nightly", "Report on Mondays"]) await server.ask("POST", "/scheduler/jobs", { name, schedule: { type: "cron", expression: "30 2 * * 1", timezone: "Europe/Berlin" }, callback: { type: "workflow", workflow_id: nightly } })
  await server.ask("POST", "/webhooks", { name: "Push to main", callback: { type: "workflow", workflow_id: nightly } })
  await server.ask("POST", "/event-triggers", { name: "New scenes", event_type: "execution_completed", callback: { type: "workflow", workflow_id: nightly } })
  await server.ask("PUT", "/secrets/warehouse_password", { value: "hunter2-and-more" })
  const { id: lesson } = await server.ask("POST", "/lessons", { project_id: project.id, name: "Rivers and lakes", tag: "grade 7" })
  await server.ask("POST", "/pipeline-runs", { lesson_id: lesson, pipeline_id: "landsat-nightly" })
  await server.run(one)
  for (let i = 0; i < 2; i++) await server.ended((await server.ask("POST", "/execute", { workflow_id: nightly })).execution_id)
  await server.ask("POST", "/execute", { workflow_id: await store(server, waits) })
  await server.ask("POST", "/execute", { workflow_id: "transcode-videos" })
  await server.run(approval("Deploy version 7 of the service with the long name to production, now?"), {}, false)
  const a = (await server.run(diamond)).execution_id
  const b = (await server.run(diamond)).execution_id
  addresses = {
    "/executions/:a/compare/:b": [`/executions/${a}/compare/${b}`],
    "/executions/:id/:tab?": [`/executions/${a}?step=check`, ...["waterfall", "fan", "table", "events", "log", "source?step=check"].map((tab) => `/executions/${a}/${tab}`),
      `/executions/${a}/waterfall?rows=worker&step=check&attempt=1&from=2026-01-01&to=2036-01-01`, `/executions/${a}/table?sel=${encodeURIComponent("convert[*] & (failed")}`],
    "/pipelines/:id/edit": [`/pipelines/${pipeline}/edit?step=greet`],
    "/pipelines/:id/:tab?": [`/pipelines/${pipeline}`, `/pipelines/${pipeline}/versions`, `/pipelines/${pipeline}/matrix`, `/pipelines/${parted}/partitions?partition=l9/2026-04`],
    "/queue": ["/queue", ...["runs", "workers"].map((tab) => `/queue?tab=${tab}`)],
    "/triggers": ["/triggers", "/triggers?tab=events"],
    "/schedules": ["/schedules", "/schedules?tab=calendar"],
    "/schedules/:id": [`/schedules/${job_id}`],
    "/projects/:id": [`/projects/${project.id}`, `/projects/${project.id}?tab=runs`],
    "/admin/:tab": ["keys", "secrets", "audit", "health"].map((tab) => `/admin/${tab}`),
  }
  server.token = await key(server, "admin")
})
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

/** ordinary is how many letters a text may have at least before it is cut. */
const ordinary = 25

/** wrong is what is wrong with the page as it is now. */
const wrong = (page: Page) => page.evaluate((ordinary) => {
  const found: string[] = []
  const root = document.documentElement
  if (root.scrollWidth > root.clientWidth) found.push(`the page is ${root.scrollWidth - root.clientWidth} pixels too wide`)
  const screen = document.querySelector("main")
  if (screen && screen.scrollWidth > screen.clientWidth) found.push(`the screen is ${screen.scrollWidth - screen.clientWidth} pixels too wide`)
  // These have a viewport of their own that scrolls or pans: the graph, the field, the text.
  const moved = ".react-flow, .field-host, .cm-editor, .hidden-text, .skip, [aria-hidden=true], [popover]"
  const named = (el: Element) => `${el.tagName.toLowerCase()}.${[...el.classList].join(".")} "${(el.textContent || el.getAttribute("aria-label") || "").trim().slice(0, 40)}"`
  const seen = (el: Element) => !el.closest(moved) && el.checkVisibility({ opacityProperty: true, visibilityProperty: true })
  type Box = { left: number; top: number; right: number; bottom: number }
  // clip is the part of a box that is not hidden by what it is inside of; hard: what hides it does so for good.
  const clip = (el: Element, box: Box) => {
    let [out, hard] = [{ left: box.left, top: box.top, right: box.right, bottom: box.bottom }, undefined as Element | undefined]
    for (let at: Element | null = el; at && at !== root; at = at.parentElement) {
      const style = getComputedStyle(at)
      if (style.overflowX === "visible" && style.overflowY === "visible") continue
      const r = at.getBoundingClientRect()
      if (r.width < 2 && r.height < 2) return { out: { left: 0, top: 0, right: 0, bottom: 0 }, hard: undefined } // for screen readers alone
      const cut = out.left < r.left - 1.5 || out.right > r.right + 1.5 || out.top < r.top - 1.5 || out.bottom > r.bottom + 1.5
      if (cut && (style.overflowX === "hidden" || style.overflowX === "clip") && style.textOverflow !== "ellipsis" && !style.webkitLineClamp.match(/\d/)) hard ??= at
      if (cut && (style.overflowX === "auto" || style.overflowX === "scroll") && at.clientHeight < 20 && at.scrollHeight > at.clientHeight + 1) hard ??= at
      // What is scrolled, or ends with an ellipsis, says that there is more.
      if (cut) out = { left: Math.max(out.left, r.left), top: Math.max(out.top, r.top), right: Math.min(out.right, r.right), bottom: Math.min(out.bottom, r.bottom) }
    }
    return { out, hard }
  }
  const [view, below] = [".x-main", ".x-replay"].map((s) => document.querySelector(s)?.getBoundingClientRect())
  if (view && below && view.bottom > below.top + 1) found.push(`the replay bar lies ${view.bottom - below.top} pixels over the view`)
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  for (let t = texts.nextNode(); t; t = texts.nextNode()) {
    const el = t.parentElement!
    if (!t.textContent!.trim() || ["SCRIPT", "STYLE", "NOSCRIPT", "OPTION"].includes(el.tagName) || !seen(el)) continue
    const range = document.createRange()
    range.selectNodeContents(t)
    const { hard } = clip(el, range.getBoundingClientRect())
    if (hard) found.push(`cut off: ${named(el)} by ${hard.tagName.toLowerCase()}.${[...hard.classList].join(".")}`)
  }
  // A name that is cut by an ellipsis must be a long one, and then the whole of it is told under the pointer.
  for (const el of document.querySelectorAll<HTMLElement>("main *, .topbar *")) {
    const { textOverflow, webkitLineClamp } = getComputedStyle(el)
    const by = Math.max(el.scrollWidth - el.clientWidth, webkitLineClamp === "none" ? 0 : el.scrollHeight - el.clientHeight)
    if (by <= 1 || textOverflow !== "ellipsis" || !seen(el)) continue
    const text = el.innerText.trim().replace(/\s+/g, " ")
    if (!text) continue
    if (text.length <= ordinary) found.push(`cut by ${by} pixels: ${named(el)} (${text.length} letters)`)
    el.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }))
    const told = [el, ...el.querySelectorAll("[title]")].map((at) => at.getAttribute("title") ?? "").join(" ").replace(/\s+/g, " ")
    if (!told) found.push(`cut, and not told under the pointer: ${named(el)}`)
  }
  const pressed = [...document.querySelectorAll("button, a[href], input, select, textarea, summary")].filter(seen).map((el) => ({ el, box: clip(el, el.getBoundingClientRect()).out })).filter(({ box }) => box.right - box.left > 2 && box.bottom - box.top > 2)
  for (let i = 0; i < pressed.length; i++) {
    for (let k = i + 1; k < pressed.length; k++) {
      const [a, b] = [pressed[i]!, pressed[k]!]
      if (a.el.contains(b.el) || b.el.contains(a.el)) continue
      if (Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left) > 2 && Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top) > 2) found.push(`one over the other: ${named(a.el)} and ${named(b.el)}`)
    }
  }
  return [...new Set(found)].slice(0, 20)
}, ordinary)

test("every screen fits four sizes: nothing is cut off, nothing overlaps", async () => {
  const all = screens.map((s) => addresses[s.path] ?? [s.path])
  expect(all.flat().filter((a) => a.includes(":")), "screens of screens.ts without an address here").toEqual([])
  const o = await open(server, "/", { expected: /401/ })
  await as(o.page, server.token)
  const faults: string[] = []
  for (const address of all.flat()) {
    await o.page.goto(server.url + address)
    await o.page.locator("main h1, main h2, .empty").first().waitFor()
    await o.page.locator("main .skeleton").first().waitFor({ state: "detached" })
    for (const [width, height] of sizes) {
      await o.page.setViewportSize({ width, height })
      let now: string[] = []
      // A page needs a moment for a new size.
      for (let i = 0; i < 5; i++) {
        await o.page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
        now = await wrong(o.page)
        if (now.length === 0) break
      }
      faults.push(...now.map((w) => `${address} ${width}×${height}: ${w}`))
    }
  }
  expect(faults).toEqual([])
  await o.close()
})

test("at 400 % zoom no screen scrolls sideways, and what a screen is about has room", async () => {
  const o = await open(server, "/", { expected: /401/, width: 320, height: 256 })
  await as(o.page, server.token)
  const faults: string[] = []
  for (const address of screens.flatMap((s) => addresses[s.path] ?? [s.path])) {
    await o.page.goto(server.url + address)
    await o.page.locator("main h1, main h2, .empty").first().waitFor()
    await o.page.locator("main .skeleton").first().waitFor({ state: "detached" })
    const wide = await o.page.locator("main").evaluate((el) => el.scrollWidth - el.clientWidth)
    if (wide > 0) faults.push(`${address}: ${wide} pixels too wide`)
    const low = await o.page.evaluate(() => [...document.querySelectorAll(".rows, .field-host, .log, .editor-body")].filter((el) => el.getBoundingClientRect().height < 90 && el.scrollHeight > 100).map((el) => `${el.className} is ${Math.round(el.getBoundingClientRect().height)} pixels high`))
    faults.push(...low.map((l) => `${address}: ${l}`))
  }
  expect(faults).toEqual([])
  await o.close()
})
