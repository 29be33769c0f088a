import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open } from "./browser"
import { Server } from "./server"

let server: Server
beforeAll(async () => {
  server = new Server()
  mkdirSync(join(server.dir, "data"))
  writeFileSync(join(server.dir, "data", "stepwell.yaml"), "prices:\n  util.noop: {per_call: 0.25}\n")
  await server.start()
})
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

test("how executions ended within a chosen time, on home and on a pipeline's page: shares, durations, and the cost of today", async () => {
  await server.run({ name: "good", steps: [{ id: "a", action: "util.noop" }] })
  const stored = await server.ask("POST", "/pipelines", { document: { name: "bad", steps: [{ id: "a", action: "util.fail" }] } })
  await server.run({ name: "good", steps: [{ id: "a", action: "util.noop" }] })
  const x = await server.ask("POST", "/execute", { workflow_id: "bad" })
  await server.until(async () => (await server.ask("GET", `/executions/${x.execution_id}?wait_seconds=30`)).status === "failed")
  const o = await open(server, "/")
  const region = (name: string) => o.page.getByRole("region", { name })
  const day = region("The last 24 hours")
  await day.getByText(/66\.7 % of 3 completed, 1 failed/).first().waitFor()
  await expect.poll(() => day.getByRole("table", { name: "Ended by hour" }).getByRole("row").count()).toBe(24)
  await expect.poll(() => day.getByRole("definition").allInnerTexts()).toEqual([expect.stringMatching(/ s$/), expect.stringMatching(/ s$/), "0.50", "0.50"])
  await o.accessible("home")
  await day.getByLabel("Time range").selectOption("1h")
  await expect.poll(() => new URL(o.page.url()).search).toBe("?range=1h")
  await region("The last hour").getByRole("table", { name: "Ended by minute" }).getByText(/% of \d completed/).first().waitFor()
  await o.page.reload() // a link shows the same
  await region("The last hour").getByText(/66\.7 % of 3 completed, 1 failed/).first().waitFor()
  await region("The last hour").getByLabel("Time range").selectOption("7d")
  await region("The last 7 days").getByText(/66\.7 % of 3 completed, 1 failed/).first().waitFor()
  await region("The last 7 days").getByLabel("Time range").selectOption("14d")
  await expect.poll(() => region("The last 14 days").getByRole("table", { name: "95 % took at most" }).getByRole("row").count()).toBe(14)
  await o.accessible("home")
  await o.page.goto(`${server.url}/pipelines/${stored.pipeline_id}`)
  await o.page.getByRole("region", { name: "The last 14 days" }).getByText(/0\.0 % of 1 completed, 1 failed/).first().waitFor()
  await o.close()
})
