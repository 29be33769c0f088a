// What somebody does who sees the pages for the first time (ui.md §11, row 20): five tasks, each found from the first page by what is
// written there. With PICTURES=folder the end of each is kept as a picture for the documentation:
//
//   PICTURES=../../docs/pictures npx vitest run --project browser test/tasks.test.ts
import { writeFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open, unnamed, type Opened } from "./browser"
import { approval, store } from "./seed"
import { Server } from "./server"

let server: Server
const folder = process.env.PICTURES

const ingest = `# Every clip of a card becomes a proxy; then one report.
name: media-ingest
steps:
  - id: scan
    action: util.log
    params: {message: "4 clips"}
  - id: convert
    depends_on: [scan]
    for_each: {items: [a001, a002, a003, a004], as: clip, max_failures: 4}
    action: util.exec
    params: {command: "test {{ clip }} != a004 || { echo 'a004.mov: moov atom not found' >&2; exit 1; }"}   # the card of Tuesday
  - id: report
    action: util.log
    depends_on: [convert]
    trigger_rule: all_done
    params: {message: "all there"}
`

beforeAll(async () => {
  server = await new Server().start()
  const id = await store(server, ingest)
  const nightly = await store(server, { name: "nightly-landsat", steps: [{ id: "fetch", action: "util.noop" }, { id: "index", action: "util.noop", depends_on: ["fetch"] }] })
  for (const [name, expression] of [["weekly-cleanup", "0 4 * * 1"], ["nightly-landsat", "30 2 * * *"], ["hourly-report", "0 * * * *"]]) {
    await server.ask("POST", "/scheduler/jobs", { job_id: name, name, schedule: { type: "cron", expression, timezone: "UTC" }, callback: { type: "workflow", workflow_id: nightly } })
  }
  for (const workflow_id of [nightly, nightly, id]) await server.ask("POST", "/execute", { workflow_id })
  await server.run(approval("Deploy version 7 to production?"), {}, false)
  await server.until(async () => (await server.ask("GET", "/executions")).executions.every((x: { status: string; pipeline: string }) => x.status !== "running" || x.pipeline === "deploy"))
})
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

/** picture keeps how the page looks now. */
async function picture(o: Opened, name: string) {
  if (!folder) return
  await o.page.waitForLoadState("networkidle")
  await unnamed(o.page)
  const cdp = await o.context.newCDPSession(o.page)
  const { data } = await cdp.send("Page.captureScreenshot", { format: "webp", quality: 82 })
  writeFileSync(join(resolve(folder), `task-${name}.webp`), Buffer.from(data, "base64"))
}

const begin = () => open(server, "/", { width: 1280, height: 680 })

test("find why it failed, and retry only what failed", async () => {
  const o = await begin()
  const { page } = o
  await page.getByRole("region", { name: "Needs you" }).getByRole("link", { name: /^Why media-ingest/ }).click()
  const why = page.getByRole("region", { name: "Why it failed" })
  await why.getByText("a004.mov: moov atom not found").waitFor()
  await why.getByRole("button", { name: "Show convert[3]" }).click()
  const step = page.getByRole("complementary", { name: "Step convert[3]" })
  await step.getByRole("log").getByText("a004.mov: moov atom not found").waitFor()
  await picture(o, "why")

  await page.getByRole("button", { name: "Close the step" }).click()
  await why.getByRole("button", { name: "Retry what did not complete…" }).click()
  const dialog = page.getByRole("dialog", { name: "Retry what did not complete" })
  await dialog.getByRole("region", { name: "runs again", exact: true }).getByText("convert[3]").waitFor()
  await dialog.getByRole("region", { name: "kept", exact: true }).getByText("scan").waitFor()
  await expect.poll(() => dialog.getByText("convert[0]").count()).toBe(0) // what completed does not run again
  await picture(o, "retry")
  const before = page.url()
  await dialog.getByRole("button", { name: "Start the retry" }).click()
  await page.waitForURL((url) => url.href !== before)
  const id = new URL(page.url()).pathname.split("/")[2]
  await server.ask("GET", `/executions/${id}?wait_seconds=30`)
  const { events } = await server.ask("GET", `/executions/${id}/history?limit=1000`)
  const ran = new Set((events as { event_type: string; step_id?: string }[]).filter((e) => e.event_type.includes("started")).map((e) => e.step_id))
  expect([ran.has("convert[3]"), ran.has("convert[0]"), ran.has("scan")]).toEqual([true, false, false])
  await o.close()
})

test("change a timeout by the graph, and save", async () => {
  const o = await begin()
  const { page } = o
  await page.getByRole("navigation", { name: "Screens" }).getByRole("link", { name: "Pipelines" }).click()
  await page.getByRole("link", { name: "media-ingest" }).first().click()
  await page.getByRole("button", { name: "Edit" }).click()
  await page.getByRole("group", { name: "for_each convert" }).click()
  await page.getByRole("tab", { name: "Policy" }).click()
  await page.getByLabel("timeout_seconds").fill("90")
  await page.keyboard.press("Enter")
  await page.getByText("not saved").waitFor()
  await page.getByText("0 errors").waitFor()
  await page.getByRole("button", { name: "Save" }).click()
  const dialog = page.getByRole("dialog")
  await dialog.getByText("timeout_seconds").waitFor()
  await picture(o, "timeout")
  await dialog.getByRole("button", { name: "Save" }).click()
  await page.getByText("Version 2 is stored").waitFor()
  const id = new URL(page.url()).pathname.split("/")[2]
  const stored = (await server.ask("GET", `/pipelines/${id}`)).document as string
  expect(stored.replace("\n    timeout_seconds: 90", "")).toBe(ingest)
  await o.close()
})

test("approve", async () => {
  const o = await begin()
  const { page } = o
  await page.getByRole("link", { name: /Approvals 1 waiting/ }).click()
  await page.getByRole("button", { name: /Approve/ }).click()
  await page.getByRole("dialog").getByText("Deploy version 7 to production?").waitFor()
  await picture(o, "approve")
  await page.getByRole("dialog").getByRole("button", { name: "Approve" }).click()
  await page.getByText("Approved: Deploy version 7 to production?").waitFor()
  await server.until(async () => (await server.ask("GET", "/executions?status=completed")).executions.some((x: { pipeline: string }) => x.pipeline === "deploy"))
  await o.close()
})

test("see what runs tonight", async () => {
  const o = await begin()
  const { page } = o
  await page.getByRole("region", { name: "Next fires" }).getByRole("link", { name: "nightly-landsat" }).waitFor()
  await page.getByRole("navigation", { name: "Screens" }).getByRole("link", { name: "Schedules" }).click()
  // What is due first stands first: the hour, the night, the week.
  await expect.poll(() => page.getByRole("row").getByRole("link").allInnerTexts()).toEqual(["hourly-report", "nightly-landsat", "weekly-cleanup"])
  await page.getByRole("row", { name: /nightly-landsat/ }).getByText(/02:30:00/).waitFor()
  await picture(o, "tonight")
  await o.close()
})
