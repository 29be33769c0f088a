// The page of an execution, as a person uses it.
import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open } from "./browser"
import { asks, diamond, gated, wide } from "./definitions"
import { Server } from "./server"

let server: Server
beforeAll(async () => { server = await new Server().start() })
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

test("why it failed: the graph shows where, a key leads there, the panel says it, and a retry repeats only what did not complete", async () => {
  const x = await server.run(diamond)
  const o = await open(server, `/executions/${x.execution_id}`)
  const { page } = o
  await page.getByRole("heading", { name: "thumbnails" }).waitFor()
  await page.getByRole("button", { name: "check, failed" }).waitFor()
  await page.getByRole("button", { name: /^convert, completed, 40 steps/ }).waitFor()
  await page.getByRole("button", { name: /^1 failed/ }).waitFor()

  // Groups open and close; the address knows which.
  await page.getByRole("button", { name: "Expand tidy" }).click()
  await page.getByRole("button", { name: "two, completed" }).waitFor()
  expect(new URL(page.url()).searchParams.get("x")).toBe("tidy")
  await page.getByRole("button", { name: "Collapse tidy" }).click()
  await page.getByRole("button", { name: "two, completed" }).waitFor({ state: "detached" })

  await page.keyboard.press("]")
  const side = page.getByRole("complementary", { name: "Step check" })
  await side.getByText("exit 1: no decode delegate").first().waitFor()
  expect(new URL(page.url()).searchParams.get("step")).toBe("check")
  await side.getByRole("button", { name: "attempts" }).click()
  await side.getByRole("cell", { name: /^failed/ }).waitFor()

  await side.getByRole("button", { name: "Retry what did not complete…" }).click()
  const dialog = page.getByRole("dialog", { name: "Retry what did not complete" })
  await dialog.getByRole("region", { name: "runs again", exact: true }).getByText("check", { exact: true }).waitFor()
  await dialog.getByRole("region", { name: "kept" }).getByText("find", { exact: true }).waitFor()
  await o.accessible("retry preview")
  await dialog.getByRole("button", { name: "Start the retry" }).click()
  await page.getByText("retry of").waitFor()
  expect(page.url()).not.toContain(x.execution_id)
  const list = await server.ask("GET", "/executions?limit=10")
  expect(list.executions.find((e: { parent_id: string }) => e.parent_id === x.execution_id)).toBeTruthy()
  await o.close()
})

test("what if: the panel says in sentences what would come of an outcome, and does nothing", async () => {
  const x = await server.run(diamond)
  const o = await open(server, `/executions/${x.execution_id}?step=check`)
  const { page } = o
  const side = page.getByRole("complementary", { name: "Step check" })
  await side.getByRole("button", { name: "What if…" }).click()
  const group = side.getByRole("group", { name: "What if" })
  await group.getByRole("combobox").selectOption({ label: "it was restarted" })
  await group.getByText(/check would run at once/).waitFor()
  await group.getByText("Nothing has been done.").waitFor()
  await o.accessible("what if")
  expect((await server.ask("GET", `/executions/${x.execution_id}`)).status).toBe(x.status)
  await o.close()
})

test("the critical path, and what is before and behind a step, are a key away and in the address", async () => {
  const x = await server.run(diamond)
  const o = await open(server, `/executions/${x.execution_id}/table?step=list`)
  const { page } = o
  await page.getByText("48 steps", { exact: true }).waitFor()
  await page.getByRole("complementary", { name: "Step list" }).getByText("completed").first().waitFor()
  await page.keyboard.press("u")
  await page.getByText("2 steps", { exact: true }).waitFor() // find, list
  await page.keyboard.press("d")
  await page.getByText("3 steps", { exact: true }).waitFor() // list, check, report
  await page.reload()
  await page.getByRole("button", { name: /^what depends on it/, pressed: true }).waitFor()
  await page.getByText("3 steps", { exact: true }).waitFor()
  await page.keyboard.press("c")
  await page.getByRole("button", { name: /^critical path/, pressed: true }).click()
  await page.getByText("48 steps", { exact: true }).waitFor()
  await o.close()
})

test("a link shows another person the same: step, filter, view", async () => {
  const x = await server.run(diamond)
  const o = await open(server, `/executions/${x.execution_id.slice(0, 18)}/table?state=failed&step=check&side=params`)
  const { page } = o
  await page.waitForURL(`**/executions/${x.execution_id}/table?state=failed&step=check&side=params`) // the beginning of an id will do
  await page.getByRole("row", { name: /check/ }).waitFor()
  await expect.poll(() => page.getByRole("grid", { name: "Steps" }).getByRole("row").count()).toBe(2) // with the head
  await page.getByText('"message": "exit 1: no decode delegate"').or(page.getByText("Its parameters are those of the definition")).waitFor()
  // The filter is a button that is pressed, and goes.
  await page.getByRole("button", { name: /^1 failed/, pressed: true }).click()
  await page.getByText("48 steps", { exact: true }).waitFor()
  await o.close()
})

test("20,000 iterations: one failed among them is found by a key, in the graph, the fan and the table", async () => {
  const x = await server.run(wide(20_000, 17_777))
  const o = await open(server, `/executions/${x.execution_id}/graph?all=1`)
  const { page } = o
  await page.locator("canvas[data-mode=pixels]").waitFor()
  await page.getByRole("button", { name: /^1 failed/ }).waitFor()
  await page.keyboard.press("]")
  await page.getByRole("complementary", { name: "Step each[17777]" }).getByText("this one").first().waitFor()
  await page.locator("canvas[data-mode=boxes]").waitFor() // it has been zoomed in on

  await page.getByRole("link", { name: "fan" }).click()
  await page.getByText("20,000 steps in the order of the input").waitFor()
  await page.locator("canvas[data-drawn]").waitFor()

  await page.keyboard.press("Escape")
  await page.keyboard.press("t")
  await page.getByRole("button", { name: /^1 failed/ }).click()
  await page.getByRole("row", { name: /each\[17777\].*failed/ }).click()
  await page.getByRole("complementary", { name: "Step each[17777]" }).waitFor()
  await page.getByRole("button", { name: "all states" }).click()
  await expect.poll(() => page.getByRole("row").count()).toBeLessThan(100) // only what is in view
  await page.getByRole("searchbox", { name: "Select steps" }).fill("each[1234")
  await page.getByText("11 steps", { exact: true }).waitFor()
  await o.close()
})

test("an approval is asked, and given, where one looks", async () => {
  const x = await server.run(asks, {}, false)
  const o = await open(server, `/executions/${x.execution_id}`)
  const { page } = o
  await page.getByRole("button", { name: "Approve", exact: true }).click()
  const dialog = page.getByRole("dialog", { name: "Approve ok?" })
  await dialog.getByText("Publish <b>version 7</b>?").waitFor() // text, not markup
  await dialog.getByRole("textbox", { name: "Comment" }).fill("fine")
  await dialog.getByRole("button", { name: "Approve" }).click()
  await page.getByRole("button", { name: "publish, completed" }).waitFor() // live, without a reload
  await page.locator(".x-status").getByText("completed").waitFor()
  const step = await server.ask("GET", `/executions/${x.execution_id}/steps?outputs=true&step_id=ok`)
  expect(step.steps[0].outputs).toMatchObject({ approved: true, comment: "fine" })
  await o.close()
})

test("pause, resume and cancel, with a confirmation for what cannot be undone", async () => {
  const x = await server.run(asks, {}, false)
  const o = await open(server, `/executions/${x.execution_id}`)
  const { page } = o
  await page.getByRole("button", { name: "Pause" }).click()
  await page.getByRole("button", { name: "Resume" }).click()
  await page.getByRole("button", { name: "Pause" }).waitFor()
  await page.getByRole("button", { name: "Cancel", exact: true }).click()
  const dialog = page.getByRole("dialog", { name: "Cancel this execution?" })
  await page.keyboard.press("Escape")
  await dialog.waitFor({ state: "detached" })
  expect((await server.ask("GET", `/executions/${x.execution_id}`)).status).toBe("running")
  await page.getByRole("button", { name: "Cancel", exact: true }).click()
  await dialog.getByRole("button", { name: "Cancel the execution" }).click()
  await page.locator(".x-status").getByText("cancelled").waitFor()
  await o.close()
})

test("the server is killed and started while the page is open: states and events are complete, each once", async () => {
  const x = await server.run(gated(2, 12), {}, false)
  const o = await open(server, `/executions/${x.execution_id}/events?fold=0`, { expected: /WebSocket|Failed to load resource|ERR_/ })
  const { page } = o
  await page.getByRole("row", { name: /completed.*say11\b/ }).first().waitFor()
  const link = page.locator("#screen .live") // of the execution; the bar has that of the lists
  await link.getByText("live", { exact: true }).waitFor()
  await server.kill()
  await link.getByText(/behind|connecting/).waitFor()
  await server.start()
  await link.getByText("live", { exact: true }).waitFor()
  await server.until(async () => (await server.ask("GET", "/approvals")).approvals.length > 0)
  await server.ask("POST", `/approvals/${x.execution_id}.gate0/approve`, {})
  await page.locator(".x-status").getByText("completed").waitFor()
  const history = await server.ask("GET", `/executions/${x.execution_id}/history?limit=1000`)
  await page.getByText(`${history.events.length} events`).waitFor()
  const grid = page.getByRole("grid", { name: "Events" })
  expect(await grid.getAttribute("aria-rowcount")).toBe(String(history.events.length + 1))
  await page.getByRole("link", { name: "table" }).click()
  await page.getByRole("button", { name: /^25 completed/ }).waitFor()
  await o.close()
})

const views = [["waterfall", ".x-ruler"], ["fan", "canvas[data-drawn]"], ["table", "[role=grid][aria-label=Steps] [role=row]"], ["events", "[role=grid][aria-label=Events] [role=row]"]] as const

test("the graph and the panel of a step are accessible", async () => {
  const x = await server.run(diamond)
  const o = await open(server, `/executions/${x.execution_id}/graph?step=check`)
  await o.page.getByRole("button", { name: "check, failed" }).waitFor()
  await o.page.getByRole("complementary").getByText("no decode delegate").first().waitFor()
  await o.accessible("graph")
  await o.page.getByRole("button", { name: "All steps" }).click()
  await o.page.locator("canvas[data-mode]").waitFor()
  await o.accessible("all steps")
  await o.darkToo("all steps")
  await o.close()
})

for (const [tab, ready] of views) {
  test(`${tab} is accessible`, async () => {
    const x = await server.run(diamond)
    const o = await open(server, `/executions/${x.execution_id}/${tab}`)
    await o.page.locator(ready).first().waitFor()
    await o.accessible(tab)
    await o.darkToo(tab)
    await o.close()
  })
}

test("a phone: nothing sticks out, and the panel of a step is below", async () => {
  const x = await server.run(diamond)
  const o = await open(server, `/executions/${x.execution_id}`, { width: 390, height: 844 })
  const { page } = o
  await page.locator("canvas[data-drawn]").waitFor()
  for (const tab of ["waterfall", "fan", "table", "events", "graph"]) {
    await page.getByRole("link", { name: tab, exact: true }).click()
    await o.fits(tab)
  }
  await page.goto(`${server.url}/executions/${x.execution_id}/table?step=check`)
  await page.getByRole("complementary").getByText("no decode delegate").first().waitFor()
  await o.fits("step")
  await o.accessible("step on a phone")
  await page.goto(`${server.url}/executions/${x.execution_id}/log`)
  await page.getByText("hello from list").waitFor()
  await o.fits("log")
  await o.close()
})

test("by keyboard alone: to the graph, along it, to the log and back", async () => {
  const x = await server.run(diamond)
  const o = await open(server, `/executions/${x.execution_id}/graph?all=1`)
  const { page } = o
  await page.locator("canvas[data-drawn]").waitFor()
  await page.keyboard.press("2")
  await page.locator(".x-ruler").waitFor()
  await page.keyboard.press("1")
  const field = page.getByRole("application")
  await field.waitFor()
  for (let i = 0; i < 60 && !(await field.evaluate((el) => el === document.activeElement)); i++) await page.keyboard.press("Tab")
  await page.keyboard.press("ArrowRight")
  await page.getByRole("complementary", { name: "Step find" }).waitFor()
  await page.keyboard.press("ArrowRight") // along an edge
  await page.getByRole("complementary", { name: /^Step (list|convert)$/ }).waitFor()
  await page.keyboard.press("w")
  await expect.poll(() => page.evaluate(() => document.activeElement?.getAttribute("aria-label"))).toBe("Why")
  await page.keyboard.press("Escape")
  await page.getByRole("complementary").waitFor({ state: "detached" })
  await page.keyboard.press("l")
  await page.getByRole("log").waitFor()
  await page.goBack()
  await field.waitFor()
  await page.keyboard.press("t")
  await page.getByRole("grid", { name: "Steps" }).waitFor()
  await page.keyboard.press("t")
  await field.waitFor()
  await o.close()
})
