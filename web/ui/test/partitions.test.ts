// The partitions of a pipeline: their states, why, and what makes them.
import { afterAll, beforeAll, expect, test } from "vitest"
import { as, key, store } from "./seed"
import { closeBrowser, looksRight, open } from "./browser"
import { Server } from "./server"

const mirror = (message: string) => `name: mirror
parameters:
  - {name: collection, type: string, enum: [s2, l9]}
  - {name: month, type: string}
  - {name: fails, type: boolean, default: false}
settings:
  partition: {by: [collection, month], values: {month: {every: month, from: 2026-01, until: 2026-04}}, watch: [write]}
steps:
  - {id: check, action: util.fail, condition: "{{ params.fails }}"}
  - {id: write, action: util.log, trigger_rule: none_failed, depends_on: [check], params: {message: ${message}}}
`

let server: Server
let id: string
beforeAll(async () => {
  server = await new Server().start()
  id = await store(server, mirror("one"))
})
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

const make = async (values: string[], params = {}) => {
  const x = await server.ask("POST", `/pipelines/${id}/partitions/start`, { values, params })
  return (await server.ended(x.execution_id)).execution_id as string
}

test("states by shape and name, why something is stale, its execution, and backfills of one and of many, live", async () => {
  await make(["s2", "2026-01"])
  const failed = await make(["l9", "2026-02"], { fails: true })
  const o = await open(server, `/pipelines/${id}`)
  const { page } = o
  await page.getByRole("link", { name: "Partitions" }).click()
  const cell = (name: string) => page.getByRole("gridcell", { name, exact: true })
  await cell("s2 2026-01: done").waitFor()
  await cell("l9 2026-02: failed").waitFor()
  await expect.poll(() => page.getByRole("gridcell").count()).toBe(8)
  const counts = page.getByRole("group", { name: "States that stand out" })
  await counts.getByRole("button", { name: "6 missing" }).waitFor()
  await o.accessible("partitions")
  await o.darkToo("partitions")

  // By keyboard: the next failed one, its reason and its execution.
  await page.keyboard.press("]")
  const panel = page.getByRole("complementary", { name: "Partition" })
  await panel.getByText("the last execution is failed").waitFor()
  expect(await panel.getByRole("link").getAttribute("href")).toBe(`/executions/${failed}`)
  await page.waitForURL(/partition=l9%2F2026-02/)
  await page.getByRole("grid", { name: "Partitions" }).focus()
  for (const key of ["ArrowUp", "ArrowLeft"]) await page.keyboard.press(key)
  await panel.getByText("s2 · 2026-01").waitFor()
  expect(await page.getByRole("grid").getAttribute("aria-activedescendant")).toBe(await cell("s2 2026-01: done").getAttribute("id"))

  // A changed step makes it stale; the reason stands at it under the pointer.
  await server.ask("PUT", `/pipelines/${id}`, { document: mirror("two") })
  await page.reload()
  await cell("s2 2026-01: stale").hover()
  await page.getByRole("tooltip").getByText("changed since version 1: write").waitFor()
  await counts.getByRole("button", { name: "1 stale" }).click()
  await expect.poll(() => page.locator(".p-cell:not([data-dim])").count()).toBe(1)
  await panel.getByText("changed since version 1: write").waitFor() // the chip has led there

  // What the dialog would start, its command, and the start itself.
  await page.getByRole("button", { name: "Backfill …" }).click()
  const dialog = page.getByRole("dialog", { name: "Backfill mirror" })
  await dialog.getByText("1 execution: s2 2026-01.").waitFor()
  await dialog.getByLabel("6 missing").check()
  await dialog.getByLabel("Only collection").fill("l9")
  await dialog.getByText(/^3 executions: l9 2026-01, l9 2026-03, l9 2026-04/).waitFor()
  await dialog.getByLabel("Only month").fill("2026-01, 2026-99")
  await dialog.getByText("month has no value “2026-99”").waitFor()
  await dialog.getByLabel("Only month").fill("2026-01, 2026-03")
  await expect.poll(() => dialog.locator("pre").innerText()).toBe(`stepwell backfill mirror --missing --stale --only collection=l9 --only month=2026-01 --only month=2026-03 --max-parallel 4 --server ${server.url}`)
  await o.accessible("backfill")
  await dialog.getByRole("button", { name: "Start 2" }).click()
  for (const month of ["2026-01", "2026-03"]) await cell(`l9 ${month}: done`).waitFor()
  await counts.getByRole("button", { name: "2 done" }).waitFor()

  // One alone, from its panel: also one that is done.
  await cell("l9 2026-01: done").click()
  await panel.getByRole("button", { name: "Make again …" }).click()
  await page.getByRole("dialog", { name: "Make l9 2026-01 again" }).getByRole("button", { name: "Start it" }).click()
  await expect.poll(async () => (await server.ask("GET", `/executions?workflow_id=${id}`)).executions.length).toBe(5)
  await o.close()
})

test("the page fits small and large, light and dark", async () => {
  await looksRight(server, `/pipelines/${id}/partitions`, (page) => page.getByRole("gridcell").first())
})

test("100,000 partitions: what is in view is in the page, the end is reached by keys, and more than 50 are a matter of the command", async () => {
  const many = await store(server, `name: many
parameters: [{name: place, type: string}, {name: hour, type: string}]
settings: {partition: {by: [place, hour], values: {place: {list: [${Array.from({ length: 20 }, (_, i) => `p${i}`).join(", ")}]}, hour: {every: hour, from: 2026-01-01T00, until: 2026-07-28T07}}}}
steps: [{id: a, action: util.noop}]
`)
  const o = await open(server, `/pipelines/${many}/partitions`)
  const { page } = o
  await page.getByRole("heading", { name: "100,000 partitions" }).waitFor()
  await page.getByRole("gridcell").first().waitFor()
  expect(await page.getByRole("gridcell").count()).toBeLessThan(3_000)
  await page.getByRole("grid", { name: "Partitions" }).focus()
  await page.keyboard.press("End")
  for (let i = 0; i < 19; i++) await page.keyboard.press("ArrowDown")
  await page.getByRole("complementary", { name: "Partition" }).getByText("p19 · 2026-07-28T07").waitFor()
  await page.keyboard.press("Home")
  await page.getByRole("gridcell", { name: "p19 2026-01-01T00: missing" }).waitFor()
  await o.fits("many")
  await page.getByRole("button", { name: "Backfill …" }).click()
  const dialog = page.getByRole("dialog", { name: "Backfill many" })
  await dialog.getByText("The page starts at most 50.").waitFor()
  await dialog.getByRole("button", { name: /^Start.*use the command/ }).waitFor()
  await expect.poll(() => dialog.locator("pre").innerText()).toContain("stepwell backfill many --missing --max-parallel 4")
  await o.close()
})

test("the server is killed and started: the grid comes back with what happened meanwhile", async () => {
  const o = await open(server, `/pipelines/${id}/partitions`, { expected: /ERR_|50\d|Failed to load/ })
  const { page } = o
  const light = page.locator(".topbar").getByRole("status")
  await light.getByText("live").waitFor()
  await page.getByRole("gridcell", { name: "s2 2026-04: missing" }).waitFor()
  await server.kill()
  await light.getByText(/connecting|behind/).waitFor()
  await server.start()
  await make(["s2", "2026-04"])
  await page.getByRole("gridcell", { name: "s2 2026-04: done" }).waitFor()
  await expect.poll(() => page.getByRole("gridcell", { name: /^s2 2026-04/ }).count()).toBe(1)
  await o.close()
})

test("a viewer sees the grid, and why nothing can be started", async () => {
  server.token = await key(server, "admin")
  const viewer = await key(server, "viewer")
  const o = await open(server, `/pipelines/${id}/partitions`, { expected: /401/ })
  await as(o.page, viewer)
  await o.page.getByRole("gridcell").first().waitFor()
  await o.page.getByRole("button", { name: /^Backfill ….*operator is needed/ }).waitFor()
  await o.close()
})
