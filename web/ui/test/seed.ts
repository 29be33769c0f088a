// What tests put on a server.
import type { Server } from "./server"

export const hello = `# Greets somebody.
name: hello
description: Greets somebody.
parameters:
  - {name: who, type: string, default: world, enum: [world, moon], description: Whom to greet.}
  - {name: times, type: integer, default: 1}
  - {name: tags, type: array, default: [a, b]}
  - {name: must, type: string}
steps:
  - id: greet
    action: util.log
    params: {message: "Hello, {{ params.who }}"}
  - id: again
    action: util.log
    depends_on: [greet]
    params: {message: "{{ params.must }}"}
`

export const approval = (message: string) => ({ name: "deploy", steps: [{ id: "ask", action: "util.approval", params: { message } }, { id: "go", action: "util.noop", depends_on: ["ask"] }] })
export const failing = { name: "thumbnails", steps: [{ id: "convert", action: "util.fail", params: { message: "no decoder for webp" } }] }
export const sleeping = { name: "sleeper", steps: [{ id: "rest", action: "util.wait", params: { seconds: 3600 } }] }
export const passing = { name: "quick", steps: [{ id: "a", action: "util.noop" }, { id: "b", action: "util.noop", depends_on: ["a"] }] }

/** store stores a pipeline and gives its id. */
export async function store(server: Server, document: string | object, note = ""): Promise<string> {
  return (await server.ask("POST", "/pipelines", { document, note })).pipeline_id
}

/** key makes an API key of a role; from then on the server needs one. */
export async function key(server: Server, role: string): Promise<string> {
  return (await server.ask("POST", "/keys", { name: `${role}-${Math.random().toString(36).slice(2, 8)}`, role })).token
}

/** as makes the page's requests those of a key, as its session would. */
export async function as(page: import("playwright-core").Page, token: string): Promise<void> {
  await page.context().setExtraHTTPHeaders({ Authorization: `Bearer ${token}` })
  await page.reload()
}

/** draftKept waits until the browser has kept a text that is not saved. */
export const draftKept = (page: import("playwright-core").Page, text: string) => page.evaluate(async (wanted) => {
  const kept = () => new Promise<boolean>((done) => {
    const asked = indexedDB.open("stepwell")
    asked.onsuccess = () => { const get = asked.result.transaction("drafts").objectStore("drafts").getAll(); get.onsuccess = () => done(get.result.some((d: any) => d.text.includes(wanted))); get.onerror = () => done(false) }
    asked.onerror = () => done(false)
  })
  while (!(await kept())) await new Promise((r) => setTimeout(r, 20))
}, text)

/** many does something n times, four at a time, and waits where the server says that it is too much. */
export async function many(server: Server, n: number, act: (i: number) => Promise<unknown>): Promise<void> {
  let next = 0
  await Promise.all(Array.from({ length: 4 }, async () => {
    for (let i = next++; i < n; i = next++) {
      await server.until(async () => {
        try { await act(i) } catch (err) { if (String(err).includes(" 429 ")) return false; throw err }
        return true
      })
    }
  }))
}
