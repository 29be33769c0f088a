import { spawn } from "node:child_process"
import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open } from "./browser"
import { as, key } from "./seed"
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
  for (const look of [{ theme: "light" }, { theme: "dark" }, { width: 390, height: 844 }] as const) {
    const o = await open(server, "/queue", { expected: /401/, ...look })
    await as(o.page, server.token)
    await o.page.getByRole("row", { name: /far-away ● takes work/ }).waitFor()
    await o.accessible(`queue ${JSON.stringify(look)}`)
    await o.fits("queue")
    await o.close()
  }
}, 300_000)

test("a worker in another process is drained, and its process ends; one of the server cannot be", async () => {
  const ended = new Promise((done) => worker.on("exit", done))
  const o = await open(server, "/queue", { expected: /401/ })
  await as(o.page, server.token)
  await o.page.getByRole("button", { name: "Drain far-away" }).click()
  await o.page.getByRole("dialog", { name: "Drain far-away?" }).getByRole("button", { name: "Drain" }).click()
  await o.page.getByText("far-away finishes what it holds, and ends.").waitFor()
  await ended
  expect(await o.page.getByRole("button", { name: /Drain … \(it ends with the server\)/ }).count()).toBeGreaterThan(0)
  await o.close()
})

test("the queue of runs says when it is empty", async () => {
  const o = await open(server, "/queue?tab=runs", { expected: /401/ })
  await as(o.page, server.token)
  await o.page.getByRole("heading", { name: "No run is queued or running" }).waitFor()
  await o.accessible("empty queue")
  await o.close()
})
