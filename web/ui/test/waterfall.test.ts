// The waterfall of an execution: attempts over time, by step, worker and queue; one of them chosen; a time chosen.
import { afterAll, beforeAll, expect, test } from "vitest"
import type { Page } from "playwright-core"
import { closeBrowser, looksRight, open } from "./browser"
import { asks, tries } from "./definitions"
import { Server } from "./server"

let server: Server
let id: string
beforeAll(async () => {
  server = await new Server().start()
  id = (await server.run(tries)).execution_id
})
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

const params = (page: Page) => new URL(page.url()).searchParams

test("an attempt is chosen by keys and by a click: the address has it, the panel shows it, and its log alone", async () => {
  const o = await open(server, `/executions/${id}/waterfall?step=flaky`)
  const { page } = o
  const field = page.getByRole("application", { name: /^Waterfall\. Arrow keys move between attempts/ })
  await field.waitFor()
  const side = page.getByRole("complementary", { name: "Step flaky" })
  await side.getByText("trying").first().waitFor()
  await expect.poll(() => side.getByText("trying", { exact: true }).count()).toBe(3) // of all attempts
  await page.getByText("flaky, attempt 3, failed").waitFor() // what a screen reader hears

  await field.focus()
  await page.keyboard.press("ArrowLeft")
  await side.getByRole("region", { name: "Attempt 2" }).getByText("failed").first().waitFor()
  expect(params(page).get("attempt")).toBe("2")
  await expect.poll(() => side.getByText("trying", { exact: true }).count()).toBe(1)
  await o.accessible("an attempt")

  // A link shows the same; the list of attempts chooses as well.
  await page.reload()
  await side.getByRole("region", { name: "Attempt 2" }).waitFor()
  await side.getByRole("button", { name: "attempts", exact: true }).click()
  await side.getByRole("button", { name: "Attempt 1" }).click()
  expect(params(page).get("attempt")).toBe("1")
  await side.getByRole("button", { name: "All attempts ✕" }).click()
  expect(params(page).get("attempt")).toBeNull()
  await side.getByRole("button", { name: "Close the step" }).click()

  // The first attempt of a row, under the pointer: after it was chosen by a key, its frame says where it is.
  await page.goto(`${server.url}/executions/${id}/waterfall?step=flaky&attempt=1`)
  await side.getByRole("region", { name: "Attempt 1" }).waitFor()
  await page.getByText("flaky, failed", { exact: true }).waitFor() // the frame is where the attempt is
  await field.focus()
  await page.keyboard.press("ArrowRight")
  await side.getByRole("region", { name: "Attempt 2" }).waitFor()
  await page.goBack()
  await side.getByRole("region", { name: "Attempt 1" }).waitFor()
  await o.close()
})

test("a key that comes before the attempts is not lost", async () => {
  const o = await open(server, "/executions")
  const { page } = o
  let go = () => {}
  const held = new Promise<void>((resolve) => { go = resolve })
  await page.route("**/attempts.columns*", async (route) => { await held; await route.continue() })
  await page.goto(`${server.url}/executions/${id}/waterfall?step=flaky&attempt=1`)
  const side = page.getByRole("complementary", { name: "Step flaky" })
  await side.getByRole("region", { name: "Attempt 1" }).waitFor()
  const field = page.getByRole("application", { name: /^Waterfall/ })
  await field.focus()
  await page.keyboard.press("ArrowRight")
  await page.keyboard.press("ArrowRight")
  go()
  await side.getByRole("region", { name: "Attempt 3" }).waitFor()
  expect(params(page).get("attempt")).toBe("3")
  await o.close()
})

test("a click on what is drawn chooses the attempt that lies there", async () => {
  const o = await open(server, `/executions/${id}/waterfall?rows=step`)
  const { page } = o
  const field = page.getByRole("application", { name: /^Waterfall/ })
  await page.locator("canvas[data-drawn]").waitFor()
  const box = (await field.boundingBox())!
  // Along the rows until the pointer says that it is over the second attempt.
  const tip = page.locator(".field-tip")
  let found = false
  for (let y = 8; y < 200 && !found; y += 12) {
    for (let x = 10; x < box.width - 10 && !found; x += 6) {
      await page.mouse.move(box.x + x, box.y + y)
      const text = (await tip.count()) > 0 ? await tip.innerText() : ""
      if (!text.includes("flaky") && x > 400 && text === "") break
      found = /flaky\nfailed, attempt 2/.test(text) && /backoff/.test(text)
      if (found) await page.mouse.click(box.x + x, box.y + y)
    }
  }
  expect(found).toBe(true)
  await page.getByRole("complementary", { name: "Step flaky" }).getByRole("region", { name: "Attempt 2" }).waitFor()
  expect([params(page).get("step"), params(page).get("attempt")]).toEqual(["flaky", "2"])
  await o.close()
})

test("rows by worker and by queue are in the address, with their names and a legend", async () => {
  const o = await open(server, `/executions/${id}/waterfall`)
  const { page } = o
  const legend = page.getByRole("list", { name: "Legend" })
  await legend.getByText("backoff").waitFor()
  await page.getByRole("button", { name: "By queue" }).click()
  expect(params(page).get("rows")).toBe("queue")
  await page.locator(".x-lanes").getByText("slow", { exact: true }).waitFor()
  await page.locator(".x-lanes").getByText("default", { exact: true }).waitFor()
  await legend.getByText("queued").waitFor()
  await page.getByRole("button", { name: "By worker" }).click()
  await expect.poll(() => page.locator(".x-lanes span").count()).toBe(1)
  await expect.poll(() => legend.getByText("queued").count()).toBe(0) // that is no worker's time
  await page.reload()
  await page.getByRole("button", { name: "By worker", pressed: true }).waitFor()
  await page.getByRole("button", { name: "Packed" }).click()
  await page.locator("canvas[data-drawn]").waitFor()
  await o.close()
})

/** hollow is how wide the widest hollow bar is that the field shows, in pixels: two lines of a colour above each other, and none between. */
const hollow = (page: Page, token: string) => page.locator("canvas[data-drawn]").evaluate((el: HTMLCanvasElement, token) => {
  const colour = getComputedStyle(document.documentElement).getPropertyValue(token).trim()
  const scratch = new OffscreenCanvas(1, 1).getContext("2d")!
  scratch.fillStyle = colour
  scratch.fillRect(0, 0, 1, 1)
  const wanted = new Uint32Array(scratch.getImageData(0, 0, 1, 1).data.buffer)[0]
  const pixels = new Uint32Array(el.getContext("2d")!.getImageData(0, 0, el.width, el.height).data.buffer)
  let widest = 0
  for (let y = 0; y + 6 < el.height; y++) {
    for (let x = 0, n = 0; x < el.width; x++) {
      const [top, middle, bottom] = [0, 4, 6].map((d) => [0, 1, 2].some((e) => pixels[(y + d + e - 1) * el.width + x] === wanted && (d !== 4 || e === 0)))
      n = top && bottom && !middle ? n + 1 : 0
      widest = Math.max(widest, n)
    }
  }
  return widest
}, token)

test("a step that waits for a decision is a hollow bar, also when it was given; the legend has it", async () => {
  const x = (await server.run(asks, {}, false)).execution_id
  await expect.poll(async () => (await server.ask("GET", "/approvals")).approvals.length).toBe(1)
  const o = await open(server, `/executions/${x}/waterfall?rows=step`)
  const { page } = o
  await page.getByRole("list", { name: "Legend" }).getByText("waiting").waitFor()
  await expect.poll(() => hollow(page, "--state-waiting")).toBeGreaterThan(100)
  await server.ask("POST", `/approvals/${(await server.ask("GET", "/approvals")).approvals[0].approval_id}/approve`, {})
  await expect.poll(async () => (await server.ask("GET", `/executions/${x}`)).status).toBe("completed")
  await page.reload()
  await expect.poll(() => hollow(page, "--state-waiting")).toBeGreaterThan(100)
  await page.getByRole("button", { name: "By worker" }).click()
  await expect.poll(() => page.getByRole("list", { name: "Legend" }).getByText("waiting").count()).toBe(0) // that is no worker's time
  await o.close()
})

test("a time that is dragged on the ruler filters table and log, and a chip takes it away", async () => {
  const o = await open(server, `/executions/${id}/waterfall?rows=step`)
  const { page } = o
  const ruler = page.locator(".x-ruler")
  await page.locator("canvas[data-drawn]").waitFor()
  const box = (await ruler.boundingBox())!
  // The right half: the step behind the pause ran there, the first one did not.
  await page.mouse.move(box.x + box.width - 4, box.y + 10)
  await page.mouse.down()
  await page.mouse.move(box.x + box.width * 0.7, box.y + 10, { steps: 4 })
  await page.mouse.up()
  const chip = page.getByRole("button", { name: /^Only the time \d/ })
  await chip.waitFor()
  expect(params(page).get("from")).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
  await page.getByRole("link", { name: "table" }).click()
  await page.getByRole("row", { name: /flaky/ }).waitFor()
  await expect.poll(() => page.getByRole("row", { name: /first/ }).count()).toBe(0)
  await o.accessible("table of a time")
  await page.getByRole("link", { name: "log" }).click()
  await page.getByText("trying").first().waitFor()
  await expect.poll(() => page.getByText("hello from first").count()).toBe(0)
  await chip.click()
  await page.getByText("hello from first").waitFor()
  expect(params(page).get("from")).toBeNull()

  // Without a pointer: what is in view.
  await page.goto(`${server.url}/executions/${id}/waterfall?rows=step`)
  await page.getByRole("button", { name: "Only the time in view" }).click()
  await chip.waitFor()
  await page.keyboard.press("t")
  await page.getByRole("row", { name: /first/ }).waitFor()
  await o.close()
})

test("20,000 attempts are pixels, in every kind of rows, and one of them comes into view with its link", async () => {
  const many = (await server.run({ name: "many", steps: [{ id: "each", action: "util.noop", for_each: { items: 20_000 } }, { id: "bad", action: "util.fail", depends_on: ["each"] }] })).execution_id
  const o = await open(server, `/executions/${many}/waterfall?rows=worker`)
  const { page } = o
  await page.locator(".x-lanes span").first().waitFor()
  for (const rows of ["By queue", "Packed", "A row a step"]) {
    await page.getByRole("button", { name: rows }).click()
    await page.locator("canvas[data-drawn]").waitFor()
  }
  await page.goto(`${server.url}/executions/${many}/waterfall?rows=step&step=${encodeURIComponent("each[19999]")}&attempt=1`)
  await page.getByRole("complementary", { name: "Step each[19999]" }).getByRole("region", { name: "Attempt 1" }).getByText("completed").waitFor()
  await page.getByText("each[19999], completed").waitFor()
  await page.keyboard.press("]")
  await page.getByText("bad, failed").waitFor()
  await o.close()
})

test("the waterfall is right in both themes and on a phone, with an attempt and a time chosen", async () => {
  const x = await server.ask("GET", `/executions/${id}`)
  const query = `step=flaky&attempt=2&from=${encodeURIComponent(x.started_at)}&to=${encodeURIComponent(new Date(Date.parse(x.started_at) + 60_000).toISOString())}`
  await looksRight(server, `/executions/${id}/waterfall?${query}`, (page) => page.getByRole("region", { name: "Attempt 2" }).getByText("failed").first())
})
