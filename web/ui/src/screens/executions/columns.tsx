import { Link } from "wouter"
import { shortID, some } from "../../format"
import type { Column } from "../../parts/Rows"
import { StateBar, StateWord } from "../../parts/State"
import { Ago, Took } from "../../parts/Time"
import type { Execution } from "./query"
import { By, Usually } from "./Told"

/** Progress is a bar of an execution's steps, with how many have ended, skipped ones too. */
export function Progress({ of: p, label }: { of: Execution["progress"]; label: string }) {
  const rest = Math.max(0, p.total - p.completed - p.failed - p.running - p.skipped - p.cancelled)
  const counts = { failed: p.failed, running: p.running, completed: p.completed, cancelled: p.cancelled + p.skipped, pending: rest }
  return (
    <span className="progress">
      <StateBar counts={counts} label={`${label}: ${p.completed} of ${p.total} steps completed, ${p.failed} failed`} />
      <span>{(p.total - p.running - rest).toLocaleString("en-US")}/{p.total.toLocaleString("en-US")}</span>
      {p.failed > 0 && <span className="bad"><span aria-hidden="true">✕ </span>{p.failed.toLocaleString("en-US")}<span className="hidden-text"> failed</span></span>}
    </span>
  )
}

/** columns of executions: those on the right are left out of narrow pages, so that a name of 20 letters with its version has room in all. */
export const columns: Column<Execution>[] = [
  { title: "State", width: "minmax(clamp(122px, 14vw, 176px), 1.2fr)", show: (x) => <StateWord state={x.status} /> },
  {
    title: "Pipeline", width: "minmax(110px, 4fr)",
    show: (x) => <><Link href={`/executions/${x.execution_id}`} onClick={(e) => e.stopPropagation()} tabIndex={-1}>{x.pipeline || "(no name)"}</Link>{x.workflow_version ? <span className="quiet"> v{x.workflow_version}</span> : null}{x.held ? <span className="quiet"> · {x.held}</span> : null}</>,
  },
  { title: "Started", width: "minmax(84px, 0.6fr)", show: (x) => <Ago time={x.started_at ?? x.created_at} /> },
  { title: "Took", width: "76px", from: 560, show: (x) => <Took from={x.started_at} to={x.completed_at} /> },
  { title: "Usual", width: "56px", from: 1080, show: (x) => <Usually of={x} /> },
  { title: "Steps", width: "minmax(156px, 1.3fr)", from: 760, show: (x) => <Progress of={x.progress} label={x.pipeline} /> },
  { title: "Trigger", width: "76px", from: 980, show: (x) => x.trigger_type },
  { title: "By", width: "minmax(76px, 0.8fr)", from: 1180, show: (x) => <By of={x} /> },
  { title: "Cost", width: "56px", from: 1380, show: (x) => (x.cost ? x.cost : <span className="quiet">–</span>) },
  { title: "Promise", width: "102px", from: 1440, show: (x) => (x.breached ? <span className="bad">past {x.breached}</span> : <span className="quiet">–</span>) },
  { title: "Id", width: "104px", from: 1600, show: (x) => <code title={x.execution_id}>{shortID(x.execution_id)}</code> },
]

const warnings: Column<Execution> = { title: "Warnings", width: "72px", from: 1280, show: (x) => (x.warnings ? <Link href={`/executions/${x.execution_id}/log?level=warning`} tabIndex={-1} onClick={(e) => e.stopPropagation()} aria-label={`${some(x.warnings, "warning")} of ${x.pipeline}`}>{x.warnings >= 500 ? "500+" : x.warnings}</Link> : <span className="quiet">–</span>) }

/** withWarnings are the columns of a list that has asked for the number of warnings. */
export const withWarnings = columns.toSpliced(columns.findIndex((c) => c.title === "Cost"), 0, warnings)
