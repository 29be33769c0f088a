// Two servers of one PostgreSQL database, STEPWELL_NODES: STEPWELL_PAGES=nodes go test ./web has one and runs this.
import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open } from "./browser"
import { asks } from "./definitions"
import { passing, store } from "./seed"
import { Server } from "./server"

const database = process.env.STEPWELL_NODES
let nodes: Server[] = []
beforeAll(async () => {
  if (!database) return
  const node = () => new Server(["--db", database], { STEPWELL_SECRETS_KEY: "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" })
  nodes = [await node().start(), await node().start()]
})
afterAll(async () => {
  await closeBrowser()
  for (const n of nodes) await n.stop()
})

test.runIf(database)("a page of one server shows what another does, and goes on when that one is killed", async () => {
  const [a, b] = nodes as [Server, Server]
  await store(a, { ...passing, name: "shared" })
  // Each server runs what was started at it.
  const x = await a.run({ ...asks, name: "of-a" }, {}, false)
  const list = await open(b, "/executions")
  await list.page.getByRole("row", { name: /running of-a/ }).waitFor()
  const page = await open(b, `/executions/${x.execution_id}`)
  await page.page.getByRole("button", { name: /^ok, waiting/ }).waitFor()
  await a.run({ ...passing, name: "told-by-a" })
  await list.page.getByRole("row", { name: /completed told-by-a/ }).waitFor()

  await a.kill()
  await page.page.getByRole("button", { name: "Approve" }).first().click()
  await page.page.getByRole("dialog").getByRole("button", { name: "Approve" }).click()
  await page.page.locator(".x-status").getByText("completed").waitFor()
  await page.page.getByRole("button", { name: /^publish, completed/ }).waitFor()
  await list.page.getByRole("row", { name: /completed of-a/ }).waitFor()
  await expect.poll(() => list.page.getByRole("row", { name: /of-a/ }).count()).toBe(1)
  await page.close()
  await list.close()
})
