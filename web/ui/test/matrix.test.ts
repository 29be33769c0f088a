// The matrix of a pipeline: its steps in its last executions.
import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open } from "./browser"
import { store } from "./seed"
import { Server } from "./server"

const nightly = `name: nightly
parameters: [{name: bad, type: integer, default: 0}]
settings: {fail_fast: false}
steps:
  - {id: first, action: util.log, params: {message: hi}}
  - {id: each, action: util.fail, depends_on: [first], for_each: {items: 4}, condition: "{{ index < params.bad }}", params: {message: no}}
`

let server: Server
beforeAll(async () => { server = await new Server().start() })
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

test("the matrix shows which step failed in which execution, and leads there", async () => {
  const id = await store(server, nightly, "the first one")
  const ids: string[] = []
  for (const bad of [0, 1, 2]) {
    const x = await server.ask("POST", "/execute", { workflow_id: id, params: { bad } })
    await server.ask("GET", `/executions/${x.execution_id}?wait_seconds=30`)
    ids.push(x.execution_id)
  }
  const o = await open(server, `/pipelines/${id}`)
  const { page } = o
  await page.getByRole("link", { name: "Matrix" }).click()
  const row = page.getByRole("row", { name: /^each/ })
  await row.getByRole("link", { name: /^each, failed, 50 % failed/ }).waitFor()
  await expect.poll(() => row.getByRole("link").count()).toBe(3)
  await o.accessible("matrix")
  await row.getByRole("link", { name: /^each, failed, 25 % failed/ }).click()
  await page.waitForURL(new RegExp(`/executions/${ids[1]}`))
  await page.getByRole("complementary", { name: "Step each" }).waitFor()
  await o.close()
})
