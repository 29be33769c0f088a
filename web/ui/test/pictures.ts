// Takes the pictures of the documentation, from a real server with a few executions: npm run pictures (PICTURES names another folder)
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { closeBrowser, open } from "./browser"
import { Server } from "./server"

const folder = process.env.PICTURES ?? "../../docs/pictures"

const media = `# Every clip of a card: its metadata, a proxy, a contact sheet; then one report.
name: media-ingest
parameters:
  - {name: clips, type: array, default: [a001, a002, a003, a004, a005, a006, a007, a008]}
steps:
  - id: scan
    action: util.log
    params: {message: "{{ params.clips | length }} clips"}
  - id: convert
    depends_on: [scan]
    for_each: {items: "{{ params.clips }}", as: clip, max_concurrency: 4, max_failures: 10}
    action: util.fail
    condition: "{{ clip == 'a004' }}"
    params: {message: "a004.mov: moov atom not found"}
  - id: metadata
    action: util.set_output
    depends_on: [scan]
    params: {outputs: {seconds: 5120}}
  - id: publish
    action: util.approval
    depends_on: [convert, metadata]
    params: {message: "Publish 8 clips?"}
  - id: report
    action: util.log
    depends_on: [publish]
    params: {message: "{{ steps.metadata.outputs.seconds }} seconds"}
`

export async function main() {
  mkdirSync(folder, { recursive: true })
  const server = await new Server().start()
  try {
    const stored = await server.ask("POST", "/pipelines", { document: media })
    const nightly = await server.ask("POST", "/pipelines", { document: "name: nightly-landsat\nsteps:\n  - id: fetch\n    action: util.wait\n    params: {seconds: 0.2}\n  - id: index\n    action: util.noop\n    depends_on: [fetch]\n" })
    await server.ask("POST", "/scheduler/jobs", { name: "nightly-landsat", schedule: { type: "cron", expression: "30 2 * * *", timezone: "Europe/Berlin" }, callback: { type: "workflow", workflow_id: nightly.pipeline_id } })
    for (let i = 0; i < 12; i++) await server.ask("POST", "/execute", { workflow_id: nightly.pipeline_id })
    const x = await server.ask("POST", "/execute", { workflow_id: stored.pipeline_id })
    await server.until(async () => (await server.ask("GET", "/approvals")).approvals.length > 0)
    const shots: [string, string, (page: import("playwright-core").Page) => Promise<unknown>][] = [
      ["ui-execution", `/executions/${x.execution_id}?step=convert`, (p) => p.getByText("publish").first().waitFor()],
      ["ui-editor", `/pipelines/${stored.pipeline_id}/edit?step=convert`, (p) => p.getByText("0 errors").waitFor()],
      ["ui-home", "/", (p) => p.getByText("Publish 8 clips?").first().waitFor()],
      ["ui-approvals", "/approvals", (p) => p.getByText("Publish 8 clips?").first().waitFor()],
    ]
    for (const [name, path, there] of shots) {
      const o = await open(server, path, { width: 1280, height: 800 })
      await there(o.page)
      await o.page.waitForLoadState("networkidle").catch(() => undefined)
      await o.page.screenshot({ path: join(folder, name + ".png") })
      await o.close()
    }
  } finally {
    await closeBrowser()
    await server.stop()
  }
}
