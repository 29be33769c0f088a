// The replay of an execution: the page as it was after one of its commits.
import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open } from "./browser"
import { decode } from "../src/field/columns"
import { join } from "../src/field/steps"
import { Replay } from "../src/replay/replay"
import { diamond, gated, wide } from "./definitions"
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

test("moments need no request each: they are folded in the page, and the keyboard plays them", async () => {
  const x = await server.run(wide(3000, 1777))
  const o = await open(server, `/executions/${x.execution_id}/fan?at=1`)
  const { page } = o
  const asked: string[] = []
  page.on("request", (r) => { if (r.url().includes("/field") || r.url().includes("/events.columns")) asked.push(r.url()) })
  await page.locator("canvas[data-drawn]").waitFor()
  const replay = page.getByRole("region", { name: "Replay" })
  await replay.getByText("commit 1 of").waitFor()
  asked.length = 0
  const slider = replay.getByRole("slider", { name: "Commit" })
  const last = Number(await slider.getAttribute("max"))
  for (const version of [last, Math.ceil(last / 2), 2, last - 1]) {
    await slider.fill(String(version))
    await replay.getByText(`commit ${version.toLocaleString("en-US")} of`).waitFor()
  }
  await slider.fill(String(last))
  await page.getByRole("button", { name: /^1 failed/ }).waitFor()
  expect(asked).toEqual([])
  await replay.getByRole("combobox", { name: "Speed of the replay" }).selectOption("1000")
  await slider.fill("1")
  await page.getByRole("button", { name: /^1 failed/ }).waitFor({ state: "detached" })
  await page.locator("body").click({ position: { x: 700, y: 5 } })
  await page.evaluate(() => (document.activeElement as HTMLElement).blur())
  await page.keyboard.press("Space")
  await page.getByRole("button", { name: /^1 failed/ }).waitFor()
  await expect.poll(() => new URL(page.url()).searchParams.get("at")).toBe(String(last))
  await o.close()
})

// VERSIONS=1000 compares as many as the design asks for.
test("folded changes are the server's own columns at random versions", async () => {
  for (const definition of [diamond, wide(1500, 777), gated(1, 20)]) {
    const x = await server.run(definition)
    const path = `${server.url}/api/v1/executions/${x.execution_id}`
    const table = async (query: string) => {
      let r = await fetch(`${path}/${query}`)
      for (; r.status === 429; r = await fetch(`${path}/${query}`)) await new Promise((go) => setTimeout(go, 1000 * Number(r.headers.get("Retry-After"))))
      return decode(await r.arrayBuffer())
    }
    const now = join([await table("field")])
    const replay = new Replay()
    do replay.add(await table(`events.columns?from=${replay.count}&to=${replay.count + 1000}`))
    while (replay.count < replay.total)
    expect(replay.version).toBe(now.version)
    const versions = Math.ceil(Number(process.env.VERSIONS ?? 60) / 3)
    for (let k = 0; k < versions; k++) {
      const version = k === 0 ? now.version : 1 + Math.floor(Math.random() * now.version)
      const [want, got] = [join([await table(`field?version=${version}`)]), replay.show(now, version)]
      for (const name of ["status", "attempt", "start", "duration"] as const) expect([version, name, ...got[name].subarray(0, want.n)]).toEqual([version, name, ...want[name]])
      expect([...got.status.subarray(want.n)].every((s) => now.states[s] === "absent")).toBe(true)
    }
  }
})
