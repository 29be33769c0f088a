// The filters of executions, as they stand in the address. Pure.
import type { Schemas } from "../../api/client"
import { ended } from "../../states"
import type { Search } from "../../url"

export type Execution = Schemas["Execution"]
export const statuses = ["pending", "running", "paused", "cancelling", "completed", "completed_with_failures", "failed", "timed_out", "cancelled"] as const
type Status = (typeof statuses)[number]

const ranges: Record<string, number> = { "1h": 1, "24h": 24, "7d": 168, "30d": 720 }
export const rangeNames = [["", "any time"], ["1h", "last hour"], ["24h", "last 24 hours"], ["7d", "last 7 days"], ["30d", "last 30 days"], ["own", "from … to …"]] as const

/** moment reads a moment of the address: RFC 3339, or what an input of the reader's zone gives. */
export function moment(text: string | undefined): string | undefined {
  if (!text) return undefined
  const at = new Date(text)
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString()
}

/** queryOf is what is asked of the server. A range of the last hours moves with the minute, so that its key stays the same within one. */
export function queryOf(search: Search, now: number) {
  const status = (search.status ?? "").split(",").filter((s): s is Status => (statuses as readonly string[]).includes(s))
  const hours = ranges[search.range ?? ""]
  const own = search.range === "own" || !search.range
  return {
    status: status.length ? status : undefined,
    pipeline: search.pipeline,
    trigger_type: search.trigger,
    project: search.project,
    job_id: search.job,
    warned: search.warned === "1" || undefined,
    workflow_id: search.workflow,
    from: hours ? new Date(Math.floor(now / 60_000) * 60_000 - hours * 3_600_000).toISOString() : own ? moment(search.from) : undefined,
    to: own ? moment(search.to) : undefined,
  }
}

/** matches says whether an execution has a text in its id, names, trigger or project. */
export function matches(x: Execution, text: string): boolean {
  const wanted = text.toLowerCase()
  return [x.execution_id, x.pipeline, x.trigger_type, x.triggered_by, x.project, x.job_id].some((v) => v?.toLowerCase().includes(wanted))
}

/** canCancel and canRetry say what the server would do with an execution of a status; it decides. */
export const canCancel = (x: Pick<Execution, "status">) => !ended(x.status) && x.status !== "cancelling"
export const canRetry = (x: Pick<Execution, "status">) => ended(x.status) && x.status !== "completed"

/** newestFirst is the order of the server's list. */
export const newestFirst = (a: Execution, b: Execution) => (b.created_at ?? "").localeCompare(a.created_at ?? "") || b.execution_id.localeCompare(a.execution_id)
