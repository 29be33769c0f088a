import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open } from "./browser"
import { Server } from "./server"

let server: Server
beforeAll(async () => { server = await new Server().start() })
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

test("two executions are compared: other states first, values that differ are named, a row opens the step", async () => {
  const steps = [{ id: "same", action: "util.noop" }, { id: "check", action: "util.condition", depends_on: ["same"], condition: "{{ params.n > 1 }}" , params: { condition: "true" } }]
  const pipeline = { name: "pair", parameters: [{ name: "n", type: "integer" }], steps }
  const a = await server.run(pipeline, { n: 1 })
  const b = await server.run(pipeline, { n: 2 })
  const o = await open(server, `/executions/${a.execution_id}/compare/${b.execution_id}`)
  const row = o.page.getByRole("row", { name: /check/ })
  await row.waitFor()
  await expect.poll(() => row.innerText()).toMatch(/skipped[\s\S]*completed/)
  await expect.poll(() => o.page.getByRole("row", { name: /same/ }).count()).toBe(0)
  await o.page.getByText("B has other parameters").waitFor()
  await o.accessible("compare")
  await o.page.getByRole("button", { name: "also what is the same" }).click()
  await o.page.getByRole("row", { name: /same/ }).waitFor()
  await o.page.getByRole("link", { name: "Swap A and B" }).click()
  await expect.poll(() => row.innerText()).toMatch(/completed[\s\S]*skipped/)
  await row.click()
  await expect.poll(() => o.page.url()).toContain(`/executions/${a.execution_id}?step=check`)
  await o.close()
})
