import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open } from "./browser"
import { Server } from "./server"

let server: Server
beforeAll(async () => { server = await new Server().start() })
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

test("a stream: its modules with items and rates, and what failed by module and message, with examples", async () => {
  const lines = Array.from({ length: 300 }, (_, i) => (i % 100 === 99 ? `nonsense ${i}` : JSON.stringify({ id: `i${i}`, n: i })))
  const path = server.file("in.ndjson", lines.join("\n") + "\n")
  const x = await server.run({ name: "flowing", settings: { output_failures: path.replace("in.nd", "failures.") }, steps: [
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
