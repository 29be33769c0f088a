// Lists while rows arrive: what somebody has in hand stays there.
import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open } from "./browser"
import { many, passing } from "./seed"
import { Server } from "./server"

let server: Server
beforeAll(async () => {
  server = await new Server().start()
  await many(server, 60, () => server.run(passing, {}, false))
})
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

const more = (n: number) => many(server, n, () => server.run({ ...passing, name: "newer" }, {}, false))

test("keys choose the rows they are meant for while new rows arrive above them", async () => {
  const o = await open(server, "/executions", { width: 1600, height: 900 }) // there is room for the id
  const grid = o.page.getByRole("grid", { name: "Executions" })
  const focused = () => o.page.evaluate(() => document.activeElement?.querySelector("code")?.getAttribute("title") ?? document.activeElement?.tagName)
  const wanted = (await server.ask("GET", "/executions?limit=60")).executions.slice(0, 20).map((x: any) => x.execution_id as string)
  await grid.getByRole("row").nth(1).focus()
  expect(await focused()).toBe(wanted[0])
  const arriving = more(80)
  for (let i = 0; i < 20; i++) {
    await o.page.keyboard.press(" ")
    await o.page.keyboard.press("j")
  }
  await o.page.getByText("20 executions chosen").waitFor()
  await arriving
  await expect.poll(async () => Number(await grid.getAttribute("aria-rowcount")), { timeout: 60_000 }).toBe(141)
  const chosen = await grid.getByRole("checkbox", { checked: true }).evaluateAll((all) => all.map((el) => el.getAttribute("aria-label")!.split(" ").at(-1)))
  expect(chosen.toSorted()).toEqual(wanted.toSorted())
  // The row that has the focus has it still, and is in view; K and J go on from it.
  const here = await focused()
  expect(await o.page.evaluate(() => {
    const row = document.activeElement!.getBoundingClientRect()
    const list = document.activeElement!.closest("[role=grid]")!.getBoundingClientRect()
    return row.top >= list.top && row.bottom <= list.bottom
  })).toBe(true)
  await o.page.keyboard.press("k")
  expect(await focused()).toBe(wanted[19])
  await o.page.keyboard.press("j")
  expect(await focused()).toBe(here)
  // It keeps the focus when the list is scrolled away from it, and is come back to by a key.
  await grid.evaluate((el) => el.scrollTo(0, 0))
  await grid.getByRole("row", { name: /newer/ }).first().waitFor()
  expect(await focused()).toBe(here)
  await o.page.keyboard.press("k")
  await expect.poll(focused).toBe(wanted[19])
  await o.close()
})

test("a list that is scrolled stays where it is, and one at its beginning shows what is new", async () => {
  const o = await open(server, "/executions", { width: 1600, height: 900 }) // there is room for the id
  const grid = o.page.getByRole("grid", { name: "Executions" })
  await grid.getByRole("row").nth(1).waitFor()
  const count = async () => Number(await grid.getAttribute("aria-rowcount"))
  const before = await count()
  await grid.evaluate((el) => el.scrollTo(0, 32 * 40))
  const row = grid.locator("[data-index='45']")
  const id = await row.locator("code").getAttribute("title")
  const place = (await row.boundingBox())!.y
  await more(7)
  await expect.poll(count, { timeout: 60_000 }).toBe(before + 7)
  expect((await grid.locator(`[data-index='52']`).boundingBox())!.y).toBe(place)
  expect(await grid.locator(`[data-index='52'] code`).getAttribute("title")).toBe(id)
  await grid.evaluate((el) => el.scrollTo(0, 0))
  await more(1)
  await expect.poll(count, { timeout: 60_000 }).toBe(before + 8)
  expect(await grid.evaluate((el) => el.scrollTop)).toBe(0)
  await o.close()
})
