// The replay of an execution: the page as it was after one of its commits.
import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open } from "./browser"
import { diamond } from "./definitions"
import { Server } from "./server"

let server: Server
beforeAll(async () => { server = await new Server().start() })
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

test("a slider and keys go back in time: graph, counts, table and why show that commit, and a link leads to it", async () => {
  const x = await server.run(diamond)
  const last = (await server.ask("GET", `/executions/${x.execution_id}/graph`)).version as number
  const o = await open(server, `/executions/${x.execution_id}?at=1`)
  const { page } = o
  await page.getByRole("button", { name: "check, pending" }).or(page.getByRole("button", { name: "check, queued" })).waitFor()
  const replay = page.getByRole("region", { name: "Replay" })
  await replay.getByText(`commit 1 of ${last}`).waitFor()
  await replay.getByText("running", { exact: true }).waitFor()
  await page.getByText("0 / ").first().waitFor() // no step has ended
  await o.accessible("replay")

  await page.keyboard.press(".")
  await replay.getByText(`commit 2 of ${last}`).waitFor()
  expect(new URL(page.url()).searchParams.get("at")).toBe("2")

  const slider = replay.getByRole("slider", { name: "Commit" })
  await slider.fill(String(last))
  await page.getByRole("button", { name: "check, failed" }).waitFor()
  await expect.poll(() => new URL(page.url()).searchParams.get("at")).toBe(String(last))
  await slider.fill("1")
  await page.getByRole("button", { name: "check, failed" }).waitFor({ state: "detached" })
  await page.getByRole("link", { name: "table", exact: true }).click()
  await page.getByRole("row", { name: /check.*(pending|queued)/ }).click()
  const side = page.getByRole("complementary", { name: "Step check" })
  await side.getByText(/pending|queued/).first().waitFor()
  expect(await side.getByRole("button", { name: /^Retry|^Restart/ }).count()).toBe(0)

  await page.keyboard.press("n")
  await page.getByRole("row", { name: /check.*failed/ }).waitFor()
  await side.getByRole("button", { name: "Restart from here…" }).waitFor()
  expect(new URL(page.url()).searchParams.get("at")).toBeNull()
  await o.close()
})

test("a replay plays to the end", async () => {
  const x = await server.run(diamond)
  const o = await open(server, `/executions/${x.execution_id}?at=1`)
  const { page } = o
  await page.getByRole("region", { name: "Replay" }).getByRole("button", { name: "Replay" }).click()
  await page.getByRole("button", { name: "check, failed" }).waitFor()
  await page.getByRole("region", { name: "Replay" }).getByRole("button", { name: "Replay", pressed: false }).waitFor()
  await o.close()
})
