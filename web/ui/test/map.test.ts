import { rmSync } from "node:fs"
import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, looksRight, open } from "./browser"
import { Server } from "./server"

let server: Server
beforeAll(async () => { server = await new Server().start() })
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

test("the map in the rail lists what has footprints: the newest first, filtered, opened by key; empty it says what makes some", async () => {
  const o = await open(server, "/")
  const { page } = o
  await page.getByRole("link", { name: "Map", exact: true }).click()
  await page.getByRole("heading", { name: "No execution has footprints yet" }).waitFor()
  await page.getByText("stepwell run examples/stac/table.yaml").waitFor()
  await o.accessible("no map")
  const path = server.file("few.ndjson", JSON.stringify({ id: "one", bbox: [1, 2, 3, 4] }) + "\n")
  const stream = (name: string) => ({ name, settings: { output_failures: path.replace("few.nd", `${name}-failures.`) }, steps: [{ id: "read", module: "stream.read", config: { path } }, { id: "write", module: "stream.write", depends_on: ["read"], config: { path: path.replace("few", name) } }] })
  await server.run({ name: "placeless", steps: [{ id: "a", action: "util.noop" }] })
  const first = await server.run(stream("first"))
  await page.getByRole("link", { name: "first" }).waitFor() // it comes by itself
  const second = await server.run(stream("second"))
  const rows = page.getByRole("grid", { name: "Executions with footprints" }).getByRole("row")
  await expect.poll(async () => (await rows.allInnerTexts()).slice(1).map((t) => /first|second|placeless/.exec(t)?.[0])).toEqual(["second", "first"])
  await o.accessible("the list of maps")
  await page.getByRole("searchbox", { name: "Pipeline" }).fill("first")
  await expect.poll(() => rows.count()).toBe(2)
  await page.getByRole("link", { name: "first" }).click()
  await page.locator("canvas[data-drawn]").waitFor()
  expect(new URL(page.url()).searchParams.get("execution")).toBe(first.execution_id)
  await page.goBack()
  await expect.poll(() => page.url()).toContain("pipeline=first")
  await page.getByRole("searchbox", { name: "Pipeline" }).fill("placeless")
  await page.getByRole("heading", { name: "No execution of “placeless” has footprints" }).waitFor()
  await page.getByRole("button", { name: "Clear filters" }).click()
  await rows.nth(1).focus()
  await page.keyboard.press("j")
  await page.keyboard.press("k")
  await page.keyboard.press("Enter")
  await page.getByRole("heading", { name: "Map / second" }).waitFor()
  expect(new URL(page.url()).searchParams.get("execution")).toBe(second.execution_id)
  await page.keyboard.press("g")
  await page.keyboard.press("m")
  await rows.nth(2).waitFor()
  await o.close()
  await looksRight(server, "/map", (page) => page.getByRole("link", { name: "first" }))
})

test("the map: footprints of a stream, what is at a place, a box over the antimeridian, both projections", async () => {
  const lines = Array.from({ length: 300 }, (_, i) => JSON.stringify({ id: `i${i}`, collection: "c", assets: { band: { href: `https://example.com/i${i}.tif` } }, n: i % 100 === 99 ? "text" : i, bbox: [(i % 36) * 10 - 180, Math.floor(i / 36) * 10 - 40, (i % 36) * 10 - 178, Math.floor(i / 36) * 10 - 38] }))
  const path = server.file("in.ndjson", [...lines, JSON.stringify({ id: "over", n: 1, bbox: [179, 60, -179, 62] }), JSON.stringify({ id: "nowhere", n: 1 })].join("\n") + "\n")
  const x = await server.run({ name: "mapped", settings: { output_failures: path.replace("in.nd", "failures.") }, steps: [
    { id: "read", module: "stream.read", config: { path } },
    { id: "some", module: "stream.filter", depends_on: ["read"], config: { when: "item.n + 1 > 0" } },
    { id: "write", module: "stream.write", depends_on: ["some"], config: { path: path.replace("in.", "out.") } },
  ] })
  const o = await open(server, `/executions/${x.execution_id}/streams`)
  await o.page.getByRole("link", { name: "Items on a map" }).click()
  const canvas = o.page.locator("canvas[data-drawn]")
  await canvas.waitFor()
  await expect.poll(() => canvas.getAttribute("data-drawn")).toBe("302") // 301, of which one is cut at the edge
  await o.page.getByText("298 done").waitFor()
  // Something is drawn, in two colours at least.
  const colours = () => canvas.evaluate((el: HTMLCanvasElement) => new Set(new Uint32Array(el.getContext("2d")!.getImageData(0, 0, el.width, el.height).data.buffer)).size)
  await expect.poll(colours).toBeGreaterThan(2)
  // i18 is at 0 to 2 degrees east, 40 to 38 south: a click on it shows it.
  const host = o.page.getByRole("application")
  const at = (await host.boundingBox())!
  const perDegree = Math.min((at.width - 32) / 360, (at.height - 32) / (2 * 90.97))
  await host.click({ position: { x: at.width / 2 + 1 * perDegree, y: at.height / 2 + perDegree * 57.29578 * Math.sin((39 * Math.PI) / 180) / Math.cos((37.5 * Math.PI) / 180) ** 2 } })
  await o.page.getByRole("heading", { name: "1 item" }).waitFor()
  await expect.poll(() => o.page.getByLabel("Footprint of i18", { exact: true }).innerText()).toContain('"collection_id": "c"')
  // The item itself, with its assets, is read from the file that has been written.
  await expect.poll(() => o.page.getByLabel("JSON of i18", { exact: true }).innerText()).toContain('"href": "https://example.com/i18.tif"')
  await o.page.getByText(/As write has written it to .*out\.ndjson, line 19:/).waitFor()
  await o.page.getByLabel("Box").fill("175,55,-175,65")
  await o.page.getByRole("button", { name: "Show" }).click()
  await o.page.getByLabel("JSON of over", { exact: true }).waitFor()
  await o.page.goBack()
  await o.page.getByLabel("JSON of i18", { exact: true }).waitFor()
  await o.page.getByLabel("Box").fill("80,-40,100,-10") // i99 has failed at 90 east
  await o.page.getByRole("button", { name: "Show" }).click()
  await o.page.getByText("i99", { exact: true }).click()
  await expect.poll(() => o.page.getByLabel("Footprint of i99", { exact: true }).innerText()).toContain('"step_id": "some"')
  await expect.poll(() => o.page.getByLabel("JSON of i99", { exact: true }).innerText()).toContain("i99.tif") // as it was read
  await o.page.getByLabel("Projection").selectOption("Mercator")
  await o.page.getByLabel("Centre").selectOption("Pacific")
  await expect.poll(() => canvas.getAttribute("data-drawn")).toBe("301") // nothing is cut there
  // Drawn with the pointer: all there is.
  await o.page.getByRole("button", { name: "Draw a box" }).click()
  await o.page.mouse.move(at.x + 4, at.y + 4)
  await o.page.mouse.down()
  await o.page.mouse.move(at.x + at.width - 8, at.y + at.height - 8)
  await o.page.mouse.up()
  await o.page.getByRole("heading", { name: "301 items" }).waitFor()
  await host.press("+")
  await expect.poll(() => o.page.url()).toContain("z=")
  await o.close()
  await looksRight(server, `/map?execution=${x.execution_id}&bbox=80,-40,100,-10`, (page) => page.getByText("i99", { exact: true }))
  // Where the file is gone the page says so, with its place.
  rmSync(path.replace("in.", "out."))
  const gone = await open(server, `/map?execution=${x.execution_id}&bbox=175,55,-175,65`)
  await gone.page.getByText("The item itself cannot be shown").waitFor()
  await gone.page.getByText(/written by write · .*out\.ndjson/).waitFor()
  await gone.accessible("an item that cannot be shown")
  await gone.close()
  const none = await server.run({ name: "none", steps: [{ id: "a", action: "util.noop" }] })
  const e = await open(server, `/map?execution=${none.execution_id}`)
  await e.page.getByText("There are no footprints").waitFor()
  await e.close()
})
