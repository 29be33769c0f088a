// What the server of pictures holds: a few pipelines, a schedule, executions that ended well, failed and wait, a project.
import { diamond } from "./definitions"
import { hello, store } from "./seed"
import type { Server } from "./server"

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

/** media stores the pipelines of the documentation's pictures, runs them, and waits for a decision to be asked for. */
export async function mediaWorld(server: Server): Promise<{ stored: string; waiting: string; job: string }> {
  const stored = await store(server, media)
  const nightly = await store(server, "name: nightly-landsat\nsteps:\n  - id: fetch\n    action: util.wait\n    params: {seconds: 0.2}\n  - id: index\n    action: util.noop\n    depends_on: [fetch]\n")
  const { job_id: job } = await server.ask("POST", "/scheduler/jobs", { name: "nightly-landsat", schedule: { type: "cron", expression: "30 2 * * *", timezone: "Europe/Berlin" }, callback: { type: "workflow", workflow_id: nightly } })
  for (let i = 0; i < 12; i++) await server.ask("POST", "/execute", { workflow_id: nightly })
  const { execution_id: waiting } = await server.ask("POST", "/execute", { workflow_id: stored })
  await server.until(async () => (await server.ask("GET", "/approvals")).approvals.length > 0)
  return { stored, waiting, job }
}

/** screensOf fills a server, and gives the addresses of what pictures are taken of, by their names. */
export async function screensOf(server: Server): Promise<Record<string, string>> {
  const { stored, waiting, job } = await mediaWorld(server)
  const greeting = await store(server, hello)
  const project = await server.ask("POST", "/projects", { name: "Geography", tags: "school, 2026" })
  const a = (await server.run(diamond)).execution_id
  const b = (await server.run(diamond)).execution_id
  await server.until(async () => (await server.ask("GET", "/executions?status=pending,running&limit=50")).executions.length <= 1)
  return {
    home: "/", executions: "/executions", approvals: "/approvals", pipelines: "/pipelines", templates: "/pipelines/templates", schedules: "/schedules", triggers: "/triggers", queue: "/queue", projects: "/projects", insight: "/insight",
    pipeline: `/pipelines/${stored}`, versions: `/pipelines/${greeting}/versions`, editor: `/pipelines/${stored}/edit?step=convert`, schedule: `/schedules/${job}`, project: `/projects/${project.id}`, audit: "/admin/audit",
    waiting: `/executions/${waiting}`, failed: `/executions/${a}?step=check`, waterfall: `/executions/${a}/waterfall`, table: `/executions/${a}/table`, log: `/executions/${a}/log`, compare: `/executions/${a}/compare/${b}`,
  }
}
