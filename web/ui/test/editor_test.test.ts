// What a text would do, and tests of it, before it is stored.
import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open } from "./browser"
import { as, key } from "./seed"
import { Server } from "./server"

let server: Server
beforeAll(async () => { server = await new Server().start() })
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

const document = `name: report
parameters:
  - {name: cities, type: array, default: [Berlin, Lisbon]}
steps:
  - id: fetch
    action: util.set_output
    params: {rows: "{{ params.cities | length }}"}
  - id: each
    action: util.log
    depends_on: [fetch]
    for_each: {items: "{{ params.cities }}"}
    params: {message: "{{ item }}"}
  - id: sum
    action: util.set_output
    depends_on: [each]
    params: {sum: "{{ steps.fetch.outputs.rows }}"}
  - id: send
    action: util.fail
    depends_on: [sum]
    params: {message: nobody may send}
`

test("the plan says what would run, how often, and what past executions took", async () => {
  const id = (await server.ask("POST", "/pipelines", { document })).pipeline_id as string
  const o = await open(server, `/pipelines/${id}/edit`)
  await o.page.getByText("0 errors").waitFor()
  await o.page.getByRole("button", { name: "Plan" }).click()
  const dialog = o.page.getByRole("dialog", { name: "What would run" })
  await dialog.getByRole("row", { name: /^2 each util\.log × 2 fetch/ }).waitFor()
  await dialog.getByText("nothing is known about time and cost").waitFor()
  await dialog.getByText("Values of parameters").click()
  await dialog.getByLabel("cities").fill('["a", "b", "c"]')
  await dialog.getByRole("row", { name: /^2 each util\.log × 3 fetch/ }).waitFor()
  await o.accessible("plan")
  await o.page.setViewportSize({ width: 390, height: 844 })
  await o.fits("plan")
  await o.close()
})

test("a part is tested with results of a past execution; what came out stands at the steps", async () => {
  const past = await server.run(document as never)
  expect(past.status).toBe("failed")
  const o = await open(server, "/pipelines/new")
  await o.page.getByText("0 errors").waitFor()
  const text = o.page.getByRole("textbox", { name: "Pipeline as text" })
  await text.click()
  await o.page.keyboard.press("Control+a")
  await o.page.evaluate((t) => navigator.clipboard.writeText(t), document.replace("{sum:", "{total:"))
  await o.page.keyboard.press("Control+v")
  await o.page.getByRole("group", { name: "step sum" }).click()
  await o.page.getByRole("button", { name: "Test to here" }).click()
  const dialog = o.page.getByRole("dialog", { name: "Test this text" })
  expect(await dialog.getByLabel("Up to").inputValue()).toBe("sum")
  await dialog.getByLabel("Results of steps before").selectOption(past.execution_id)
  await o.accessible("test dialog")
  await dialog.getByRole("button", { name: "Run the test" }).click()
  const bar = o.page.getByRole("region", { name: "Test" })
  await bar.getByText("completed").waitFor()
  await o.page.getByRole("group", { name: "step send, skipped" }).waitFor()
  await o.page.getByRole("group", { name: "step sum, completed" }).waitFor()
  await o.page.getByRole("tab", { name: "Result" }).click()
  await o.page.getByLabel("Outputs").getByText('"total": 2').waitFor()
  await o.accessible("tested")
  const made = await server.ask("GET", `/executions/${new URL(o.page.url()).searchParams.get("test")}`)
  expect(made.status).toBe("completed")
  const steps = (await server.ask("GET", `/executions/${made.execution_id}/steps?limit=100`)).steps as { step_id: string; worker_id?: string; status: string }[]
  expect(steps.find((s) => s.step_id === "fetch")).toMatchObject({ status: "completed" })
  expect(steps.find((s) => s.step_id === "fetch")!.worker_id ?? null).toBeNull() // taken over, not run again
  await text.click()
  await o.page.keyboard.press("Control+End")
  await o.page.keyboard.type("# changed")
  await bar.getByText("The text has changed since.").waitFor()
  await bar.getByRole("button", { name: "Close the test" }).click()
  await bar.waitFor({ state: "detached" })
  await o.page.getByRole("group", { name: "step sum", exact: true }).waitFor()
  await o.close()
})

test("who may not write a pipeline may see the plan, and is told why a test does not run", async () => {
  const own = await new Server().start()
  own.token = await key(own, "admin")
  const id = (await own.ask("POST", "/pipelines", { document })).pipeline_id as string
  const o = await open(own, `/pipelines/${id}/edit`, { expected: /401/ })
  await as(o.page, await key(own, "viewer"))
  await o.page.getByRole("button", { name: /Test … \(editor is needed/ }).waitFor()
  await o.page.getByRole("button", { name: "Plan" }).click()
  await o.page.getByRole("dialog").getByRole("row", { name: /send util\.fail/ }).waitFor()
  await o.close()
  await own.stop()
})
