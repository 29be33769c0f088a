// What the page of an execution asks for, and when it asks again.
import { keepPreviousData } from "@tanstack/react-query"
import { useEffect, useMemo, useRef, useState } from "react"
import { api, data, queries, send, useAsk, type Question, type Schemas } from "../../api/client"
import type { Named } from "../../field/names"
import { ended } from "../../states"
import { watch } from "../../api/live"
import type { Told } from "./field"
import { follow } from "./follow"

/** detail asks for the execution itself. */
export const detail = (id: string): Question<Schemas["ExecutionDetail"]> => ({ key: ["execution", id, "detail"], ask: () => data(api.GET("/api/v1/executions/{execution_id}", { params: { path: { execution_id: id }, query: { steps: 1 } } })) })

/** useDetail is the execution itself; it is asked for again when its own status changes. */
export const useDetail = (id: string) => useAsk(detail(id).key, detail(id).ask)

// Of a version, which does not change, the key says which; of now it has "live" in it, because that changes with every step.
const moment = (version: number | undefined) => (version === undefined ? ["live"] : ["past", version])

/** graph asks for the execution as few nodes, now or after the commit with a version. */
export const graph = (id: string, expand: string[], version?: number): Question<Schemas["Graph"]> => ({
  key: ["execution", id, ...moment(version), "graph", expand.join()],
  ask: () => data(api.GET("/api/v1/executions/{execution_id}/graph", { params: { path: { execution_id: id }, query: { ...(expand.length ? { expand } : {}), ...(version ? { version } : {}) } } })),
})

/** useGraph is the execution as few nodes, now or after the commit with a version. */
export const useGraph = (id: string, expand: string[], version?: number) =>
  useAsk(graph(id, expand, version).key, graph(id, expand, version).ask, { placeholderData: keepPreviousData as never })

export const useStep = (id: string, key: string | undefined, version?: number) =>
  useAsk<Named | null>(["execution", id, ...moment(version), "step", key], async (signal) => {
    const got = (await (await send(`api/v1/executions/${id}/steps?${version ? `version=${version}` : "outputs=true"}&step_id=${encodeURIComponent(key!)}`, { signal })).json()) as { steps: Named[] }
    return got.steps[0] ?? null
  }, { enabled: key !== undefined })

/** useWhy asks why the execution or a step is in its state. Of what is inside a step that has ended the server keeps the error alone. */
export const useWhy = (id: string, key: string | undefined, when: boolean, version?: number) =>
  useAsk(["execution", id, ...moment(version), "why", key ?? ""], () => data(api.GET("/api/v1/executions/{execution_id}/why", { params: { path: { execution_id: id }, query: { ...(key ? { step_id: key } : {}), ...(version ? { version } : {}) } } })), { enabled: when })

/** useWhatIf asks what would come of something that is assumed; nothing is done. */
export const useWhatIf = (id: string, assume: string | undefined, version?: number) =>
  useAsk(["execution", id, ...moment(version), "what-if", assume ?? ""], () => data(api.GET("/api/v1/executions/{execution_id}/what-if", { params: { path: { execution_id: id }, query: { assume: assume!, ...(version ? { version } : {}) } } })), { enabled: assume !== undefined })

/** useLost is the first step that has failed of its own, not because of one inside it. */
export const useLost = (id: string, when: boolean) =>
  useAsk<Named | null>(["execution", id, "live", "lost"], async (signal) => {
    const { steps } = (await (await send(`api/v1/executions/${id}/steps?status=failed,timed_out&limit=50`, { signal })).json()) as { steps: Named[] }
    return steps.find((s) => s.error && (s.error.step_id ?? s.step_id) === s.step_id) ?? steps[0] ?? null
  }, { enabled: when })

/** useApprovals are the questions of this execution that wait for an answer. */
export const useApprovals = (id: string, waits: boolean) =>
  useAsk(["execution", id, "live", "approvals"], async () => (await data(api.GET("/api/v1/approvals", { params: { query: { limit: 200 } } }))).approvals.filter((a: Schemas["Approval"]) => a.execution_id === id), { enabled: waits })

export interface Live {
  connected: boolean
  /** When the connection was lost or found. */
  since: number
  /** Counts what has happened; it moves a few times a second at most. */
  beat: number
}

const beatEvery = 300 // ms
const itemsEvery = 1000 // ms, of streams

/** useLiveExecution has what is shown of an execution asked for again while it runs. What happens is heard from the stream of its steps
 * (told, for useField) and, of streams, the log, which tells of their items; or all of it from the log, where nothing shows all steps: a
 * log has a message for each change of each step. */
export function useLiveExecution(id: string, status: string | undefined, from: "steps" | "steps and items" | "log" = "log"): { live: Live; told: Told } {
  const [live, set] = useState<Live>({ connected: false, since: Date.now(), beat: 0 })
  const over = status === undefined || ended(status)
  const latest = useRef({ over, status })
  latest.current = { over, status }
  const told = useMemo(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const now = () => {
      clearTimeout(timer)
      timer = undefined
      set((l) => ({ ...l, beat: l.beat + 1 }))
      void queries.invalidateQueries({ queryKey: ["execution", id, "live"] })
    }
    const whole = () => void queries.invalidateQueries({ queryKey: ["execution", id, "detail"] })
    return {
      now, whole,
      changed: () => { timer ??= setTimeout(now, beatEvery) },
      link: (connected: boolean) => {
        set((l) => (l.connected === connected ? l : { ...l, connected, since: Date.now() }))
        if (connected && !latest.current.over) {
          whole()
          timer ??= setTimeout(now, beatEvery)
        }
      },
      over: () => { whole(); now() },
    }
  }, [id])
  useEffect(() => {
    if (over) return
    // How the execution itself stands is also told by the stream of lists.
    let known = latest.current.status
    const unwatch = watch((of, change) => {
      const row = of === "executions" ? change.rows?.find((r) => r.execution_id === id) : undefined
      if (row && row.status !== known) {
        known = String(row.status)
        told.whole()
        told.changed()
      }
    })
    return () => {
      unwatch()
      told.now() // what came with the last messages is still asked for
    }
  }, [id, over, told])
  useEffect(() => {
    if (over || from === "steps") return
    let timer: ReturnType<typeof setTimeout> | undefined
    const items = () => {
      timer ??= setTimeout(() => {
        timer = undefined
        for (const what of ["streams", "stream failures"]) void queries.invalidateQueries({ queryKey: ["execution", id, "live", what] })
      }, itemsEvery)
    }
    const stop = follow(id, {
      since: "latest",
      level: "error",
      onLink: (connected) => { if (from === "log") told.link(connected) },
      onMessage: (m) => {
        if (m.type === "progress" && m.data.items) items()
        if (from !== "log") return
        if (m.type === "complete" || (m.type === "status" && m.data.step_id === null)) told.whole()
        if (m.type === "status" || m.type === "complete") told.changed()
      },
    })
    return () => {
      stop()
      clearTimeout(timer)
    }
  }, [id, over, from, told])
  return { live, told }
}
