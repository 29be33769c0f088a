import type { Page } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open } from "./browser"
import { approval, passing, store } from "./seed"
import { Server } from "./server"

let server: Server
beforeAll(async () => { server = await new Server().start() })
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

test("tabs share one stream; the other one goes on when its reader is closed", async () => {
  const o = await open(server, "/executions")
  await o.page.getByRole("status").getByText("live").waitFor()
  const second = await o.context.newPage()
  const streams: string[] = []
  second.on("request", (r) => { if (r.url().includes("/api/v1/stream")) streams.push(r.url()) })
  await second.goto(server.url + "/executions")
  await second.getByRole("status").getByText("live").waitFor()
  expect(streams).toEqual([])
  await server.run({ ...passing, name: "told-to-both" })
  for (const page of [o.page, second]) await page.getByRole("row", { name: /completed told-to-both/ }).waitFor()
  await o.page.close()
  await server.run({ ...passing, name: "told-later" })
  await second.getByRole("row", { name: /completed told-later/ }).waitFor()
  expect(streams.length).toBeGreaterThan(0)
  await o.close()
})

test("while the server is down the page says so; afterwards nothing is missing or there twice", async () => {
  const o = await open(server, "/executions?pipeline=after", { expected: /ERR_|50\d|Failed to load/ })
  await o.page.getByRole("status").getByText("live").waitFor()
  await server.kill()
  await o.page.getByRole("status").getByText(/connecting|behind/).waitFor()
  await server.start()
  await server.run({ ...passing, name: "after" })
  await o.page.getByRole("row", { name: /completed after/ }).waitFor()
  await o.page.getByRole("status").getByText("live").waitFor()
  await expect.poll(() => o.page.getByRole("row", { name: /completed after/ }).count()).toBe(1)
  await server.run(approval("still there?"), {}, false)
  await o.page.getByRole("link", { name: /Approvals 1 waiting/ }).waitFor()
  await o.close()
})

test("the server is killed and started while every live screen is open: each comes back, with what happened, once", async () => {
  const expected = { expected: /ERR_|50\d|Failed to load|WebSocket/ }
  const id = await store(server, { ...passing, name: "on-all" })
  await server.run({ ...passing, name: "before" })
  const x = await server.run({ ...approval("all screens?"), name: "through" }, {}, false)
  const o = await open(server, "/", expected)
  const at = async (path: string) => {
    const page = await o.context.newPage()
    await page.goto(server.url + path)
    return page
  }
  const home = o.page
  const [list, one, pipeline, inbox, queue] = await Promise.all(["/executions?pipeline=on-all", `/executions/${x.execution_id}`, `/pipelines/${id}`, "/approvals", "/queue?tab=workers"].map(at)) as [Page, Page, Page, Page, Page]
  const pages = [home, list, one, pipeline, inbox, queue]
  const light = (page: Page) => page.locator(".topbar").getByRole("status")
  for (const page of pages) await light(page).getByText("live").waitFor()
  await inbox.getByText("all screens?").waitFor()
  await server.kill()
  for (const page of pages) await light(page).getByText(/connecting|behind/).waitFor()
  await server.start()
  await server.ask("POST", `/approvals/${x.execution_id}.ask/approve`, {})
  await server.ask("POST", "/execute", { workflow_id: id })
  for (const page of pages) await light(page).getByText("live").waitFor()
  const once = (page: Page, name: RegExp) => expect.poll(() => page.getByRole("row", { name }).count()).toBe(1)
  await once(home, /completed on-all/)
  await once(home, /completed through/)
  await once(list, /completed on-all/)
  await expect.poll(() => pipeline.getByRole("region", { name: "Last executions" }).getByRole("row", { name: /^completed/ }).count()).toBe(1)
  await one.locator(".x-status").getByText("completed").waitFor()
  await expect.poll(() => one.locator(".x-node").count()).toBe(2)
  await inbox.getByText("all screens?").first().waitFor({ state: "detached" })
  await queue.getByRole("heading", { name: "Queue", exact: true }).waitFor()
  await o.close()
})

test("schedules, the streams of an execution and its map come back after the server was killed, with what happened, once", async () => {
  const id = await store(server, { ...passing, name: "planned" })
  const job = (name: string, at: string) => server.ask("POST", "/scheduler/jobs", { name, schedule: { type: "cron", expression: at }, callback: { type: "workflow", workflow_id: id } })
  const first = await job("kept", "0 3 * * *")
  const items = (name: string, n: number, north: number) => server.file(`${name}.ndjson`, Array.from({ length: n }, (_, i) => JSON.stringify({ id: `${name}${i}`, collection: "c", bbox: [(i % 300) - 150, north, (i % 300) - 149.5, north + 1] }) + "\n").join(""))
  const flow = (name: string, path: string, ...after: string[]) => [
    { id: `read-${name}`, module: "stream.read", depends_on: after, config: { path } },
    { id: `write-${name}`, module: "stream.write", depends_on: [`read-${name}`], config: { path: path.replace(".ndjson", ".out.ndjson") } },
  ]
  const x = await server.run({ name: "two-streams", settings: { output_failures: server.file("failures.json", "") }, steps: [
    ...flow("early", items("early", 300, 10)),
    { id: "ask", action: "util.approval", depends_on: ["write-early"], params: { message: "go on?" } },
    ...flow("late", items("late", 200, -10), "ask"),
  ] }, {}, false)
  await server.until(async () => (await server.ask("GET", "/approvals")).approvals.some((a: { id?: string, approval_id?: string }) => JSON.stringify(a).includes(`${x.execution_id}.ask`)))
  const o = await open(server, "/schedules", { expected: /ERR_|50\d|Failed to load|WebSocket/ })
  const at = async (path: string) => {
    const page = await o.context.newPage()
    await page.goto(server.url + path)
    return page
  }
  const [streams, map] = await Promise.all([`/executions/${x.execution_id}/streams`, `/map?execution=${x.execution_id}`].map(at)) as [Page, Page]
  const light = (page: Page) => page.locator(".topbar").getByRole("status")
  const pages = [o.page, streams, map]
  for (const page of pages) await light(page).getByText("live").waitFor()
  const module = (name: string) => streams.getByRole("article", { name: new RegExp(`^${name}`) })
  await expect.poll(() => module("write-early").innerText()).toMatch(/completed[\s\S]*in\s*300/)
  await map.getByText("300 done").waitFor()
  await o.page.getByRole("row", { name: /kept/ }).waitFor()
  await server.kill()
  for (const page of pages) await light(page).getByText(/connecting|behind/).waitFor()
  await server.start()
  await job("made-later", "0 4 * * *")
  await server.ask("POST", `/scheduler/jobs/${first.job_id}/trigger`, {})
  await server.ask("POST", `/approvals/${x.execution_id}.ask/approve`, {})
  for (const page of pages) await light(page).getByText("live").waitFor()
  await map.getByText("500 done").waitFor()
  await expect.poll(() => map.locator("canvas[data-drawn]").getAttribute("data-drawn")).toBe("500")
  await expect.poll(() => module("write-late").innerText()).toMatch(/completed[\s\S]*in\s*200/)
  await expect.poll(() => module("write-early").innerText()).toMatch(/completed[\s\S]*in\s*300/)
  expect(await streams.getByRole("article").count()).toBe(4)
  for (const name of ["kept", "made-later"]) await expect.poll(() => o.page.getByRole("row", { name: new RegExp(name) }).count()).toBe(1)
  await o.page.getByRole("row", { name: /kept/ }).getByRole("link", { name: /ago|now/ }).waitFor()
  await expect.poll(async () => (await server.ask("GET", `/scheduler/jobs/${first.job_id}`)).run_count).toBe(1)
  await o.close()
})
