import { afterAll, beforeAll, expect, test } from "vitest"
import { closeBrowser, open } from "./browser"
import { draftKept } from "./seed"
import { Server } from "./server"

let server: Server
beforeAll(async () => { server = await new Server().start() })
afterAll(async () => {
  await closeBrowser()
  await server.stop()
})

const document = `# every night
name: nightly
steps:
  # gets it
  - id: fetch
    action: util.http
    params: {url: "https://example.org/data"}   # as agreed

  - id: store
    action: util.log
    depends_on: [fetch]
    params: {message: "{{ steps.fetch.outputs.status }}"}
`
const store = async (name: string) => (await server.ask("POST", "/pipelines", { document: document.replace("nightly", name) })).pipeline_id as string
const stored = async (id: string) => (await server.ask("GET", `/pipelines/${id}`)).document as string

test("a timeout is changed by the graph and saved; every other byte stays", async () => {
  const id = await store("by-graph")
  const o = await open(server, `/pipelines/${id}/edit`)
  await o.page.getByRole("group", { name: "step fetch" }).click()
  await o.page.getByRole("tab", { name: "Policy" }).click()
  const input = o.page.getByLabel("timeout_seconds")
  await input.fill("90")
  await input.press("Enter")
  await o.page.getByText("0 errors").waitFor()
  await o.accessible("editor")
  await o.page.getByRole("button", { name: "Save" }).click()
  await o.page.getByLabel("Note").fill("patience")
  await o.accessible("editor, save")
  await o.page.getByRole("dialog").getByRole("button", { name: "Save" }).click()
  await o.page.getByText("Version 2 is stored").waitFor()
  expect(await stored(id)).toBe(document.replace("nightly", "by-graph").replace("# as agreed\n", "# as agreed\n    timeout_seconds: 90\n"))
  await o.close()
})

test("a step is added, renamed with what names it, and undone by one history", async () => {
  const id = await store("by-palette")
  const o = await open(server, `/pipelines/${id}/edit`)
  await o.page.getByRole("group", { name: "step store" }).click()
  await o.page.getByRole("searchbox", { name: "Search actions" }).fill("util.wait")
  await o.page.getByRole("complementary", { name: "Pieces" }).getByRole("button", { name: /util\.wait/ }).first().click()
  await o.page.getByRole("group", { name: "step wait" }).waitFor()
  const text = o.page.getByRole("textbox", { name: "Pipeline as text" })
  await expect.poll(() => text.innerText()).toContain("depends_on: [store]")
  await o.page.getByRole("group", { name: "step fetch" }).click()
  await o.page.getByText("0 errors").waitFor()
  const name = o.page.getByRole("textbox", { name: "Id of the step" })
  await name.fill("download")
  await name.press("Enter")
  await expect.poll(() => text.innerText()).toContain("{{ steps.download.outputs.status }}")
  await expect.poll(() => text.innerText()).toContain("depends_on: [download]")
  await o.page.getByRole("group", { name: "step download" }).waitFor()
  await o.page.getByRole("heading", { name: "by-palette" }).click({ position: { x: 1, y: 1 }, trial: true })
  await o.page.getByRole("button", { name: "Save" }).focus()
  await o.page.keyboard.press("Control+z")
  await expect.poll(() => text.innerText()).toContain("{{ steps.fetch.outputs.status }}")
  await o.close()
})

test("an edit by the graph is the text at once, before it is shown: what is typed and added meanwhile joins it, and one history undoes all", async () => {
  const id = await store("by-both")
  const o = await open(server, `/pipelines/${id}/edit?view=both`)
  await o.page.getByText("0 errors").waitFor()
  await o.page.getByRole("searchbox", { name: "Search actions" }).fill("util.wait")
  const piece = o.page.getByRole("complementary", { name: "Pieces" }).getByRole("button", { name: /util\.wait/ }).first()
  const text = o.page.getByRole("textbox", { name: "Pipeline as text" })
  await text.click()
  await o.page.keyboard.press("Control+Home")
  const before = document.replace("nightly", "by-both").trimEnd()
  const whole = async () => (await text.locator(".cm-line").allTextContents()).join("\n").trimEnd()
  expect(await whole()).toBe(before)
  await piece.evaluate((button: HTMLElement) => { // within one task, before anything is drawn
    button.click()
    window.document.execCommand("insertText", false, "# typed ") // no event tells of it before
  })
  await o.page.getByRole("group", { name: "step wait" }).waitFor()
  await o.page.keyboard.press("Control+Home") // shows it
  expect(await whole()).toMatch(/^# typed # every night\n/)
  expect((await whole()).slice("# typed ".length)).toMatch(/^# every night[^]*  - id: wait\n/)
  const step = (await whole()).match(/  - id: wait\n(    .*\n?)+/)![0]
  expect((await whole()).replace("# typed ", "").replace("\n" + step.trimEnd(), "")).toBe(before)
  await piece.click()
  await o.page.getByRole("group", { name: "step wait-2" }).waitFor()
  await text.click()
  for (let i = 0; i < 4; i++) await o.page.keyboard.press("Control+z")
  await expect.poll(whole).toBe(before)
  await o.close()
})

test("problems are shown while typing, and the last good graph while the text does not parse", async () => {
  const id = await store("by-text")
  const o = await open(server, `/pipelines/${id}/edit?view=both`)
  await o.page.getByText("0 errors").waitFor()
  const text = o.page.getByRole("textbox", { name: "Pipeline as text" })
  await text.click()
  await o.page.keyboard.press("Control+End")
  await o.page.keyboard.type("  - id: x\n  action: util.lgo\n")
  await o.page.getByText(/[1-9]\d* errors?/).waitFor()
  await o.page.keyboard.press("Control+End")
  await o.page.keyboard.type("steps: [")
  await o.page.getByText("the graph is of before").waitFor()
  await o.page.getByRole("group", { name: "step store" }).waitFor()
  await o.close()
})

test("two people edit one pipeline: other lines are joined, the same lines are merged by hand, nothing is lost", async () => {
  const id = await store("by-two")
  const conflict = { expected: /412 \(Precondition Failed\)/ }
  const a = await open(server, `/pipelines/${id}/edit?view=text`, conflict)
  const b = await open(server, `/pipelines/${id}/edit?view=text`, conflict)
  const replace = async (o: typeof a, from: string, to: string) => {
    const text = o.page.getByRole("textbox", { name: "Pipeline as text" })
    await text.waitFor()
    await o.page.keyboard.press("3")
    await text.getByText(from).first().dblclick()
    await o.page.keyboard.type(to)
  }
  const save = async (o: typeof a) => {
    await o.page.getByRole("button", { name: "Save" }).click()
    await o.page.getByRole("dialog").getByRole("button", { name: "Save" }).click()
  }
  await replace(a, "every", "all")
  await replace(b, "gets", "takes")
  await save(a)
  await a.page.getByText("Version 2 is stored").waitFor()
  await save(b)
  await b.page.getByText("Their changes are in your text now").waitFor()
  await save(b)
  await b.page.getByText("Version 3 is stored").waitFor()
  expect(await stored(id)).toBe(document.replace("nightly", "by-two").replace("every", "all").replace("gets", "takes"))

  await replace(b, "takes", "fetches")
  await replace(a, "gets", "loads")
  await save(b)
  await b.page.getByText("Version 4 is stored").waitFor()
  await save(a)
  await a.page.getByRole("dialog", { name: /Somebody else/ }).waitFor()
  await a.accessible("merge")
  await a.page.getByRole("button", { name: "Go on with the right side" }).click()
  await save(a)
  await a.page.getByText("Version 5 is stored").waitFor()
  expect(await stored(id)).toContain("# loads it")
  await a.close()
  await b.close()
})

test("what was not saved is found again", async () => {
  const id = await store("by-crash")
  const o = await open(server, `/pipelines/${id}/edit?view=both`)
  const text = o.page.getByRole("textbox", { name: "Pipeline as text" })
  await text.click()
  await o.page.keyboard.press("Control+End")
  await o.page.keyboard.type("# precious")
  await o.page.getByText("not saved").waitFor()
  await o.page.keyboard.type(" to the last key")
  await o.page.getByRole("navigation").getByRole("link", { name: "Schedules" }).click()
  await draftKept(o.page, "# precious to the last key")
  const again = await o.context.newPage()
  await again.goto(server.url + `/pipelines/${id}/edit?view=both`)
  await again.getByRole("button", { name: "Drop what was recovered" }).waitFor()
  await expect.poll(() => again.getByRole("textbox", { name: "Pipeline as text" }).innerText()).toContain("# precious to the last key")
  await o.close()
})
