// The attempts of an execution as columns: asked for while something shows them, and again when steps have changed.
import { useEffect, useMemo, useRef, useState } from "react"
import { Problem } from "../../api/client"
import type { Desk } from "../../field/desk"
import type { Tries } from "../../field/tries"
import { fetchTable, type FieldState } from "./field"

const chunk = 100_000
const most = 1_048_576 // as many as the server gives
const least = 1000 // ms between two requests

/** useTries has the attempts once they are wanted. They are never asked for more often than a third of the time allows. */
export function useTries(id: string, field: FieldState, wanted: boolean): { tries?: Tries; problem?: Problem } {
  const [state, set] = useState<{ tries?: Tries; problem?: Problem; desk?: Desk }>({})
  const held = useRef({ etag: "", busy: false, again: false, pause: least, timer: undefined as ReturnType<typeof setTimeout> | undefined, desk: undefined as Desk | undefined })
  const version = (field.now ?? field.steps)?.version
  const desk = field.desk
  useEffect(() => {
    const h = held.current
    if (!wanted || !desk || version === undefined) return
    if (h.desk !== desk) Object.assign(h, { desk, etag: "", busy: false, again: false })
    const load = async () => {
      h.timer = undefined
      h.busy = true
      h.again = false
      const begun = performance.now()
      try {
        const got = await fetchTries(id, h.etag)
        if (h.desk !== desk) return
        if (got) {
          h.etag = got.etag
          const tries = await desk.loadTries(got.tables)
          if (h.desk === desk) set({ tries, desk })
        }
      } catch (err) {
        if (h.desk !== desk) return
        const problem = err instanceof Problem ? err : new Problem(0, "internal", String(err))
        if (problem.status === 0) h.again = true
        else set((s) => ({ ...s, problem }))
      } finally {
        if (h.desk === desk) {
          h.busy = false
          h.pause = Math.max(least, 2 * (performance.now() - begun))
          h.timer = setTimeout(() => {
            h.timer = undefined
            if (h.again) void load()
          }, h.pause)
        }
      }
    }
    if (h.busy || h.timer !== undefined) h.again = true
    else void load()
  }, [id, wanted, desk, version])
  useEffect(() => () => {
    clearTimeout(held.current.timer)
    held.current.desk = undefined
  }, [id])
  return useMemo(() => (state.desk === desk ? state : { problem: state.problem }), [state, desk])
}

async function fetchTries(id: string, etag: string): Promise<{ tables: ArrayBuffer[]; etag: string } | undefined> {
  const tables: ArrayBuffer[] = []
  let [total, tag] = [1, etag]
  for (let from = 0; from < Math.min(total, most); from += chunk) {
    const response = await fetchTable(`api/v1/executions/${encodeURIComponent(id)}/attempts.columns?from=${from}&limit=${chunk}`, from === 0 ? etag : "")
    if (response.status === 304) return undefined
    const buffer = await response.arrayBuffer()
    if (from === 0) {
      total = (JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, new DataView(buffer).getUint32(4, true)))) as { total: number }).total
      tag = response.headers.get("ETag") ?? ""
    }
    tables.push(buffer)
  }
  return { tables, etag: tag }
}
