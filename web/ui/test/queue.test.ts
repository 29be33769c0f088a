import { spawn } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open } from "./browser"
import { as, key, store } from "./seed"
import { Server } from "./server"

let server: Server
let worker: ReturnType<typeof spawn>
let token = ""
beforeAll(async () => {
  server = await new Server().start()
  server.token = await key(server, "admin")
  token = await key(server, "worker")
  worker = spawn(process.env.STEPWELL_BINARY!, ["worker", "--server", server.url, "--name", "far-away"], { env: { ...process.env, HOME: server.dir, STEPWELL_API_KEY: token }, stdio: "ignore" })
  await server.until(async () => (await server.ask("GET", "/workers")).workers.some((w: { name: string }) => w.name === "far-away"))
})
afterAll(async () => {
  worker.kill("SIGTERM")
  await closeBrowser()
  await server.stop()
})

test("workers are listed, accessible in both themes, and fit a phone", async () => {
  for (const look of [{}, { width: 390, height: 844 }]) {
    const o = await open(server, "/queue?tab=workers", { expected: /401/, ...look })
    await as(o.page, server.token)
    await o.page.getByRole("row", { name: "width" in look ? /^far-away 0 of/ : /^far-away ● takes work/ }).waitFor()
    await o.accessible(`queue ${JSON.stringify(look)}`)
    if (!("width" in look)) await o.darkToo("queue")
    await o.fits("queue")
    await o.close()
  }
}, 300_000)

test("a chosen worker says what it can do; a viewer cannot drain it, and is told why", async () => {
  const o = await open(server, "/queue?tab=workers", { expected: /401/ })
  await as(o.page, await key(server, "viewer"))
  await o.page.getByRole("row", { name: /far-away/ }).focus()
  await o.page.keyboard.press("Enter")
  await o.page.getByRole("region", { name: "Worker far-away" }).getByText("util.noop").waitFor()
  await o.page.waitForURL(/worker=far-away/)
  const drain = o.page.getByRole("row", { name: /far-away/ }).getByRole("button", { name: "Drain … (operator is needed for this, you are viewer)" })
  await drain.focus()
  await o.page.keyboard.press("Enter")
  await expect.poll(() => o.page.getByRole("dialog").count()).toBe(0)
  await o.accessible("worker")
  await o.close()
})

test("a worker in another process is drained, and its process ends; one of the server cannot be", async () => {
  const ended = new Promise((done) => worker.on("exit", done))
  const o = await open(server, "/queue?tab=workers", { expected: /401/ })
  await as(o.page, server.token)
  await o.page.getByRole("button", { name: "Drain far-away" }).click()
  await o.page.getByRole("dialog", { name: "Drain far-away?" }).getByRole("button", { name: "Drain" }).click()
  await o.page.getByText("far-away finishes what it holds, and ends.").waitFor()
  await ended
  await o.page.getByRole("button", { name: /Drain … \(it ends with the server\)/ }).first().waitFor()
  await o.close()
})

test("the queue of runs says when it is empty, shows runs by their steps, and fits a phone", async () => {
  const o = await open(server, "/queue?tab=runs", { expected: /401/ })
  await as(o.page, server.token)
  await o.page.getByRole("heading", { name: "No run is queued or running" }).waitFor()
  await o.accessible("empty queue")
  await store(server, { name: "slow", settings: { sequential: true }, steps: [{ id: "first", action: "util.noop" }, { id: "rest", action: "util.wait", params: { seconds: 3600 }, depends_on: ["first"] }, { id: "last", action: "util.noop", depends_on: ["rest"] }] })
  await server.ask("POST", "/projects", { id: "geo", name: "Geography" })
  await server.ask("POST", "/lessons", { id: "rivers", project_id: "geo", name: "Rivers" })
  const { data } = await server.ask("POST", "/pipeline-runs", { lesson_id: "rivers", pipeline_id: "slow" })
  await o.page.getByRole("row", { name: /^running Rivers Geography slow v1 1 of 3 steps done: 1 first done, 2 rest running, 3 last pending/ }).waitFor()
  await o.accessible("queue of runs")
  await o.page.emulateMedia({ colorScheme: "dark" })
  await o.accessible("queue of runs, dark")
  await o.page.setViewportSize({ width: 390, height: 844 })
  await o.page.reload()
  await o.page.getByRole("row", { name: /^running Rivers/ }).waitFor()
  await o.fits("queue of runs")
  await server.ask("POST", `/pipeline-runs/${data.id}/stop`)
  await o.page.getByRole("heading", { name: "No run is queued or running" }).waitFor()
  await o.close()
})

test("what waits is told with its reason, live: steps in queues, and executions that have not begun", async () => {
  await store(server, { name: "one", settings: { concurrency: { key: "only-one", limit: 1 } }, steps: [{ id: "ask", action: "util.approval", params: { message: "go?" } }, { id: "after", action: "util.noop", depends_on: ["ask"] }] })
  const o = await open(server, "/queue", { expected: /401/ })
  await as(o.page, server.token)
  await o.page.getByRole("heading", { name: "No execution waits to begin" }).waitFor()
  await o.page.getByRole("row", { name: /^default 0/ }).waitFor()
  const first = await server.ask("POST", "/execute", { workflow_id: "one" })
  const second = await server.ask("POST", "/execute", { workflow_id: "one" })
  await o.page.getByRole("heading", { name: "1 execution waits to begin" }).waitFor()
  await o.page.getByRole("row", { name: /^one .*only-one/ }).waitFor()
  const held = o.page.getByRole("row", { name: /^one .*only-one/ })
  expect(await held.getByRole("link", { name: first.execution_id }).getAttribute("href")).toBe(`/executions/${first.execution_id}`)
  const cut = () => held.getByText(/only-one/).evaluate((el) => { const cell = el.closest("[role=gridcell]")!; return cell.scrollHeight > cell.clientHeight + 1 || cell.scrollWidth > cell.clientWidth + 1 })
  expect(await cut()).toBe(false)
  await o.accessible("what waits")
  await o.darkToo("what waits")
  await o.page.setViewportSize({ width: 390, height: 844 })
  await o.fits("what waits")
  await o.page.setViewportSize({ width: 1280, height: 800 })
  await server.ask("POST", `/executions/${first.execution_id}/cancel`, {})
  await o.page.getByRole("heading", { name: "No execution waits to begin" }).waitFor()
  await server.ask("POST", `/executions/${second.execution_id}/cancel`, {})
  await o.close()
})

test("a queue with a limit shows how many wait and why, and how that went while one looks", async () => {
  const other = new Server()
  mkdirSync(join(other.dir, "data"))
  writeFileSync(join(other.dir, "data", "stepwell.yaml"), "queues: {narrow: {concurrency: 1}}\n")
  await other.start()
  try {
    const o = await open(other, "/queue")
    await o.page.getByRole("row", { name: /^narrow 0 – 0 1 at once/ }).waitFor()
    const x = await other.run({ name: "many", steps: [{ id: "each", action: "util.exec", queue: "narrow", params: { command: ["sleep", "3600"] }, for_each: { items: 20 } }] }, {}, false)
    await o.page.getByRole("row", { name: /^narrow 19 each\[\d+\] waits the longest 1 running in narrow: who 1 at once .*1 of at most 1 steps run/ }).waitFor()
    await o.page.getByRole("button", { name: "1 running in narrow: who" }).click()
    const holder = o.page.getByRole("list", { name: "Who holds narrow" }).getByRole("link", { name: /^each\[\d+\] of / })
    await holder.waitFor()
    const [narrow] = (await other.ask("GET", "/queue?holders=1")).queues.filter((q: { name: string }) => q.name === "narrow")
    expect(narrow.holders).toMatchObject([{ execution_id: x.execution_id }])
    expect(narrow.holders[0].worker_id).toBeTruthy()
    expect(await holder.getAttribute("href")).toBe(`/executions/${x.execution_id}?step=${encodeURIComponent(narrow.holders[0].step_id)}`)
    expect(narrow.oldest.execution_id).toBe(x.execution_id)
    expect(Math.abs(Date.now() - Date.parse(narrow.oldest.since))).toBeLessThan(300_000)
    await o.accessible("who holds a queue")
    await o.darkToo("who holds a queue")
    await o.page.getByRole("img", { name: /In narrow at most (19|20) steps waited/ }).waitFor()
    await other.ask("POST", `/executions/${x.execution_id}/cancel`, {})
    await o.page.getByRole("row", { name: /^narrow 0 – 0 1 at once/ }).waitFor()
    expect(await o.page.getByRole("list", { name: "Who holds narrow" }).count()).toBe(0)
    await o.close()
  } finally {
    await other.stop()
  }
})
