import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, looksRight, open } from "./browser"
import { approval, as, failing, hello, key, passing, store } from "./seed"
import { Server } from "./server"

let server: Server
beforeAll(async () => { server = await new Server().start() })
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

test("an empty server shows three ways to begin; the example runs", async () => {
  const o = await open(server, "/")
  await o.page.getByRole("heading", { name: /Three ways to begin/ }).waitFor()
  const curl = await o.page.getByLabel("curl command", { exact: true }).innerText()
  expect(curl).toContain(server.url + "/api/v1/execute")
  await o.page.getByRole("button", { name: "Copy curl command" }).click()
  await o.page.getByText("Copied").waitFor()
  expect(await o.page.evaluate(() => navigator.clipboard.readText())).toBe(curl)
  await o.accessible("empty home")
  await o.page.getByRole("button", { name: "Run the example" }).click()
  await o.page.getByRole("dialog").getByLabel("who").fill("Ada")
  await o.page.getByRole("dialog").getByRole("button", { name: "Run" }).click()
  await o.page.waitForURL(/\/executions\/[0-9a-f-]{36}/)
  const x = await server.ask("GET", `/executions/${new URL(o.page.url()).pathname.split("/").at(-1)}?wait_seconds=60`)
  expect([x.status, x.params.who, x.result]).toEqual(["completed", "Ada", { visited: 3 }])
  await o.close()
})

test("home counts, shows what needs a person, and what fires next; all of it live", async () => {
  const id = await store(server, hello.replace("  - {name: must, type: string}\n", "").replace("params.must", "params.who"))
  await server.run(passing)
  await server.run(failing)
  await server.ask("POST", "/scheduler/jobs", { job_id: "nightly", name: "Nightly import", schedule: { type: "cron", expression: "0 2 * * *", timezone: "UTC" }, callback: { type: "workflow", workflow_id: id } })
  const o = await open(server, "/")
  const needs = o.page.getByRole("region", { name: "Needs you" })
  await needs.getByText("thumbnails failed").waitFor()
  expect(await needs.getByRole("link", { name: "Why thumbnails failed" }).getAttribute("href")).toMatch(/\/executions\/[0-9a-f-]{36}$/)
  await o.page.getByRole("region", { name: "Next fires" }).getByRole("link", { name: "Nightly import" }).waitFor()
  await o.page.getByRole("link", { name: /^1 failed in 24 h/ }).waitFor()
  await o.page.getByRole("row", { name: /completed quick/ }).waitFor()
  await server.run(approval("deploy prod?"), {}, false)
  await needs.getByRole("button", { name: "Approve deploy prod?" }).click()
  await o.page.getByRole("dialog").getByRole("button", { name: "Approve" }).click()
  await o.page.getByText("Approved: deploy prod?").waitFor()
  await needs.getByRole("button", { name: "Approve deploy prod?" }).waitFor({ state: "detached" })
  await o.close()
})

test("home is accessible in both themes and fits a phone", () => looksRight(server, "/", (page) => page.getByRole("row", { name: /completed quick/ })), 300_000)

test("a viewer cannot run or decide, and is told why", async () => {
  const own = await new Server().start()
  own.token = await key(own, "admin")
  await own.run(approval("deploy?"), {}, false)
  const viewer = await key(own, "viewer")
  const o = await open(own, "/", { expected: /401/ })
  await as(o.page, viewer)
  const approve = o.page.getByRole("button", { name: "Approve deploy?" })
  await approve.waitFor()
  expect(await approve.getAttribute("title")).toContain("operator is needed")
  await approve.focus()
  await o.page.keyboard.press("Enter")
  await expect.poll(() => o.page.getByRole("dialog").count()).toBe(0)
  await o.close()
  await own.stop()
})

test.skipIf(process.env.UI_DIST)("what a page asks first is answered with the page itself, and not asked again", async () => {
  const x = await server.run({ name: "asked", steps: [{ id: "say", action: "util.log", params: { message: "a line" } }] })
  const opened = await open(server, "/pipelines", { expected: /ERR_FAILED/ })
  const { page } = opened
  await page.route("**/api/v1/stream*", (route) => route.abort()) // its first message has lists read again
  for (const [path, there, answers] of [["/", ".tiles", 5], [`/executions/${x.execution_id}`, ".x-node", 4], [`/executions/${x.execution_id}/log`, ".log-line", 5], [`/executions/${x.execution_id}/log?q=line`, ".log-line", 2]] as const) {
    // A busy server may be late with one, which the page then asks for: once.
    await expect.poll(async () => {
      await page.goto(server.url + path)
      await page.locator(there).first().waitFor()
      return page.evaluate(() => {
        const [taken, left] = ["taken", "ask"].map((name) => [...document.querySelectorAll<HTMLElement>(`script[data-${name}]`)].map((s) => s.dataset[name]!)) as [string[], string[]]
        return { taken: taken.length, left, again: taken.filter((ask) => performance.getEntriesByName(new URL("api/v1/" + ask, document.baseURI).href).length > 0) }
      })
    }).toEqual({ taken: answers, left: [], again: [] })
  }
  await opened.close()
})
