// The log of an execution: what it shows, how it is searched, and that nothing is lost when it is followed.
import { readFileSync } from "node:fs"
import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open } from "./browser"
import { gated, talks } from "./definitions"
import { Server } from "./server"

let server: Server
let id: string
const count = 6000
beforeAll(async () => {
  server = await new Server().start()
  id = (await server.run(talks(count))).execution_id
})
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

test("colours are shown and readable, other sequences are gone, markup is text", async () => {
  for (const theme of ["light", "dark"] as const) {
    const o = await open(server, `/executions/${id}/log?step=colours`, { theme })
    const { page } = o
    const line = page.locator(".log-text", { hasText: "indexed" })
    await line.waitFor()
    await expect.poll(() => line.innerText()).toBe("red indexed true plain")
    await expect.poll(() => line.locator("span[style*=color]").count()).toBe(3)
    await o.accessible(`log, ${theme}`)
    await page.goto(`${server.url}/executions/${id}/log?step=markup`)
    await page.getByText("<img src=x onerror=\"document.title='broken'\">").waitFor()
    await expect.poll(() => page.locator(".log img, .log script").count()).toBe(0)
    expect(await page.title()).not.toBe("broken")
    await o.close()
  }
})

test("a long log opens at its end, goes back to its beginning, and the page holds few lines", async () => {
  const o = await open(server, `/executions/${id}/log`)
  const { page } = o
  const lines = page.getByRole("log")
  await page.locator(".log-line").first().waitFor()
  await expect.poll(() => page.locator(".log-line").count()).toBeLessThan(200)
  const last = (await server.ask("GET", `/executions/${id}/logs?tail=1`)).logs[0]
  await page.locator(`.log-line[data-seq="${last.seq}"]`).waitFor()
  const before = new Set<string>()
  // Lines that come in front move what is read out of the first row, at any time: so the top is gone to until it is the log's.
  await expect.poll(async () => {
    await lines.evaluate((el) => { el.scrollTop = 0 })
    before.add(await page.locator(".log-line").first().innerText())
    return page.locator(".log-text", { hasText: "indexed" }).count()
  }, { timeout: 60_000, interval: 50 }).toBe(1)
  expect(before.size).toBeGreaterThan(5) // it came in pages
  await o.close()
})

test("search, levels and a link to a line", async () => {
  const o = await open(server, `/executions/${id}/log`)
  const { page } = o
  await page.locator(".log-line").first().waitFor()
  await page.getByRole("combobox", { name: "Level" }).selectOption("warning")
  await page.getByText("this is a warning").waitFor()
  await expect.poll(() => page.locator(".log-line").count()).toBe(1)
  await page.getByRole("combobox", { name: "Level" }).selectOption("")
  await page.getByRole("searchbox", { name: "Search in the log" }).fill("counted line 4321")
  await page.locator("mark", { hasText: "counted line 4321" }).waitFor()
  await expect.poll(() => page.locator(".log-line").count()).toBe(1)
  await page.getByRole("button", { name: "Regular expression" }).click()
  await page.getByRole("searchbox", { name: "Search in the log" }).fill("line 12[34]$")
  await page.getByText("counted line 124").waitFor()
  await expect.poll(() => page.locator(".log-line").count()).toBe(2)
  const seq = await page.locator(".log-line", { hasText: "counted line 124" }).getAttribute("data-seq")
  await page.locator(".log-line", { hasText: "counted line 124" }).locator(".log-time").click()
  expect(new URL(page.url()).searchParams.get("line")).toBe(seq)

  await page.goto(`${server.url}/executions/${id}/log?line=${seq}`)
  await page.locator(`.log-line[data-seq="${seq}"][data-chosen]`).waitFor()
  await page.getByRole("log").focus()
  await page.keyboard.press("j")
  await page.waitForFunction((was) => document.querySelector(".log-line[data-chosen]")?.getAttribute("data-seq") !== was, seq)
  await page.getByRole("button", { name: "to the end" }).click()
  await page.waitForFunction(() => !new URL(location.href).searchParams.has("line"))
  await o.close()
})

test("the whole log stands above it as bars by level; a click and keys jump to a part", async () => {
  const o = await open(server, `/executions/${id}/log`)
  const { page } = o
  const bars = page.getByRole("slider", { name: "Where in the log" })
  await bars.waitFor()
  await page.getByText(`${(count + 3).toLocaleString("en-US")} lines, 1 warning, 0 errors`).waitFor()
  await page.locator(".log-line").first().waitFor()
  const box = (await bars.boundingBox())!
  await bars.click({ position: { x: box.width / 2, y: 10 } })
  await page.locator(".log-line[data-chosen]").waitFor()
  const seq = Number(new URL(page.url()).searchParams.get("line"))
  const { spans } = await server.ask("GET", `/executions/${id}/logs/histogram?spans=120`)
  expect(seq).toBe(spans[Math.floor(spans.length / 2)].first_seq)
  expect(await page.locator(".log-line[data-chosen]").getAttribute("data-seq")).toBe(String(seq))
  await bars.focus()
  await page.keyboard.press("Home")
  await page.locator(`.log-line[data-seq="${spans[0].first_seq}"][data-chosen]`).waitFor()
  await page.keyboard.press("ArrowRight")
  await page.locator(`.log-line[data-seq="${spans[1].first_seq}"][data-chosen]`).waitFor()
  await o.accessible("log with its histogram")
  await o.close()
})

test("a faulty expression is explained", async () => {
  const o = await open(server, `/executions/${id}/log?q=%28&rx=1`, { expected: /Failed to load resource/ })
  await o.page.getByRole("alert").waitFor()
  await o.close()
})

test("a download has every line once, as text", async () => {
  const o = await open(server, `/executions/${id}/log`)
  const { page } = o
  await page.locator(".log-line").first().waitFor()
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).click()])
  const text = readFileSync(await file.path(), "utf8").trimEnd().split("\n")
  expect(text).toHaveLength(count + 3)
  expect(text[0]).toContain("red indexed true plain")
  expect(new Set(text.filter((l) => l.includes("counted line")).map((l) => l.slice(l.indexOf("counted")))).size).toBe(count)
  await o.close()
})

test("followed over a crash of the server: every line is there, once and in order; scrolled up, new ones are counted", async () => {
  const lines = 30
  const x = await server.run(gated(3, lines), {}, false)
  const approve = async (gate: string) => {
    await server.until(async () => (await server.ask("GET", "/approvals")).approvals.some((a: { step_id: string }) => a.step_id === gate))
    await server.ask("POST", `/approvals/${x.execution_id}.${gate}/approve`, {})
  }
  const o = await open(server, `/executions/${x.execution_id}/log`, { expected: /WebSocket|Failed to load resource|ERR_/, height: 500 })
  const { page } = o
  await page.getByText(`line number ${lines - 1} of all`).waitFor()
  await server.kill()
  await page.getByText("not connected, lines follow").waitFor()
  await server.start()
  await page.getByText("not connected, lines follow").waitFor({ state: "detached" })
  await approve("gate0")
  await page.getByText(`line number ${2 * lines - 1} of all`).waitFor() // the end stays in view
  await page.getByRole("log").evaluate((el) => { el.scrollTop = 0 })
  await page.getByText("line number 0 of all").waitFor()
  await approve("gate1")
  await page.getByRole("button", { name: `${lines} new lines` }).waitFor()
  await page.getByText("line number 0 of all").waitFor() // one still reads where one was
  await page.getByRole("button", { name: `${lines} new lines` }).click()
  await page.getByText(`line number ${3 * lines - 1} of all`).waitFor()
  await page.setViewportSize({ width: 1440, height: 2000 })
  await page.getByText("line number 0 of all").waitFor()
  expect(await page.locator(".log-text").allInnerTexts()).toEqual(Array.from({ length: 3 * lines }, (_, i) => `line number ${i} of all`))
  await o.close()
})
