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
  const [list, one, pipeline, inbox, queue] = await Promise.all(["/executions?pipeline=on-all", `/executions/${x.execution_id}`, `/pipelines/${id}`, "/approvals", "/queue"].map(at)) as [Page, Page, Page, Page, Page]
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
