import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open } from "./browser"
import { Server } from "./server"

let server: Server
beforeAll(async () => { server = await new Server().start() })
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

test("the last days on home and on a pipeline's page: which share completed, what failed, how long it took", async () => {
  await server.run({ name: "good", steps: [{ id: "a", action: "util.noop" }] })
  const stored = await server.ask("POST", "/pipelines", { document: { name: "bad", steps: [{ id: "a", action: "util.fail" }] } })
  await server.run({ name: "good", steps: [{ id: "a", action: "util.noop" }] })
  const x = await server.ask("POST", "/execute", { workflow_id: "bad" })
  await server.until(async () => (await server.ask("GET", `/executions/${x.execution_id}?wait_seconds=30`)).status === "failed")
  const o = await open(server, "/")
  const ended = o.page.getByRole("region", { name: "The last 14 days" })
  await ended.getByText(/66\.7 % of 3 completed, 1 failed/).first().waitFor()
  await expect.poll(() => ended.getByRole("table", { name: "95 % took at most" }).getByRole("row").count()).toBe(14)
  await o.accessible("home")
  await o.page.goto(`${server.url}/pipelines/${stored.pipeline_id}`)
  await o.page.getByRole("region", { name: "The last 14 days" }).getByText(/0\.0 % of 1 completed, 1 failed/).first().waitFor()
  await o.close()
})
