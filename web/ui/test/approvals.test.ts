import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, looksRight, open } from "./browser"
import { approval } from "./seed"
import { Server } from "./server"

let server: Server
beforeAll(async () => { server = await new Server().start() })
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

test("an empty inbox says how a step gets there", async () => {
  const o = await open(server, "/approvals")
  await o.page.getByRole("heading", { name: "Nothing waits for a decision" }).waitFor()
  await o.accessible("empty inbox")
  await o.close()
})

test("the inbox is worked through by keyboard alone; rail and title count", async () => {
  const first = await server.run(approval("first?"), {}, false)
  await server.until(async () => (await server.ask("GET", "/approvals")).approvals.length === 1)
  const second = await server.run(approval("second?"), {}, false)
  await server.until(async () => (await server.ask("GET", "/approvals")).approvals.length === 2)
  const o = await open(server, "/")
  await o.page.getByRole("link", { name: /Approvals 2 waiting/ }).waitFor()
  await expect.poll(() => o.page.title()).toBe("(2) Home · Stepwell")
  await Promise.all([o.page.keyboard.press("g"), o.page.keyboard.press("a")]) // within a second, however busy the machine is
  const items = o.page.getByRole("list", { name: "Approvals" }).getByRole("listitem")
  await items.nth(1).waitFor()
  const order = await items.allInnerTexts()
  await o.page.keyboard.press("j")
  await o.page.waitForURL(/approval=/)
  await o.page.keyboard.press("k")
  await o.page.keyboard.press("a")
  await o.page.getByRole("dialog", { name: /^Approve: / }).waitFor()
  await o.accessible("decision")
  await o.page.getByRole("textbox", { name: "Comment" }).fill("looks fine")
  await o.page.keyboard.press("Tab")
  await o.page.keyboard.press("Tab")
  await o.page.keyboard.press("Enter")
  await items.nth(1).waitFor({ state: "detached" })
  await o.page.keyboard.press("r")
  await o.page.getByRole("dialog", { name: /^Reject: / }).getByRole("button", { name: "Reject" }).click()
  await o.page.getByRole("heading", { name: "Nothing waits for a decision" }).waitFor()
  await expect.poll(() => o.page.title()).toBe("Approvals · Stepwell")
  const firstApproved = order[0]!.includes("first?")
  const ended = await Promise.all([first, second].map((x) => server.ask("GET", `/executions/${x.execution_id}?wait_seconds=30`)))
  expect(ended.map((x) => x.status)).toEqual(firstApproved ? ["completed", "failed"] : ["failed", "completed"])
  const approved = firstApproved ? first : second
  const steps = (await server.ask("GET", `/executions/${approved.execution_id}/steps?outputs=true&step_id=ask`)).steps
  expect(steps[0].outputs.comment).toBe("looks fine")
  await o.close()
})

test("accessible in both themes, fits a phone", async () => {
  await server.run(approval("a long question that does not fit into one line of a phone, does it?"), {}, false)
  await looksRight(server, "/approvals", (page) => page.getByRole("listitem").filter({ hasText: "a long question" }))
}, 300_000)
