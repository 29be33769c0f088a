import { createHmac } from "node:crypto"
import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, looksRight, open } from "./browser"
import { as, key, store } from "./seed"
import { Server } from "./server"

let server: Server
beforeAll(async () => {
  server = await new Server().start()
  await store(server, { name: "import", steps: [{ id: "a", action: "util.noop" }] })
})
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

test("a webhook is made, its secret is shown once and works, and is rotated", async () => {
  const o = await open(server, "/triggers")
  await o.page.getByRole("heading", { name: "There are no webhooks yet" }).waitFor()
  await o.page.getByRole("button", { name: "New webhook …" }).click()
  const dialog = o.page.getByRole("dialog", { name: "New webhook" })
  await dialog.getByLabel("Name").fill("Push to main")
  await dialog.getByLabel("Pipeline").fill("import")
  await o.accessible("webhook form")
  await dialog.getByRole("button", { name: "Create" }).click()
  const secret = await o.page.getByRole("dialog").getByLabel("secret", { exact: true }).innerText()
  expect(secret.length).toBeGreaterThan(16)
  await o.page.keyboard.press("Escape")
  const url = await o.page.getByLabel("address", { exact: true }).innerText()
  expect(url.startsWith(server.url + "/api/v1/webhooks/")).toBe(true)
  await expect.poll(() => o.page.getByLabel("curl command", { exact: true }).innerText()).toContain("X-Webhook-Signature")
  const call = (s: string) => {
    const [body, at] = ['{"payload":{"n":1}}', String(Math.floor(Date.now() / 1000))]
    return fetch(url, { method: "POST", body, headers: { "Content-Type": "application/json", "X-Webhook-Timestamp": at, "X-Webhook-Signature": "sha256=" + createHmac("sha256", s).update(`${at}.${body}`).digest("hex") } })
  }
  expect((await call(secret)).ok).toBe(true)
  expect((await call("wrong")).status).toBe(401)
  // A test call needs no secret; all three are listed with their verdicts.
  await o.page.getByRole("button", { name: "Test …" }).click()
  const trial = o.page.getByRole("dialog", { name: "Test Push to main" })
  await trial.getByRole("button", { name: "Send" }).click()
  await trial.getByText("It started").waitFor()
  await o.page.keyboard.press("Escape")
  await o.page.getByText("Last deliveries", { exact: true }).click()
  const listed = o.page.getByRole("group", { name: "Last deliveries" })
  await expect.poll(() => listed.getByRole("row").allInnerTexts()).toEqual([expect.anything(), expect.stringMatching(/started\s+test/), expect.stringMatching(/refused/), expect.stringMatching(/started\s+127/)])
  await o.accessible("deliveries")
  await o.page.reload()
  await o.page.getByLabel("address", { exact: true }).waitFor()
  expect(await o.page.content()).not.toContain(secret)
  await o.page.getByRole("button", { name: "Rotate secret …" }).click()
  await o.page.getByRole("dialog").getByLabel("The old one stays valid for").fill("0")
  await o.page.getByRole("dialog").getByRole("button", { name: "Rotate" }).click()
  const second = o.page.getByRole("dialog", { name: /The secret of/ }).getByLabel("secret", { exact: true })
  await second.waitFor()
  await expect.poll(() => second.innerText()).not.toBe(secret)
  await o.page.keyboard.press("Escape")
  expect((await call(secret)).status).toBe(401)
  await o.page.getByRole("button", { name: "Disable" }).click()
  await o.page.getByRole("button", { name: "Enable" }).waitFor()
  await o.close()
})

test("an event trigger is made, and a test event shows what it starts", async () => {
  const o = await open(server, "/triggers?tab=events")
  await o.page.getByRole("button", { name: "New event trigger …" }).click()
  const dialog = o.page.getByRole("dialog", { name: "New event trigger" })
  await dialog.getByLabel("Name").fill("New model")
  await dialog.getByLabel("Event type").fill("model.*")
  await dialog.getByLabel("Pipeline").fill("import")
  await dialog.getByLabel("Condition").fill("event.data.size > 3")
  await dialog.getByRole("button", { name: "Create" }).click()
  await o.page.getByRole("region", { name: "Event trigger New model" }).waitFor()
  await o.page.getByRole("button", { name: "Send a test event …" }).click()
  const send = o.page.getByRole("dialog", { name: "Send a test event" })
  await send.getByLabel("Type").fill("model.onboarded")
  await send.getByLabel("Data").fill('{"size": 7}')
  await send.getByRole("button", { name: "Send" }).click()
  await send.getByText("It started 1 of 1:").waitFor()
  await o.accessible("test event")
  await send.getByLabel("Data").fill('{"size": 1}')
  await send.getByRole("button", { name: "Send" }).click()
  await send.getByText("It started nothing.").waitFor()
  await o.close()
})

test("accessible in both themes, fit a phone", async () => {
  const { webhooks } = await server.ask("GET", "/webhooks")
  await looksRight(server, `/triggers?webhook=${webhooks[0].webhook_id}`, (page) => page.getByLabel("address", { exact: true }))
  await looksRight(server, "/triggers?tab=events", (page) => page.getByRole("row", { name: /New model/ }))
}, 600_000)

test("a viewer is told why nothing can be made", async () => {
  const own = await new Server().start()
  own.token = await key(own, "admin")
  const viewer = await key(own, "viewer")
  const o = await open(own, "/triggers", { expected: /401/ })
  await as(o.page, viewer)
  await o.page.getByRole("button", { name: /New webhook … \(editor is needed/ }).waitFor()
  await o.page.getByRole("button", { name: /Send a test event … \(operator is needed/ }).waitFor()
  await o.close()
  await own.stop()
})
