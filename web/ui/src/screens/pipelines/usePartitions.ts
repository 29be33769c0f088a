import { useEffect, useRef } from "react"
import { api, data, queries, useAsk } from "../../api/client"
import { watch } from "../../api/live"
import { ended } from "../../states"
import { keyAt, type Table } from "./partitions"

const mostKnown = 5_000

/**
 * usePartitions reads the table of a pipeline's partitions, and again when an execution of it begins or ends: once a second at most, and where
 * reading takes long, a fifth of the time.
 */
export function usePartitions(id: string) {
  const took = useRef(0)
  const table = useAsk(["partitions", id, "table"], async (signal): Promise<Table> => {
    const began = performance.now()
    const t = await data(api.GET("/api/v1/pipelines/{pipeline_id}/partitions", { params: { path: { pipeline_id: id }, query: { limit: 0 } }, signal }))
    took.current = performance.now() - began
    return { ...t, axes: t.axes.map((values) => values ?? []) }
  }, { staleTime: 0 })
  useEffect(() => {
    const known = new Map<unknown, unknown>()
    let timer: ReturnType<typeof setTimeout> | undefined
    let last = Date.now()
    let more = false
    const read = (again: boolean) => {
      more ||= again
      timer ??= setTimeout(() => {
        timer = undefined
        last = Date.now()
        void queries.invalidateQueries({ queryKey: ["partitions", id] }, { cancelRefetch: false })
        if (!more) return
        more = false
        read(false) // the ledger hears of an end a moment after the page may have
      }, Math.max(0, last + Math.max(1_000, 5 * took.current) - Date.now()))
    }
    const stop = watch((of, change) => {
      if (of !== "executions") return
      const rows = (change.rows ?? []).filter((row) => row.workflow_id === id && known.get(row.execution_id) !== row.status)
      if (known.size > mostKnown) known.clear()
      for (const row of rows) known.set(row.execution_id, row.status)
      if (rows.length || change.reload) read(Boolean(change.reload) || rows.some((row) => ended(String(row.status))))
    })
    return () => { stop(); clearTimeout(timer) }
  }, [id])
  return table
}

/** usePartition reads why one partition is in its state, and which execution tried last. */
export function usePartition(t: Table, at: number, enabled = true) {
  const known = at >= 0 && at < t.grid.length
  const key = known ? keyAt(t.axes, at) : ""
  return useAsk(["partitions", t.pipeline_id, "one", key, t.grid[at]], (signal) => data(api.GET("/api/v1/pipelines/{pipeline_id}/partitions/one", { params: { path: { pipeline_id: t.pipeline_id }, query: { partition: key } }, signal })), { enabled: enabled && known, gcTime: 30_000 })
}
