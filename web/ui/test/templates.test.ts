import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, looksRight, open } from "./browser"
import { as, draftKept, key } from "./seed"
import { Server } from "./server"

const own = "# Counts what a shop has sold.\nname: shop\nparameters:\n  - {name: shop, type: string, default: north}   # which\nsteps:\n  - id: count\n    action: util.log\n    params: {message: \"{{ params.shop }}\"}\n"

let server: Server
let folder = ""
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "stepwell-templates-"))
  writeFileSync(join(folder, "shop.yaml"), own)
  server = await new Server([], { STEPWELL_TEMPLATES_FOLDERS: `${folder},${folder}-absent` }).start()
})
afterAll(async () => {
  await closeBrowser()
  await server.stop()
  rmSync(folder, { recursive: true, force: true })
})

test("a template is found, gets a value, and is the text of a new pipeline", async () => {
  const o = await open(server, "/pipelines")
  await o.page.getByRole("link", { name: "Begin with a template" }).click()
  await o.page.getByRole("list", { name: "Templates" }).getByRole("button").nth(3).waitFor()
  await o.page.getByText("-absent: the folder cannot be read").waitFor()
  await o.page.keyboard.press("/")
  await o.page.keyboard.type("sold shop")
  await o.page.waitForURL(/q=sold/)
  await o.page.getByRole("button", { name: /^shop · of this server/ }).click()
  const shown = o.page.getByRole("region", { name: "Template shop" })
  await shown.getByLabel("Text of shop").getByText("# which").waitFor()
  await shown.getByLabel("shop", { exact: true }).fill("south")
  await shown.getByRole("button", { name: "Use it" }).click()
  await o.page.waitForURL(/\/pipelines\/new/)
  await o.page.getByText("0 errors").waitFor()
  await o.page.getByRole("button", { name: "Save" }).click()
  await o.page.getByRole("dialog").getByRole("button", { name: "Save" }).click()
  await o.page.getByRole("link", { name: "shop", exact: true }).waitFor()
  const made = (await server.ask("GET", "/pipelines")).pipelines.find((p: { name: string }) => p.name === "shop")
  expect((await server.ask("GET", `/pipelines/${made.pipeline_id}`)).document).toBe(own.replace("north", "south"))
  await o.close()
})

test("a new pipeline that was not saved is not replaced without a word", async () => {
  const o = await open(server, "/pipelines/new")
  const text = o.page.getByRole("textbox", { name: "Pipeline as text" })
  await text.click()
  await o.page.keyboard.type("# mine\n")
  await o.page.getByText("not saved").waitFor()
  await draftKept(o.page, "# mine")
  const again = await o.context.newPage()
  await again.goto(server.url + "/pipelines/templates?template=shop")
  await again.getByText("was not saved is still here").waitFor()
  await again.getByRole("link", { name: "Look at it" }).click()
  await again.getByRole("textbox", { name: "Pipeline as text" }).getByText("# mine").waitFor()
  await o.close()
})

test("a viewer sees templates, and is told why none can be used", async () => {
  const other = await new Server().start()
  other.token = await key(other, "admin")
  const o = await open(other, "/pipelines/templates", { expected: /401/ })
  await as(o.page, await key(other, "viewer"))
  await o.page.getByRole("list", { name: "Templates" }).getByRole("button").first().click()
  await o.page.getByRole("button", { name: /Use it \(editor is needed/ }).waitFor()
  await o.close()
  await other.stop()
})

test("templates are accessible in both themes, and fit a phone", () => looksRight(server, "/pipelines/templates?template=shop", (page) => page.getByLabel("Text of shop")), 600_000)
