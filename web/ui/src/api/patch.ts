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
}

const mostKnown = 5_000
const known = new Map<unknown, unknown>() // the status that was told last, by id

/** patchList replaces the rows of a list that have changed; a list without any is returned as it is. */
export function patchList(rows: Record<string, unknown>[], changed: Map<unknown, Record<string, unknown>>, id: string): Record<string, unknown>[] {
  return rows.some((row) => changed.has(row[id])) ? rows.map((row) => (changed.has(row[id]) ? { ...row, ...changed.get(row[id]) } : row)) : rows
}

/**
 * patch puts a change into all cached lists. It says whether they must be read again: for rows that have left, and for executions that are
 * new or have another status, which a list may ask for. Progress alone asks for nothing.
 */
export function patch(queries: QueryClient, kind: string, change: Change): boolean {
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
