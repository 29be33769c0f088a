// What the page of an execution asks for, and when it asks again.
import { keepPreviousData } from "@tanstack/react-query"
import { useEffect, useRef, useState } from "react"
import { api, data, problemOf, address, Problem, queries, send, useAsk, type Schemas } from "../../api/client"
import { Desk } from "../../field/desk"
import type { Layout, Spec } from "../../field/layouts"
import type { Named } from "../../field/names"
import type { Steps } from "../../field/steps"
import { ended } from "../../states"
import { follow } from "./follow"

const at = (id: string) => ({ params: { path: { execution_id: id } } })

/** useDetail is the execution itself; it is asked for again when its own status changes. */
export const useDetail = (id: string) => useAsk(["execution", id, "detail"], () => data(api.GET("/api/v1/executions/{execution_id}", at(id))))

/** useGraph is the execution as few nodes. The keys of what changes with every step have "live" in them. */
export const useGraph = (id: string, expand: string[]) =>
  useAsk(["execution", id, "live", "graph", expand.join()], () => data(api.GET("/api/v1/executions/{execution_id}/graph", { params: { path: { execution_id: id }, query: expand.length ? { expand } : {} } })), { placeholderData: keepPreviousData as never })

export const useStep = (id: string, key: string | undefined) =>
  useAsk<Named | null>(["execution", id, "live", "step", key], async (signal) => {
    const got = (await (await send(`api/v1/executions/${id}/steps?outputs=true&step_id=${encodeURIComponent(key!)}`, { signal })).json()) as { steps: Named[] }
    return got.steps[0] ?? null
  }, { enabled: key !== undefined })

export const useWhy = (id: string, key: string | undefined) =>
  useAsk(["execution", id, "live", "why", key ?? ""], () => data(api.GET("/api/v1/executions/{execution_id}/why", { params: { path: { execution_id: id }, query: key ? { step_id: key } : {} } })))

/** useApprovals are the questions of this execution that wait for an answer. */
export const useApprovals = (id: string, waits: boolean) =>
  useAsk(["execution", id, "live", "approvals"], async () => (await data(api.GET("/api/v1/approvals", { params: { query: { limit: 500 } } }))).approvals.filter((a: Schemas["Approval"]) => a.execution_id === id), { enabled: waits })

export interface Live {
  connected: boolean
  /** When the connection was lost or found. */
  since: number
  /** Counts what has happened; it moves a few times a second at most. */
  beat: number
}

const beatEvery = 300 // ms

/** useLiveExecution follows an execution that has not ended, and has what is shown of it asked for again. */
export function useLiveExecution(id: string, status: string | undefined): Live {
  const [live, set] = useState<Live>({ connected: false, since: Date.now(), beat: 0 })
  const over = status === undefined || ended(status)
  useEffect(() => {
    if (over) return
    let timer: ReturnType<typeof setTimeout> | undefined
    const beat = () => {
      timer ??= setTimeout(() => {
        timer = undefined
        set((l) => ({ ...l, beat: l.beat + 1 }))
        void queries.invalidateQueries({ queryKey: ["execution", id, "live"] })
      }, beatEvery)
    }
    const whole = () => void queries.invalidateQueries({ queryKey: ["execution", id, "detail"] })
    const stop = follow(id, {
      since: "latest",
      level: "error",
      onLink: (connected) => {
        set((l) => (l.connected === connected ? l : { ...l, connected, since: Date.now() }))
        if (connected) { whole(); beat() }
      },
      onMessage: (m) => {
        if (m.type === "complete" || (m.type === "status" && m.data.step_id === null)) whole()
        if (m.type === "status" || m.type === "complete") beat()
      },
    })
    return () => {
      stop()
      clearTimeout(timer)
      // What came with the last messages is still asked for.
      void queries.invalidateQueries({ queryKey: ["execution", id, "live"] })
      set((l) => ({ ...l, beat: l.beat + 1 }))
    }
  }, [id, over])
  return live
}

const chunk = 100_000
const most = 1_000_000
const columns = "status,attempt,layer,pos,start,duration,lane,parent,worker,edges"

export interface FieldState {
  steps?: Steps
  desk?: Desk
  problem?: Problem
  /** There are more steps than the page shows. */
  cut?: number
}

/** useField holds all steps as columns: fetched anew when something has happened, never more often than they take to come. */
export function useField(id: string, beat: number, when: boolean): FieldState {
  const [state, set] = useState<FieldState>({})
  const now = useRef({ beat, busy: false, shown: -1, etag: "" })
  now.current.beat = beat
  const desk = useRef<Desk>(undefined)
  useEffect(() => {
    desk.current = new Desk()
    const state = now.current
    Object.assign(state, { busy: false, shown: -1, etag: "" })
    set({ desk: desk.current })
    return () => desk.current?.close()
  }, [id])
  useEffect(() => {
    const d = desk.current
    const s = now.current
    if (!when || !d || s.busy) return
    let timer: ReturnType<typeof setTimeout> | undefined
    const load = async () => {
      if (s.busy || s.shown === s.beat || d !== desk.current) return
      s.busy = true
      const [begun, wanted] = [performance.now(), s.beat]
      try {
        const got = await fetchTables(id, s.etag)
        if (d !== desk.current) return
        if (got) {
          const steps = await d.load(got.tables)
          s.etag = got.etag
          set({ steps, desk: d, cut: got.total > most ? got.total : undefined })
        }
        s.shown = wanted
      } catch (err) {
        if (d === desk.current && err instanceof Problem && err.status !== 0) set((f) => ({ ...f, problem: err }))
        if (err instanceof Problem && err.status === 0) s.shown = -1
      } finally {
        s.busy = false
      }
      timer = setTimeout(() => void load(), Math.max(250, 2 * (performance.now() - begun)))
    }
    void load()
    return () => clearTimeout(timer)
  }, [id, beat, when, state.desk])
  return state
}

// fetchTables gets all columns in chunks; undefined: nothing has changed.
async function fetchTables(id: string, etag: string): Promise<{ tables: ArrayBuffer[]; etag: string; total: number } | undefined> {
  const tables: ArrayBuffer[] = []
  let [total, tag] = [1, etag]
  for (let from = 0; from < Math.min(total, most); from += chunk) {
    const response = await fetchTable(`api/v1/executions/${encodeURIComponent(id)}/field?columns=${columns}&from=${from}&limit=${chunk}`, from === 0 ? etag : "")
    if (response.status === 304) return undefined
    const buffer = await response.arrayBuffer()
    if (from === 0) {
      const head = new DataView(buffer)
      total = (JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, head.getUint32(4, true)))) as { total: number }).total
      tag = response.headers.get("ETag") ?? ""
    }
    tables.push(buffer)
  }
  return { tables, etag: tag, total }
}

async function fetchTable(path: string, etag: string): Promise<Response> {
  if (!etag) return send(path)
  const response = await fetch(address(path), { credentials: "same-origin", headers: { "If-None-Match": etag }, cache: "no-store" }).catch(() => {
    throw new Problem(0, "unavailable", "the server does not answer")
  })
  if (!response.ok && response.status !== 304) throw await problemOf(response)
  return response
}

/** useLayout arranges the steps in the worker; the last layout stays until the next one is there. */
export function useLayout(field: FieldState, spec: Spec | undefined): Layout | undefined {
  const [layout, set] = useState<{ layout: Layout; kind: string }>()
  const { steps, desk } = field
  const wanted = spec && steps ? keyOf(spec, steps) : ""
  useEffect(() => {
    if (!desk || !spec || !steps) return
    let stale = false
    desk.arrange(spec).then((l) => { if (!stale && l.n <= steps.n) set({ layout: l, kind: spec.kind }) }, () => { /* the desk was closed */ })
    return () => { stale = true }
  }, [wanted, desk])
  return layout && spec && layout.kind === spec.kind ? layout.layout : undefined
}

// keyOf tells layouts apart: that of a graph changes only with its steps, that of time always.
function keyOf(spec: Spec, steps: Steps): string {
  if (spec.kind === "waterfall") return `waterfall ${spec.rows} ${steps.version} ${spec.now}`
  const absent = steps.states.indexOf("absent")
  let there = 0
  for (const s of steps.status) if (s !== absent) there++
  return spec.kind === "fan" ? `fan ${spec.parent} ${there}` : `graph ${there}`
}
