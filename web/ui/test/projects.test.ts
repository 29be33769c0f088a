import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, looksRight, open } from "./browser"
import { as, key, store } from "./seed"
import { Server } from "./server"

const quick = { name: "course", settings: { sequential: true }, parameters: [{ name: "tone", type: "string", default: "calm" }], steps: [{ id: "outline", action: "util.set_output", params: { result: "{{ params.tone }}" } }, { id: "quiz", action: "util.set_output", depends_on: ["outline"], params: { result: "questions" } }] }

let server: Server
beforeAll(async () => {
  server = await new Server().start()
  await store(server, quick)
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
  await o.page.getByRole("link", { name: "Lessons", exact: true }).click()
  const rivers = o.page.getByRole("row", { name: /^Rivers completed/ })
  expect(await rivers.getByRole("link").getAttribute("href")).toMatch(/^\/executions\//)
  await rivers.getByRole("img", { name: /^Rivers: \d of \d steps completed, 0 failed$/ }).waitFor()
  await o.accessible("lessons with outcomes")
  await o.page.goBack()
  const id = new URL(o.page.url()).searchParams.get("run")
  const before = (await server.ask("GET", `/pipeline-runs/${id}`)).data.steps
  await run.getByRole("button", { name: "Restart from quiz" }).click()
  const again = o.page.getByRole("dialog", { name: "Restart from quiz?" })
  await again.getByText("It runs again, and its result is replaced.").waitFor()
  await o.accessible("restart")
  await again.getByRole("button", { name: "Restart" }).click()
  await o.page.getByText("It runs again from quiz.").waitFor()
  await server.until(async () => {
    const r = (await server.ask("GET", `/pipeline-runs/${id}`)).data
    return r.status === "done" && r.steps[1].start_time > before[1].start_time && r.steps[0].start_time === before[0].start_time
  })
  await o.page.getByRole("row", { name: /2 quiz util\.set_output done/ }).waitFor()
  expect((await server.ask("GET", "/projects/geo/progress")).done).toBe(2)
  await o.close()
}, 300_000)

test("a run is stopped and started; the queue shows it while it runs", async () => {
  await server.ask("POST", "/projects", { id: "p2", name: "Second" })
  await server.ask("POST", "/lessons", { id: "l2", project_id: "p2", name: "Long one" })
  const made = await server.ask("POST", "/pipeline-runs", { lesson_id: "l2", pipeline_id: "slow" })
  await server.until(async () => (await server.ask("GET", `/pipeline-runs/${made.data.id}`)).data.status === "running")
  const o = await open(server, "/queue?tab=runs")
  await o.page.getByRole("row", { name: /running Long one/ }).click()
  const run = o.page.getByRole("region", { name: "Run" })
  await run.getByRole("button", { name: "Stop" }).click()
  await run.getByText("paused", { exact: true }).waitFor()
  await run.getByRole("button", { name: "Stop (it is paused)" }).waitFor()
  expect((await server.ask("GET", `/pipeline-runs/${made.data.id}`)).data.status).toBe("paused")
  await run.getByRole("button", { name: "Start", exact: true }).click()
  await run.getByText("running", { exact: true }).first().waitFor()
  await run.getByRole("button", { name: "Pause", exact: true }).waitFor()
  await o.close()
})

test("progress is shown with status, total, done, errors and percent", async () => {
  await server.ask("POST", "/projects", { id: "counted", name: "Counted", tags: "school, 2026" })
  await server.ask("PUT", "/projects/counted/total", { total: 1200 })
  await server.ask("POST", "/projects/counted/items", { done: 300, errors: 20 })
  const p = await server.ask("GET", "/projects/counted/progress")
  const o = await open(server, "/projects")
  await o.page.getByRole("row", { name: new RegExp(`^Counted 300 of 1200 done, 20 errors 300/1,200 25 % 20 errors ${p.status}`) }).waitFor()
  await server.ask("POST", "/projects/counted/items", { done: 300 })
  await o.page.getByText("600/1,200").waitFor() // live
  await server.ask("POST", "/projects", { id: "later", name: "Made later" })
  await o.page.getByRole("row", { name: /Made later/ }).waitFor()
  await server.ask("PUT", "/projects/later/total", { total: 2 })
  await server.ask("POST", "/projects/later/items", { done: 2 })
  await o.page.getByRole("row", { name: /Made later 2 of 2 done.*DONE/ }).waitFor()
  await server.ask("DELETE", "/projects/later")
  await o.page.getByRole("searchbox", { name: "Text" }).fill("school")
  await o.page.getByRole("row", { name: /Second/ }).waitFor({ state: "detached" })
  await o.page.getByRole("row", { name: /Counted/ }).click()
  await o.page.getByRole("heading", { name: "It has no lessons yet" }).waitFor()
  await o.page.getByText("50 %").waitFor()
  await o.close()
})

test("a project's page moves while items are counted, and says NOT_FOUND where there is no project", async () => {
  const none = await open(server, "/projects/moving", { expected: /404/ }) // there is none yet
  await none.page.getByText("NOT_FOUND", { exact: true }).waitFor()
  await none.accessible("a project that is not there")
  await none.close()
  await server.ask("POST", "/projects", { id: "moving", name: "Moving" })
  const o = await open(server, "/projects/moving", { expected: /404/ }) // at the end it is gone
  await o.page.getByRole("heading", { name: "Projects / Moving" }).waitFor()
  await o.page.getByText("INITIALIZING", { exact: true }).waitFor()
  let loads = 0
  o.page.on("load", () => { loads++ })
  await server.ask("PUT", "/projects/moving/total", { total: 40 })
  await server.ask("POST", "/projects/moving/items", { done: 10 })
  await o.page.getByText("10/40").waitFor()
  await o.page.getByText("25 %").waitFor()
  await server.ask("POST", "/projects/moving/items", { done: 10, errors: 5 })
  await o.page.getByText("20/40").waitFor()
  await o.page.getByText("5 errors", { exact: true }).waitFor()
  await server.ask("POST", "/projects/moving/reset")
  await o.page.getByText("20/40").waitFor({ state: "detached" })
  await server.ask("PUT", "/projects/moving/total", { total: 4 })
  await server.ask("POST", "/projects/moving/items", { done: 1 })
  await o.page.getByText("1/4", { exact: true }).waitFor()
  await server.ask("DELETE", "/projects/moving")
  await o.page.getByText("NOT_FOUND", { exact: true }).waitFor()
  expect(loads).toBe(0)
  await o.close()
})

/** tone is a WAV file of some seconds. */
function tone(seconds: number): Uint8Array<ArrayBuffer> {
  const n = 8000 * seconds
  const b = new DataView(new ArrayBuffer(44 + n))
  const text = (at: number, s: string) => [...s].forEach((c, i) => b.setUint8(at + i, c.charCodeAt(0)))
  text(0, "RIFF"); text(8, "WAVEfmt "); text(36, "data")
  for (const [at, v] of [[4, 36 + n], [16, 16], [24, 8000], [28, 8000], [40, n]] as const) b.setUint32(at, v, true)
  for (const [at, v] of [[20, 1], [22, 1], [32, 1], [34, 8]] as const) b.setUint16(at, v, true)
  for (let i = 0; i < n; i++) b.setUint8(44 + i, 128 + 40 * Math.sin(i / 5))
  return new Uint8Array(b.buffer)
}

test("a lesson: its file is played by ranges, with the results of its runs beside it", async () => {
  await server.ask("POST", "/projects", { id: "heard", name: "Heard" })
  await server.ask("POST", "/lessons", { id: "song", project_id: "heard", name: "Song" })
  const form = new FormData()
  form.set("file", new File([tone(60)], "song.wav", { type: "audio/wav" }))
  const sent = await fetch(`${server.url}/api/v1/lessons/song/media`, { method: "POST", body: form })
  expect(sent.status, await sent.text()).toBeLessThan(300)
  const { data } = await server.ask("POST", "/pipeline-runs", { lesson_id: "song", pipeline_id: "course", params: { tone: "loud" } })
  await server.until(async () => (await server.ask("GET", `/pipeline-runs/${data.id}`)).data.status === "done")
  const o = await open(server, "/projects/heard")
  const answers: number[] = []
  o.page.on("response", (r) => { if (r.url().endsWith("/media")) answers.push(r.status()) })
  await o.page.getByRole("row", { name: /^Song/ }).click()
  const lesson = o.page.getByRole("region", { name: "Lesson" })
  await expect.poll(() => lesson.getByLabel("Result of outline").innerText()).toContain("loud")
  const audio = lesson.locator("audio")
  await expect.poll(() => audio.evaluate((el: HTMLAudioElement) => el.duration)).toBe(60)
  await audio.evaluate((el: HTMLAudioElement) => { el.currentTime = 55 })
  await expect.poll(() => audio.evaluate((el: HTMLAudioElement) => el.currentTime)).toBe(55)
  await expect.poll(() => answers).toContain(206)
  await o.accessible("lesson")
  await o.close()
})

test("a viewer sees all of it, and is told what starting takes", async () => {
  const own = await new Server().start()
  own.token = await key(own, "admin")
  await store(own, quick)
  await own.ask("POST", "/projects", { id: "geo", name: "Geography" })
  await own.ask("POST", "/lessons", { id: "l", project_id: "geo", name: "Rivers" })
  const { data } = await own.ask("POST", "/pipeline-runs", { lesson_id: "l", pipeline_id: "course" })
  await own.until(async () => (await own.ask("GET", `/pipeline-runs/${data.id}`)).data.status === "done")
  const o = await open(own, `/projects/geo?run=${data.id}`, { expected: /401/ })
  await as(o.page, await key(own, "viewer"))
  const run = o.page.getByRole("region", { name: "Run" })
  const restart = run.getByRole("button", { name: "Restart … (operator is needed for this, you are viewer)" }).first()
  await restart.focus()
  await o.page.keyboard.press("Enter")
  for (const name of ["Run all lessons … (operator", "New lesson … (editor"]) await o.page.getByRole("button", { name }).click({ force: true })
  await expect.poll(() => o.page.getByRole("dialog").count()).toBe(0)
  await o.accessible("project as a viewer")
  await o.close()
  await own.stop()
})

test("projects, a project and its runs are accessible and fit a phone", async () => {
  await looksRight(server, "/projects", (page) => page.getByRole("row", { name: /Geography/ }))
  await looksRight(server, "/projects/geo", (page) => page.getByRole("row", { name: /Rivers/ }))
  const { data } = await server.ask("GET", "/pipeline-runs?project_id=geo")
  await looksRight(server, `/projects/geo?tab=runs&run=${data[0].id}`, (page) => page.getByRole("region", { name: "Run" }).getByText("outline").first())
}, 900_000)
