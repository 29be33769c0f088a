// Messages of the stream of lists, put into cached answers.
import type { QueryClient } from "@tanstack/react-query"

export interface Change { rows?: Record<string, unknown>[]; removed?: string[]; reload?: boolean }

interface List { first: string; id: string; members: string[] }

// Where the rows of each kind are cached: the first part of the keys, and the members that hold lists of rows.
const lists: Record<string, List> = {
  executions: { first: "executions", id: "execution_id", members: ["rows", "executions"] },
  approvals: { first: "approvals", id: "approval_id", members: ["approvals"] },
  schedules: { first: "schedules", id: "job_id", members: ["rows", "jobs"] },
  workers: { first: "workers", id: "name", members: ["workers"] },
  queues: { first: "queues", id: "name", members: ["queues"] },
}

const mostKnown = 5_000
const known = new Map<unknown, unknown>() // the status that was told last, by id

/** patchList replaces the rows of a list that have changed; a list without any is returned as it is. */
export function patchList(rows: Record<string, unknown>[], changed: Map<unknown, Record<string, unknown>>, id: string): Record<string, unknown>[] {
  return rows.some((row) => changed.has(row[id])) ? rows.map((row) => (changed.has(row[id]) ? { ...row, ...changed.get(row[id]) } : row)) : rows
}

// patchProgress puts the progress of projects into the cache. A project that is told of for the first time may be new to a list; one that
// is no longer told of has finished, rests or was deleted.
function patchProgress(queries: QueryClient, change: Change): boolean {
  for (const row of change.rows ?? []) {
    if (queries.getQueryData(["progress", row.project_id]) !== undefined) queries.setQueryData(["progress", row.project_id], row)
  }
  for (const id of change.removed ?? []) void queries.invalidateQueries({ queryKey: ["progress", id], exact: true })
  if (change.reload) void queries.invalidateQueries({ queryKey: ["progress"] })
  const fresh = (change.rows ?? []).filter((row) => !known.has(`project ${String(row.project_id)}`))
  if (known.size > mostKnown) known.clear()
  for (const row of fresh) known.set(`project ${String(row.project_id)}`, "")
  for (const id of change.removed ?? []) known.delete(`project ${id}`)
  return Boolean(change.reload) || fresh.length > 0 || (change.removed?.length ?? 0) > 0
}

/**
 * patch puts a change into all cached lists. It says whether they must be read again: for rows that have left, and for executions that are
 * new or have another status, which a list may ask for. Progress alone asks for nothing.
 */
export function patch(queries: QueryClient, kind: string, change: Change): boolean {
  if (kind === "projects") return patchProgress(queries, change)
  const list = lists[kind]
  if (!list) return false
  const changed = new Map((change.rows ?? []).map((row) => [row[list.id], row]))
  queries.setQueriesData<Record<string, unknown>>({ queryKey: [list.first] }, (old) => {
    if (typeof old !== "object" || old === null) return old
    const member = list.members.find((m) => Array.isArray(old[m]))
    if (!member) return old
    const rows = patchList(old[member] as Record<string, unknown>[], changed, list.id)
    return rows === old[member] ? old : { ...old, [member]: rows }
  })
  let again = Boolean(change.reload) || (change.removed?.length ?? 0) > 0 || (kind !== "executions" && changed.size > 0)
  if (kind === "executions") {
    if (known.size > mostKnown) known.clear()
    for (const [id, row] of changed) {
      if (known.get(id) !== row.status) again = true
      known.set(id, row.status)
    }
  }
  return again
}
