import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open } from "./browser"
import { Server } from "./server"

let server: Server
beforeAll(async () => { server = await new Server().start() })
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

test("the first page opens, accessible in both themes, and says who asks", async () => {
  for (const theme of ["light", "dark"] as const) {
    const o = await open(server, "/", { theme })
    await o.page.getByRole("heading", { name: "Home" }).waitFor()
    await o.page.getByText("anonymous · admin").waitFor()
    await o.accessible(`home, ${theme}`)
    await o.close()
  }
})

test("the help lists the keys; Escape closes it", async () => {
  const o = await open(server)
  await o.page.getByRole("heading", { name: "Home" }).waitFor()
  await o.page.keyboard.press("?")
  await o.page.getByRole("dialog", { name: "Keys" }).waitFor()
  await o.page.keyboard.press("Escape")
  await o.page.getByRole("dialog").waitFor({ state: "detached" })
  await o.close()
})

test("an unknown address says so, and leads home", async () => {
  const o = await open(server, "/nosuch")
  await o.page.getByRole("link", { name: "Home" }).last().click()
  await o.page.getByRole("heading", { name: "Home" }).waitFor()
  expect(new URL(o.page.url()).pathname).toBe("/")
  await o.close()
})
