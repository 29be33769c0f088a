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
  await o.page.getByRole("button", { name: "also steps that are the same" }).click()
  await o.page.getByRole("row", { name: /same/ }).waitFor()
  await o.page.getByRole("link", { name: "Swap A and B" }).click()
  await expect.poll(() => row.innerText()).toMatch(/completed[\s\S]*skipped/)
  await row.click()
  const panel = o.page.getByRole("region", { name: "What differs in check" })
  await expect.poll(() => panel.innerText()).toMatch(/all of it[\s\S]*result/) // outputs, of one side only
  await panel.getByRole("button", { name: "error" }).click()
  await expect.poll(() => panel.innerText()).toMatch(/condition is false/)
  await panel.getByRole("button", { name: "log" }).click()
  await panel.getByText("Neither has lines.").waitFor()
  await o.accessible("a compared step")
  await panel.getByRole("link", { name: "Open in A" }).click()
  await expect.poll(() => o.page.url()).toContain(`/executions/${b.execution_id}?step=check`)
  await o.close()
})

test("definitions, parameters, outputs and logs are compared member by member and line by line", async () => {
  const of = (region: string) => ({ name: "deploy", parameters: [{ name: "region", type: "string" }], steps: [{ id: "tell", action: "util.log", params: { message: `to {{ params.region }} ${region}` } }, { id: "give", action: "util.set_output", params: { outputs: { region: "{{ params.region }}", always: 1, list: [1, region] } } }], outputs: { region: "{{ steps.give.outputs.region }}" } })
  const a = await server.run(of("first"), { region: "eu" })
  const b = await server.run(of("second"), { region: "us" })
  const o = await open(server, `/executions/${a.execution_id}/compare/${b.execution_id}?step=give&part=outputs`)
  const values = o.page.getByRole("group", { name: "outputs of give" })
  await values.getByRole("row", { name: /changed region "eu" "us"/ }).waitFor()
  await values.getByRole("row", { name: /changed list\[1\] "first" "second"/ }).waitFor()
  expect(await values.getByText("always").count()).toBe(0)
  // In the same state, and listed: their outputs differ.
  await o.page.getByRole("row", { name: /^give completed completed .*outputs/ }).waitFor()
  await o.page.getByText("What differs in the definition").click()
  await expect.poll(() => o.page.getByLabel("What differs in the definition").innerText()).toMatch(/-.*first[\s\S]*\+.*second/)
  await o.page.getByText("What differs in the parameters").click()
  await o.page.getByRole("group", { name: "Parameters" }).getByRole("row", { name: /changed region "eu" "us"/ }).waitFor()
  await o.page.getByText("What differs in the outputs").click()
  await o.page.getByRole("group", { name: "Outputs", exact: true }).getByRole("row", { name: /changed region "eu" "us"/ }).waitFor()
  await o.accessible("compared values")
  await o.page.getByRole("row", { name: /^tell/ }).click()
  await o.page.getByRole("button", { name: "log", exact: true }).click()
  await expect.poll(() => o.page.getByLabel("Lines of tell that differ").innerText()).toMatch(/-to eu first[\s\S]*\+to us second/)
  await o.close()
})
