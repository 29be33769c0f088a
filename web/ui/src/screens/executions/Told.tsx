import { Link } from "wouter"
import { api, data, useAsk } from "../../api/client"
import { formatDuration } from "../../format"
import { useNow } from "../../parts/Time"
import type { Execution } from "./query"
import { barOf, usualOf, type Usual } from "./usual"

const none: ReadonlyMap<string, Usual> = new Map()

// Asked for and sorted once for all rows, and not again at every change.
const useUsual = () => useAsk(["usual"], async (signal) => usualOf((await data(api.GET("/api/v1/stats/executions", { params: { query: { bucket: "all", group: "pipeline" } }, signal }))).buckets)).data ?? none

/** Usually is where an execution's duration stands in what its pipeline usually takes: half to 95 % of those of the last 14 days. */
export function Usually({ of: x }: { of: Execution }) {
  const now = useNow()
  const usual = useUsual().get(x.workflow_id ?? "")
  if (!usual || !x.started_at) return <span className="quiet">–</span>
  const took = ((x.completed_at ? Date.parse(x.completed_at) : now) - Date.parse(x.started_at)) / 1000
  const bar = barOf(usual, took)
  const said = `${bar.late ? "longer than" : "within"} usual: half take ${formatDuration(usual.p50)}, 95 % ${formatDuration(usual.p95)} at most`
  return (
    <span className="usual" data-late={bar.late || undefined} role="img" aria-label={said} title={said}>
      <i style={{ left: `${bar.from}%`, width: `${Math.max(4, bar.to - bar.from)}%` }} /><b style={{ left: `${bar.at}%` }} />
    </span>
  )
}

/** By is who started an execution: a schedule by its name. */
export function By({ of: x }: { of: Execution }) {
  if (x.job_id && x.triggered_by === `schedule:${x.job_id}`) return <ByJob id={x.job_id} />
  return x.triggered_by ? <span title={x.triggered_by}>{x.triggered_by}</span> : <span className="quiet">–</span>
}

function ByJob({ id }: { id: string }) {
  const jobs = useAsk(["schedules", "names"], (signal) => data(api.GET("/api/v1/scheduler/jobs", { params: { query: { limit: 500 } }, signal })))
  const name = jobs.data?.jobs.find((j) => j.job_id === id)?.name || id
  return <Link href={`/schedules/${encodeURIComponent(id)}`} title={name} tabIndex={-1} onClick={(e) => e.stopPropagation()}>{name}</Link>
}
