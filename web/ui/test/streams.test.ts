import { mkdirSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open } from "./browser"
import { Server } from "./server"

let server: Server
beforeAll(async () => {
  server = new Server()
  mkdirSync(join(server.dir, "data"))
  writeFileSync(join(server.dir, "data", "stepwell.yaml"), "http: {allow_private: true}\n") // the slow API is on this machine
  await server.start()
})
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

test("a stream: its modules with items and rates, and what failed by module and message, with examples", async () => {
  const lines = Array.from({ length: 300 }, (_, i) => (i % 100 === 99 ? `nonsense ${i}` : JSON.stringify({ id: `i${i}`, n: i })))
  const path = server.file("in.ndjson", lines.join("\n") + "\n")
  const x = await server.run({ name: "flowing", settings: { output_failures: path.replace("in.nd", "failures."), output_summary: path.replace("in.nd", "summary.") }, steps: [
    { id: "read", module: "stream.read", config: { path } },
    { id: "odd", module: "stream.filter", depends_on: ["read"], config: { when: "item.n % 2 == 1" } },
    { id: "write", module: "stream.write", depends_on: ["odd"], config: { path: path.replace("in.", "out.") } },
  ] })
  const o = await open(server, `/executions/${x.execution_id}`)
  await o.page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "streams" }).click()
  const read = o.page.getByRole("article", { name: /^read/ })
  await read.waitFor()
  await expect.poll(() => read.innerText()).toMatch(/completed[\s\S]*in\s*300[\s\S]*out\s*297[\s\S]*failed\s*3/)
  await expect.poll(() => o.page.getByRole("article", { name: /^odd/ }).innerText()).toMatch(/from read[\s\S]*dropped\s*150/)
  const failures = o.page.getByRole("region", { name: "Failures" })
  await failures.getByRole("heading", { name: "Failures (3)" }).waitFor()
  await failures.getByText(/counts failures: each step at which an item failed.*The map counts items with a bbox, each once/).waitFor()
  await o.accessible("streams")
  await failures.getByRole("button", { expanded: false }).click()
  await failures.getByText(/in\.ndjson:100/).first().waitFor()
  await o.page.getByRole("button", { name: "write" }).click()
  await expect.poll(() => o.page.url()).toContain("step=write")

  // The lines are mended, and only they are read again.
  server.file("in.ndjson", Array.from({ length: 300 }, (_, i) => JSON.stringify({ id: `i${i}`, n: i })).join("\n") + "\n")
  await failures.getByRole("button", { name: "Try the failed items again…" }).click()
  await o.page.getByRole("dialog").getByRole("button", { name: "Start the retry" }).click()
  await expect.poll(() => o.page.url()).not.toContain(x.execution_id)
  await o.page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "streams" }).click()
  await expect.poll(() => o.page.getByRole("article", { name: /^odd/ }).innerText()).toMatch(/out\s*3\s/) // what the filter drops comes to no end, and is read again
  await o.page.getByRole("region", { name: "Failures" }).getByText("No failure of an item").waitFor()
  await o.close()
})

test("while a stream runs: the sink that slows it is named, and how full the buffer in front of it is", async () => {
  // A STAC API that takes one item after the other, each for a while.
  const slow = createServer((req, res) => {
    const answer = (status: number, body: object) => res.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body))
    const here = `http://${req.headers.host}`
    req.resume()
    if (req.method === "POST") setTimeout(() => answer(201, {}), 250)
    else if (req.url === "/") answer(200, { type: "Catalog", stac_version: "1.0.0", id: "slow", description: "slow", conformsTo: ["https://api.stacspec.org/v1.0.0/core", "https://api.stacspec.org/v1.0.0/ogcapi-features", "http://www.opengis.net/spec/ogcapi-features-4/1.0/conf/simpletx"], links: [{ rel: "self", href: here }, { rel: "data", href: `${here}/collections` }] })
    else if (req.url === "/collections/c") answer(200, { type: "Collection", stac_version: "1.0.0", id: "c", description: "c", license: "other", extent: { spatial: { bbox: [[-180, -90, 180, 90]] }, temporal: { interval: [[null, null]] } }, links: [] })
    else answer(404, { code: "NotFound" })
  })
  await new Promise<void>((done) => slow.listen(0, "127.0.0.1", done))
  const items = Array.from({ length: 4000 }, (_, i) => JSON.stringify({ type: "Feature", stac_version: "1.0.0", id: `i${i}`, collection: "c", geometry: { type: "Point", coordinates: [0, 0] }, bbox: [0, 0, 0, 0], properties: { datetime: "2026-01-01T00:00:00Z" }, links: [], assets: {} }))
  const x = await server.run({ name: "slowed", settings: { output_failures: join(server.dir, "failures.json"), output_summary: join(server.dir, "summary.json") }, steps: [
    { id: "read", module: "stream.read", config: { path: server.file("items.ndjson", items.join("\n") + "\n") } },
    { id: "store", module: "stac.output", depends_on: ["read"], config: { format: "api", url: `http://127.0.0.1:${(slow.address() as { port: number }).port}`, batch_size: 1, concurrency: 1 } },
  ] }, {}, false)
  const o = await open(server, `/executions/${x.execution_id}/streams`)
  const store = o.page.getByRole("article", { name: "store, the bottleneck" })
  await store.waitFor()
  await o.page.getByText("Bottleneck: store.").waitFor()
  const fill = async () => {
    const [text, said] = [await store.innerText(), await store.getByRole("img", { name: /its buffer/ }).getAttribute("aria-label")]
    const [, waiting, room] = (/waiting\s+([\d,]+)\s+of ([\d,]+)/.exec(text) ?? []).map((n) => Number(n.replaceAll(",", "")))
    const percent = Number(/filled to (\d+) %/.exec(said ?? "")?.[1])
    expect(text).toContain(`${percent} % of its buffer`)
    return { waiting, room, percent }
  }
  await expect.poll(async () => (await fill()).percent).toBeGreaterThan(0)
  const now = await fill()
  expect(now.room).toBeGreaterThan(0)
  expect(now.waiting).toBeLessThanOrEqual(now.room!)
  expect(now.percent).toBe(Math.round((100 * now.waiting!) / now.room!))
  await expect.poll(() => o.page.getByRole("article", { name: "read", exact: true }).innerText()).not.toContain("4,000 of") // the source waits for the sink
  await o.accessible("a stream that runs")
  await o.page.getByRole("button", { name: "Cancel" }).click()
  await o.page.getByRole("dialog").getByRole("button", { name: "Cancel the execution" }).click()
  await server.ended(x.execution_id)
  await store.waitFor({ state: "detached" }) // nothing waits any more
  await o.close()
  slow.closeAllConnections()
  slow.close()
})
