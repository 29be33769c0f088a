import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, looksRight, open } from "./browser"
import { as, hello, key, many, store } from "./seed"
import { Server } from "./server"

let server: Server
let id = ""
beforeAll(async () => {
  server = await new Server().start()
  id = await store(server, hello, "the first one")
  await server.ask("PUT", `/pipelines/${id}`, { document: hello.replace("- id: again", "- id: once_more"), note: "renamed a step" })
  const x = await server.ask("POST", "/execute", { workflow_id: id, params: { must: "be" } })
  await server.ask("GET", `/executions/${x.execution_id}?wait_seconds=30`)
})
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

test("the overview shows text, parameters and last executions; it is run from there", async () => {
  const o = await open(server, "/pipelines")
  await o.page.getByRole("row", { name: /hello v2/ }).focus()
  await o.page.keyboard.press("Enter")
  await o.page.getByRole("heading", { name: "Pipelines / hello" }).waitFor()
  await expect.poll(() => o.page.getByLabel("Text of hello v2").innerText()).toContain("- id: once_more")
  await o.page.getByRole("cell", { name: "Whom to greet. One of world, moon." }).waitFor()
  await o.page.getByText("1 of the last 1 completed").waitFor()
  await o.page.getByRole("button", { name: "Run …" }).click()
  await o.page.getByRole("dialog", { name: "Run hello v2" }).getByLabel("must *").fill("x")
  await o.page.getByRole("dialog").getByRole("button", { name: "Run" }).click()
  await o.page.waitForURL(/\/executions\/[0-9a-f-]{36}/)
  await o.close()
})

test("versions have notes, are compared and activated", async () => {
  const o = await open(server, `/pipelines/${id}/versions`)
  await o.page.getByRole("cell", { name: "renamed a step" }).waitFor()
  await o.page.getByRole("button", { name: "What changed in v2" }).click()
  await o.page.waitForURL(/from=1&to=2/)
  const diff = o.page.getByLabel("What changed from v1 to v2")
  await diff.waitFor()
  await expect.poll(() => diff.innerText()).toMatch(/-\s+- id: again[\s\S]*\+\s+- id: once_more/)
  await o.accessible("diff")
  await o.page.getByRole("row", { name: /v1/ }).getByRole("button", { name: "Activate" }).click()
  await o.page.getByText("v1 is active.").waitFor()
  expect((await server.ask("GET", `/pipelines/${id}`)).active_version).toBe(1)
  await o.page.getByRole("row", { name: /v1 active/ }).getByRole("button", { name: "Activate (it is active)" }).waitFor()
  await o.close()
})

test("a pipeline is stored, gets a version, is archived and deleted; what is wrong has a place", async () => {
  const o = await open(server, "/pipelines", { expected: /400/ })
  await o.page.getByRole("button", { name: "New pipeline" }).click()
  const text = o.page.getByRole("textbox", { name: "Pipeline as text" })
  const write = async (document: string) => {
    await text.click()
    await o.page.keyboard.press("Control+a")
    await o.page.evaluate((t) => navigator.clipboard.writeText(t), document)
    await o.page.keyboard.press("Control+v")
  }
  const save = async () => {
    await o.page.getByRole("button", { name: "Save" }).click()
    await o.page.getByRole("dialog").getByRole("button", { name: "Save" }).click()
  }
  await write("name: fresh\nsteps:\n  - id: a\n    action: util.nosuch\n")
  await o.page.getByText("1 error,").waitFor()
  await write("name: fresh\nsteps:\n  - id: a\n    action: util.noop\n")
  await o.page.getByText("0 errors").waitFor()
  await save()
  await o.page.getByRole("link", { name: "fresh" }).click()
  await o.page.getByRole("heading", { name: "Pipelines / fresh" }).waitFor()
  await o.page.getByRole("button", { name: "Edit" }).click()
  await write("name: fresh\nsteps:\n  - id: b\n    action: util.noop\n")
  await o.page.getByRole("button", { name: "Save" }).click()
  await o.page.getByLabel("Note").fill("b it is")
  await o.page.getByRole("dialog").getByRole("button", { name: "Save" }).click()
  await o.page.getByText("Version 2 is stored").waitFor()
  await o.page.getByRole("link", { name: "fresh" }).click()
  await o.page.getByRole("button", { name: "Archive" }).click()
  await o.page.getByRole("button", { name: "Run … (it is archived)" }).waitFor()
  await o.page.getByRole("button", { name: "Delete …" }).click()
  await o.page.getByRole("dialog").getByRole("button", { name: "Delete" }).click()
  await o.page.getByRole("row", { name: /hello/ }).waitFor()
  await expect.poll(() => o.page.getByRole("row", { name: /fresh/ }).count()).toBe(0)
  await o.close()
})

test("hundreds of pipelines are windowed and filtered", async () => {
  await many(server, 120, (i) => store(server, { name: `p${i}`, steps: [{ id: "a", action: "util.noop" }] }))
  const o = await open(server, "/pipelines")
  await o.page.getByRole("row").nth(20).waitFor()
  await expect.poll(() => o.page.getByRole("row").count()).toBeLessThan(60)
  await o.page.keyboard.press("/")
  await o.page.keyboard.type("hello")
  await o.page.getByRole("row", { name: /hello/ }).waitFor()
  await o.page.getByRole("row", { name: /p11/ }).first().waitFor({ state: "detached" })
  await o.close()
})

test("accessible in both themes, fit a phone", async () => {
  await looksRight(server, "/pipelines?q=hello", (page) => page.getByRole("row", { name: /hello/ }))
  await looksRight(server, `/pipelines/${id}`, (page) => page.getByLabel(/Text of hello v/))
  await looksRight(server, `/pipelines/${id}/versions`, (page) => page.getByRole("cell", { name: "renamed a step" }))
}, 600_000)

test("a viewer sees the text, and is told why nothing can be changed", async () => {
  const own = await new Server().start()
  own.token = await key(own, "admin")
  const mine = await store(own, hello)
  const viewer = await key(own, "viewer")
  const o = await open(own, `/pipelines/${mine}`, { expected: /401/ })
  await as(o.page, viewer)
  await o.page.getByLabel("Text of hello v1").waitFor()
  for (const name of [/^Run … \(operator/, /^Archive \(editor/, /^Delete … \(editor/]) await o.page.getByRole("button", { name }).waitFor()
  await o.close()
  await own.stop()
})
