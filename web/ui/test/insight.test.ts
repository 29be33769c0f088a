// Costs and SLA as a person sees them, and the document of an execution.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open } from "./browser"
import { store } from "./seed"
import { Server } from "./server"

let server: Server
beforeAll(async () => {
  server = new Server()
  mkdirSync(join(server.dir, "data"))
  writeFileSync(join(server.dir, "data", "stepwell.yaml"), "prices:\n  util.exec: {per_call: 0.5}\n")
  await server.start()
})
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

const flaky = { name: "flaky", steps: [{ id: "call", action: "util.exec", params: { command: "test $STEPWELL_ATTEMPT = 2" }, retry: { max_attempts: 2, backoff_seconds: 0.001 } }, { id: "each", for_each: "{{ [1, 2] }}", depends_on: ["call"], steps: [{ id: "more", action: "util.exec", params: { command: "true" } }] }] }

test("what executions cost, by what, what retries cost, and the same as CSV; before that, what is missing", async () => {
  const o = await open(server, "/insight")
  const { page } = o
  await page.getByRole("heading", { name: "Nothing that ended in this time has cost anything" }).waitFor()
  await o.accessible("no costs")
  await page.getByRole("link", { name: "SLA", exact: true }).click()
  await page.getByRole("heading", { name: "No execution of this time has an SLA" }).waitFor()
  const id = await store(server, flaky)
  const x = await server.ask("POST", "/execute", { workflow_id: id })
  await server.until(async () => (await server.ask("GET", `/executions/${x.execution_id}?wait_seconds=30`)).status === "completed")
  await page.getByRole("link", { name: "Cost", exact: true }).click()
  await page.reload()
  await page.getByText("25.0 %").waitFor()
  await page.getByRole("row", { name: /^flaky 2\.00 4 1 0\.5$/ }).waitFor()
  await page.getByRole("button", { name: "Step" }).click()
  await page.getByRole("row", { name: /^each\.more flaky 1\.00 2 0 –$/ }).waitFor()
  expect(new URL(page.url()).searchParams.get("by")).toBe("step")
  for (const by of ["Project", "Day"]) await page.getByRole("button", { name: by }).click()
  await page.getByRole("row", { name: new RegExp(`^${new Date().toISOString().slice(0, 10)} 2\\.00 4 1 0\\.5$`) }).waitFor()
  await expect.poll(() => page.getByRole("table", { name: "Cost by day" }).getByRole("row").count()).toBe(30)
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export CSV" }).click()])
  const lines = readFileSync(await file.path(), "utf8").split("\r\n")
  expect(lines[0]).toBe("day,pipeline_id,pipeline,project,step,attempts,cost,repeated_attempts,repeated_cost")
  expect(lines).toContain(`${new Date().toISOString().slice(0, 10)},${id},flaky,,call,2,1,1,0.5`)
  await page.getByRole("combobox", { name: "Time" }).selectOption("Today")
  await page.getByText("25.0 %").waitFor()
  await o.accessible("costs")
  await o.close()
})

test("who kept an SLA, who broke it, and who will", async () => {
  await server.run({ name: "promised", settings: { sla: { expected_seconds: 0.05 } }, steps: [{ id: "nap", action: "util.wait", params: { seconds: 0.2 } }] })
  const late = await server.ask("POST", "/execute", { workflow_definition: { name: "promised", settings: { sla: { expected_seconds: 0.05, max_seconds: 7200 } }, steps: [{ id: "nap", action: "util.wait", params: { seconds: 3600 } }] } })
  const o = await open(server, "/insight?tab=sla")
  const { page } = o
  await expect.poll(async () => { await page.reload(); return page.getByText("too long already").count() }).toBe(1)
  await page.getByText("1 of 1 will not keep the promise").waitFor()
  await page.getByRole("region", { name: "Promised and real durations" }).getByRole("row", { name: /^promised 0\.05 s .* 1 1 0 0\.0 %$/ }).waitFor()
  await page.getByRole("region", { name: "Executions that took longer" }).getByRole("row", { name: /promised.*completed/i }).waitFor()
  await o.accessible("sla")
  await server.ask("POST", `/executions/${late.execution_id}/cancel`, {})
  await o.close()
})

const text = "# Why it is there.\nname: told\nsteps:\n  - id: a # the first\n    action: util.noop\n\n  - id: each\n    for_each: \"{{ [1, 2] }}\"\n    steps:\n      - id: in\n        action: util.log\n        params: {message: \"<b>x</b>\"}\n"

test("the document of an execution, as it was written, with the lines of a step", async () => {
  const x = await server.ask("POST", "/execute", { workflow_definition: text })
  await server.until(async () => (await server.ask("GET", `/executions/${x.execution_id}?wait_seconds=30`)).status === "completed")
  const o = await open(server, `/executions/${x.execution_id}`)
  const { page } = o
  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "source" }).click()
  const shown = page.getByLabel("Document of the execution")
  await shown.getByText("# Why it is there.").waitFor()
  await page.getByText("As it was written when the execution was started.").waitFor()
  await page.goto(`${server.url}/executions/${x.execution_id}/source?step=${encodeURIComponent("each[1].in")}`)
  await expect.poll(() => shown.locator("[data-marked]").count()).toBe(3)
  expect(await shown.locator("[data-marked]").first().getAttribute("data-line")).toBe("10")
  await page.getByText(/Lines 10 to 12 are/).waitFor()
  const [file] = await Promise.all([page.waitForEvent("download"), page.locator(".x-source").getByRole("button", { name: "Download" }).click()])
  expect(file.suggestedFilename()).toBe("told.yaml")
  expect(readFileSync(await file.path(), "utf8")).toBe(text)
  await o.accessible("source")
  const action = await server.ask("POST", "/execute", { action_type: "util.noop" })
  await page.goto(`${server.url}/executions/${action.execution_id}/source`)
  await page.getByText("The text was not kept.").waitFor()
  await o.close()
})
