// Selecting steps with a text, in graph, table, waterfall and fan.
import { afterAll, beforeAll, expect, test } from "vitest"
import type { Page } from "playwright-core"
import { closeBrowser, open } from "./browser"
import { diamond, tries, wide } from "./definitions"
import { Server } from "./server"

let server: Server
beforeAll(async () => { server = await new Server().start() })
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

const params = (page: Page) => new URL(page.url()).searchParams
const box = (page: Page) => page.getByRole("searchbox", { name: "Select steps" })

test("a text selects the same steps in table, graph, waterfall and fan, and is in the address", async () => {
  const x = await server.run(diamond)
  const o = await open(server, `/executions/${x.execution_id}/table`)
  const { page } = o
  await page.getByText("48 steps", { exact: true }).waitFor()
  for (const [text, says] of [
    ["convert[*]", "40 steps"], ["convert[*] & failed", "0 steps"], ["+check", "47 steps"], ["check+", "2 steps"], ["list | report", "2 steps"], ["!completed", "2 steps"], ["action:util.log", "1 step"],
    ["(check | report) & failed", "1 step"], ["worker:* & tidy", "2 steps"], ["queue:default & list", "1 step"],
  ] as const) {
    await box(page).fill(text)
    await expect.poll(() => params(page).get("sel")).toBe(text)
    await page.getByText(says, { exact: true }).waitFor()
  }
  await box(page).fill("tidy")
  await page.getByText("3 of 48 selected").waitFor()
  await page.getByRole("link", { name: "waterfall" }).click()
  await page.getByText("3 of 48 selected").waitFor()
  await page.getByRole("link", { name: "fan" }).click()
  await page.getByText("3 of 48 selected").waitFor()
  await page.getByRole("link", { name: "graph" }).click()
  await page.locator(".x-node[data-faint]").getByRole("button", { name: "list, completed" }).waitFor()
  await expect.poll(() => page.locator(".x-node:not([data-faint])").getByRole("button", { name: /^tidy/ }).first().isVisible()).toBe(true)
  await page.reload()
  await expect.poll(() => box(page).inputValue()).toBe("tidy")
  await o.close()
})

test("chips and keys change the same text", async () => {
  const x = await server.run(diamond)
  const o = await open(server, `/executions/${x.execution_id}/table?step=list&state=failed`)
  const { page } = o
  await page.getByText("1 step", { exact: true }).waitFor() // an address of before there was one text
  await expect.poll(() => box(page).inputValue()).toBe("failed")
  await page.getByRole("complementary", { name: "Step list" }).getByText("completed").first().waitFor()
  await page.keyboard.press("d")
  await expect.poll(() => box(page).inputValue()).toBe("failed & step:list+")
  await page.getByText("1 step", { exact: true }).waitFor() // check
  await page.getByRole("button", { name: /^1 failed/, pressed: true }).click()
  await page.getByText("3 steps", { exact: true }).waitFor()
  await page.keyboard.press("c")
  await expect.poll(() => box(page).inputValue()).toBe("critical")
  await page.getByRole("button", { name: /^critical path/, pressed: true }).click()
  await expect.poll(() => box(page).inputValue()).toBe("")
  await o.close()
})

test("what is wrong is said with its place and a hint, and the help has examples that work", async () => {
  const x = await server.run(diamond)
  const o = await open(server, `/executions/${x.execution_id}/table`)
  const { page } = o
  await page.getByText("48 steps", { exact: true }).waitFor()
  await page.keyboard.press("/")
  await page.keyboard.type("convert & (failed")
  const fault = page.getByRole("alert")
  await fault.getByText("At 11: this ( is not closed.").waitFor()
  await fault.getByText("add ) where it ends").waitFor()
  await o.accessible("a wrong selection")
  await fault.getByRole("button", { name: "Show the place" }).click()
  await page.keyboard.press("Backspace") // what is chosen is the place
  await expect.poll(() => box(page).inputValue()).toBe("convert & failed")
  await fault.waitFor({ state: "detached" })
  await page.getByText("0 steps", { exact: true }).waitFor()
  await page.getByRole("button", { name: "What can be selected" }).click()
  const help = page.getByRole("region", { name: "What can be selected" })
  await help.getByRole("button", { name: "failed | timed_out" }).click()
  await page.getByText("1 step", { exact: true }).waitFor()
  await o.accessible("the help")
  await page.setViewportSize({ width: 390, height: 844 })
  await o.fits("the help on a phone")
  await o.close()
})

test("names, workers and queues of steps that run in another queue", async () => {
  const x = await server.run(tries)
  const o = await open(server, `/executions/${x.execution_id}/table?sel=${encodeURIComponent("queue:slow")}`)
  const { page } = o
  await page.getByText("1 step", { exact: true }).waitFor()
  await page.getByRole("row", { name: /flaky/ }).waitFor()
  await o.close()
})

test("20,000 iterations are selected by a pattern, and one failed among them is 3 × 3 pixels and found by a key", async () => {
  const x = await server.run(wide(20_000, 17_777))
  const o = await open(server, `/executions/${x.execution_id}/graph?all=1`)
  const { page } = o
  await page.locator("canvas[data-mode=pixels]").waitFor()
  await page.getByRole("button", { name: /^1 failed/ }).waitFor()
  // Pixels of the colour of failed on the canvas, as it is on the page.
  const red = () => page.evaluate(() => {
    const canvas = document.querySelector<HTMLCanvasElement>("canvas[data-mode=pixels]")
    if (!canvas) return 0
    const colour = getComputedStyle(document.documentElement).getPropertyValue("--state-failed").trim()
    const scratch = new OffscreenCanvas(1, 1).getContext("2d")!
    scratch.fillStyle = colour
    scratch.fillRect(0, 0, 1, 1)
    const [r, g, b] = scratch.getImageData(0, 0, 1, 1).data
    const { data } = canvas.getContext("2d")!.getImageData(0, 0, canvas.width, canvas.height)
    let n = 0
    for (let i = 0; i < data.length; i += 4) if (data[i] === r && data[i + 1] === g && data[i + 2] === b) n++
    return n
  })
  await expect.poll(red).toBeGreaterThanOrEqual(9)
  await box(page).fill("each[*] & failed")
  await page.getByText("1 of 20,002 selected").waitFor()
  await page.getByRole("searchbox", { name: "Select steps" }).blur()
  await page.keyboard.press("]")
  await page.getByRole("complementary", { name: "Step each[17777]" }).getByText("this one").first().waitFor()
  await o.close()
})
