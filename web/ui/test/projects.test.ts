import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, looksRight, open } from "./browser"
import { store } from "./seed"
import { Server } from "./server"

let server: Server
beforeAll(async () => {
  server = await new Server().start()
  await store(server, { name: "course", settings: { sequential: true }, parameters: [{ name: "tone", type: "string", default: "calm" }], steps: [{ id: "outline", action: "util.set_output", params: { result: "{{ params.tone }}" } }, { id: "quiz", action: "util.set_output", depends_on: ["outline"], params: { result: "questions" } }] })
  await store(server, { name: "slow", settings: { sequential: true }, steps: [{ id: "rest", action: "util.wait", params: { seconds: 3600 } }] })
})
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

test("a project with lessons is made; all are run; a run is restarted from a step", async () => {
  const o = await open(server, "/projects")
  await o.page.getByRole("heading", { name: "There are no projects yet" }).waitFor()
  await o.page.keyboard.press("n")
  await o.page.getByRole("dialog").getByLabel("Name").fill("Geography")
  await o.page.getByRole("dialog").getByLabel("Id").fill("geo")
  await o.page.getByRole("dialog").getByRole("button", { name: "Create" }).click()
  await o.page.getByRole("heading", { name: "Projects / Geography" }).waitFor()
  for (const name of ["Rivers", "Mountains"]) {
    await o.page.getByRole("button", { name: "New lesson …" }).click()
    await o.page.getByRole("dialog").getByLabel("Name").fill(name)
    await o.page.getByRole("dialog").getByRole("button", { name: "Create" }).click()
    await o.page.getByRole("row", { name: new RegExp(name) }).waitFor()
  }
  await o.page.getByRole("button", { name: "Run all lessons …" }).click()
  const dialog = o.page.getByRole("dialog", { name: "Run all lessons" })
  await dialog.getByLabel("Pipeline").fill("course")
  await dialog.getByLabel("tone").fill("merry")
  await o.accessible("start runs")
  await dialog.getByRole("button", { name: "Run" }).click()
  await o.page.getByText("Started 2 of 2 runs.").waitFor()
  await o.page.getByRole("row", { name: /done Rivers/ }).click()
  const run = o.page.getByRole("region", { name: "Run" })
  await run.getByText("result", { exact: true }).first().click()
  await run.getByText("merry").waitFor()
  await o.accessible("run")
  await run.getByRole("button", { name: "Restart from quiz" }).click()
  await o.page.getByRole("dialog").getByText(/Step 2 and the 0 after it run again/).waitFor()
  await o.page.getByRole("dialog").getByRole("button", { name: "Restart" }).click()
  await o.page.getByRole("dialog").waitFor({ state: "detached" })
  const id = new URL(o.page.url()).searchParams.get("run")
  await server.until(async () => {
    const r = (await server.ask("GET", `/pipeline-runs/${id}`)).data
    return r.status === "done" && r.steps[1].attempts >= 1
  })
  expect((await server.ask("GET", "/projects/geo/progress")).done).toBe(2)
  await o.close()
})

test("a run is stopped and started; the queue shows it while it runs", async () => {
  await server.ask("POST", "/projects", { id: "p2", name: "Second" })
  await server.ask("POST", "/lessons", { id: "l2", project_id: "p2", name: "Long one" })
  const made = await server.ask("POST", "/pipeline-runs", { lesson_id: "l2", pipeline_id: "slow" })
  await server.until(async () => (await server.ask("GET", `/pipeline-runs/${made.data.id}`)).data.status === "running")
  const o = await open(server, "/queue?tab=runs")
  await o.page.getByRole("row", { name: /running Long one/ }).click()
  const run = o.page.getByRole("region", { name: "Run" })
  await run.getByRole("button", { name: "Stop" }).click()
  await run.getByText("paused").first().waitFor()
  await run.getByRole("button", { name: "Start", exact: true }).click()
  await run.getByText("running").first().waitFor()
  await o.close()
})

test("projects, a project and its runs are accessible and fit a phone", async () => {
  await looksRight(server, "/projects", (page) => page.getByRole("row", { name: /Geography/ }))
  await looksRight(server, "/projects/geo", (page) => page.getByRole("row", { name: /Rivers/ }))
  const { data } = await server.ask("GET", "/pipeline-runs?project_id=geo")
  await looksRight(server, `/projects/geo?tab=runs&run=${data[0].id}`, (page) => page.getByRole("region", { name: "Run" }).getByText("outline").first())
}, 900_000)
