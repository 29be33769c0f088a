import { afterAll, beforeAll, expect, test } from "vitest"
import type { Locator } from "playwright-core"
import { closeBrowser, open } from "./browser"
import { approval, failing, hello, sleeping, store } from "./seed"
import { Server } from "./server"

let server: Server
beforeAll(async () => { server = await new Server().start() })
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

const colours = (of: Locator) => of.evaluate((el) => { const { backgroundColor, borderBottomColor } = getComputedStyle(el); return { backgroundColor, borderBottomColor } })

test("in the system's own colours one sees what is chosen, and the bars", async () => {
  const x = await server.run(failing)
  const o = await open(server, "/executions?status=failed")
  await o.page.emulateMedia({ forcedColors: "active" })
  const chips = o.page.getByRole("group", { name: "States" })
  const chosen = await colours(chips.getByRole("button", { name: "failed", exact: true }))
  expect(chosen.backgroundColor).not.toBe((await colours(chips.getByRole("button", { name: "running" }))).backgroundColor)
  const rail = o.page.getByRole("navigation", { name: "Screens" })
  expect((await colours(rail.getByRole("link", { name: "Executions" }))).backgroundColor).not.toBe((await colours(rail.getByRole("link", { name: "Pipelines" }))).backgroundColor)
  const bar = o.page.getByRole("row", { name: /thumbnails/ }).locator(".bar")
  expect((await colours(bar.locator("i").first())).backgroundColor).not.toBe((await colours(bar)).backgroundColor)
  await o.page.goto(`${server.url}/executions/${x.execution_id}`)
  const tabs = o.page.getByRole("navigation", { name: "Views" })
  expect((await colours(tabs.getByRole("link", { name: "graph" }))).borderBottomColor).not.toBe((await colours(tabs.getByRole("link", { name: "table" }))).borderBottomColor)
  await o.close()
})

test("a long error leaves room for what it is about, and all of it is one click away", async () => {
  const message = "Traceback: ".repeat(360) + "the last word"
  const x = await server.run({ name: "traced", steps: [{ id: "boom", action: "util.fail", params: { message } }] })
  const o = await open(server, `/executions/${x.execution_id}`, { width: 1280, height: 800 })
  const line = o.page.getByRole("region", { name: "Why it failed" })
  await line.waitFor()
  expect((await line.boundingBox())!.height).toBeLessThan(200)
  await line.getByRole("button", { name: "Show boom" }).click()
  const why = o.page.getByRole("region", { name: "Why", exact: true })
  await why.getByRole("button", { name: /Show all 3,9\d\d letters|Show all 4,\d{3} letters/ }).click()
  await why.getByText(/the last word/).waitFor()
  await why.getByRole("button", { name: "Show less" }).click()
  await o.page.getByRole("button", { name: "Download" }).waitFor()
  await o.close()
})

test("a cancelled execution says that, and not that it failed", async () => {
  const x = await server.run(sleeping, {}, false)
  await server.ask("POST", `/executions/${x.execution_id}/cancel`, {})
  await server.ended(x.execution_id)
  const o = await open(server, `/executions/${x.execution_id}`)
  const ended = o.page.getByRole("region", { name: "Why it ended" })
  await ended.getByText("It was cancelled before its end.").waitFor()
  await ended.getByRole("button", { name: "Retry what did not complete…" }).waitFor()
  await o.accessible("cancelled")
  await o.close()
})

test("a server that hangs is told of, and what it answers later is shown", async () => {
  await store(server, hello)
  const o = await open(server, "/executions")
  let answer = () => {}
  const hangs = new Promise<void>((done) => { answer = done })
  await o.page.route("**/api/v1/pipelines?*", async (route) => { await hangs; await route.continue() })
  await o.page.getByRole("link", { name: "Pipelines" }).click()
  await o.page.getByText("The server has not answered yet.").waitFor()
  await o.accessible("a server that hangs")
  answer()
  await o.page.getByRole("row", { name: /hello/ }).waitFor()
  expect(await o.page.getByText("The server has not answered yet.").count()).toBe(0)
  await o.close()
})

test("cancelling asks with words that tell the two buttons apart, and says what is not known where the server is gone", async () => {
  const own = await new Server().start()
  const x = await own.run(sleeping, {}, false)
  const o = await open(own, `/executions/${x.execution_id}`, { expected: /WebSocket|Failed to load resource|ERR_/ })
  await o.page.getByRole("button", { name: "Cancel", exact: true }).click()
  const dialog = o.page.getByRole("dialog", { name: "Cancel this execution?" })
  expect(await dialog.getByRole("button").allInnerTexts()).toEqual(["Keep it running", "Cancel the execution"])
  await own.kill()
  await dialog.getByRole("button", { name: "Cancel the execution" }).click()
  await dialog.getByText("it may have been done all the same: look before you do it again").waitFor()
  await own.start()
  await dialog.getByRole("button", { name: "Cancel the execution" }).click()
  await dialog.waitFor({ state: "detached" })
  await own.ended(x.execution_id)
  await o.close()
  await own.stop()
})

test("the focus returns to where it was when a dialog closes, and a long list of keys begins at its beginning", async () => {
  await server.run(approval("Publish?"), {}, false)
  const o = await open(server, "/executions", { width: 1280, height: 500 })
  const { page } = o
  const has = (of: Locator) => expect.poll(() => of.evaluate((el) => el === document.activeElement)).toBe(true)
  const gone = () => page.getByRole("dialog").waitFor({ state: "detached" })
  const run = page.getByRole("button", { name: "Run …" })
  await run.focus()
  for (const keys of ["Enter", "Control+k", "?"]) {
    await page.keyboard.press(keys)
    await page.getByRole("dialog").waitFor()
    if (keys === "?") expect(await page.getByRole("dialog").evaluate((el) => el.scrollTop)).toBe(0)
    await page.keyboard.press("Escape")
    await gone()
    await has(run)
  }
  await page.keyboard.press("Control+k") // one dialog after another
  await page.getByRole("combobox", { name: "Search" }).fill("run a pipeline")
  await page.keyboard.press("Enter")
  await page.getByRole("dialog", { name: "Run a pipeline" }).waitFor()
  await page.keyboard.press("Escape")
  await gone()
  await has(run)
  await page.goto(`${server.url}/approvals`)
  const asked = page.getByRole("listitem").filter({ hasText: "Publish?" })
  await asked.focus()
  await page.keyboard.press("r")
  await page.getByRole("dialog").waitFor()
  await page.keyboard.press("Escape")
  await gone()
  await has(asked)
  await o.close()
})
