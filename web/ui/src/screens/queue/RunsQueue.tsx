import { Link, useLocation } from "wouter"
import { api, data, type Schemas } from "../../api/client"
import { usePages } from "../../api/pages"
import { Loaded } from "../../parts/Loading"
import { Rows, type Column } from "../../parts/Rows"
import { StateMark } from "../../parts/State"
import { Ago } from "../../parts/Time"

export type Run = Schemas["PipelineRun"]

// The words of runs, as states that have a shape.
const states: Record<string, string> = { queued: "queued", running: "running", paused: "paused", done: "completed", failed: "failed", pending: "pending" }

/** RunState is the state of a run or of its step. */
export function RunState({ status, why }: { status: string; why?: string }) {
  return <span className="state" title={why}><StateMark state={states[status] ?? status} /> {status}</span>
}

/** RunSteps are the steps of a run by their position. */
export function RunSteps({ of }: { of: Run }) {
  const done = of.steps.filter((s) => s.status === "done").length
  return (
    <span className="run-steps" role="img" aria-label={`${done} of ${of.steps.length} steps done: ${of.steps.map((s) => `${s.position} ${s.name} ${s.status}`).join(", ")}`}>
      {of.steps.slice(0, 40).map((s) => <span key={s.id} title={`${s.position}. ${s.name}: ${s.status}${s.reused_from ? ", taken over" : ""}`}><StateMark state={states[s.status] ?? s.status} size={11} /></span>)}
      {of.steps.length > 40 && <span className="quiet">… {of.steps.length}</span>}
    </span>
  )
}

/** runColumns are those of lists of runs. */
export const runColumns: Column<Run>[] = [
  { title: "State", width: "96px", show: (r) => <RunState status={r.status} why={r.state.held ?? r.state.message} /> },
  { title: "Lesson", width: "minmax(110px, 1.3fr)", show: (r) => <Link href={`/projects/${encodeURIComponent(r.lesson.project.id)}?run=${r.id}`} onClick={(e) => e.stopPropagation()} tabIndex={-1}>{r.lesson.name || r.lesson.id}</Link> },
  { title: "Project", width: "minmax(90px, 1fr)", from: 760, show: (r) => r.lesson.project.name || r.lesson.project.id },
  { title: "Pipeline", width: "minmax(90px, 1fr)", from: 560, show: (r) => `${r.pipeline_version.title} v${r.pipeline_version.version}` },
  { title: "Steps", width: "minmax(110px, 1.6fr)", show: (r) => <RunSteps of={r} /> },
  { title: "Begun", width: "88px", from: 760, show: (r) => <Ago time={r.created_at} /> },
  { title: "Cost", width: "72px", from: 980, show: (r) => r.cost || <span className="quiet">–</span> },
]

/** RunsQueue lists the runs that are queued or running, the oldest first. */
export function RunsQueue() {
  const [, navigate] = useLocation()
  const list = usePages(["runs", "queue"], async (cursor, signal) => {
    const page = await data(api.GET("/api/v1/pipeline-runs/queue", { params: { query: { cursor, limit: 200 } }, signal }))
    return { rows: page.data, next: page.next_cursor }
  }, { id: (r) => r.id })
  return (
    <Loaded of={list.first} lines={6}>
      {() => (list.rows?.length ?? 0) > 0 ? (
        <div className="fill"><Rows label="Pipeline runs" rows={list.rows!} columns={runColumns} keyOf={(r) => r.id} onOpen={(r) => navigate(`/projects/${encodeURIComponent(r.lesson.project.id)}?run=${r.id}`)} onEnd={list.onEnd} onView={list.onView} /></div>
      ) : (
        <div className="empty"><h2>No run is queued or running</h2><p>A pipeline run takes a lesson of a project through the steps of a pipeline.</p><div className="actions"><Link className="button" href="/projects">Projects</Link></div></div>
      )}
    </Loaded>
  )
}
