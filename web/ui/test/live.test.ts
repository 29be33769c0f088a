import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open } from "./browser"
import { approval, passing } from "./seed"
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
