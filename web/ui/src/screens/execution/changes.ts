// The changes of an execution, fetched when somebody goes back in time, and the steps as they were.
import { useEffect, useRef, useState } from "react"
import { Problem, send } from "../../api/client"
import { decode } from "../../field/columns"
import { Replay } from "../../replay/replay"
import type { FieldState } from "./field"

export interface Changes {
  /** undefined: not there yet, or they cannot be had. */
  replay?: Replay
  /** They cannot be had: moments are asked for one by one. */
  failed: boolean
}

/** useChanges has the changes up to a version at least, once one is asked for. */
export function useChanges(id: string, version: number | undefined): Changes {
  const [state, set] = useState<Changes>({ failed: false })
  const held = useRef<{ id: string; replay: Replay; busy: boolean }>(undefined)
  useEffect(() => {
    if (version === undefined) return
    if (held.current?.id !== id) held.current = { id, replay: new Replay(), busy: false }
    const h = held.current
    if (h.busy || version <= h.replay.version) return
    h.busy = true
    const read = async () => {
      do {
        const response = await send(`api/v1/executions/${encodeURIComponent(id)}/events.columns?from=${h.replay.count}`)
        h.replay.add(decode(await response.arrayBuffer()))
      } while (h.replay.count < h.replay.total)
    }
    read().then(
      () => { if (held.current === h) set({ replay: h.replay, failed: h.replay.version < version }) },
      (err: unknown) => { if (held.current === h && !(err instanceof Problem && err.status === 0)) set({ failed: true }) },
    ).finally(() => { h.busy = false })
  }, [id, version])
  return state
}

/** useThen gives the steps of now as they were at a version. Until the changes are there, what was shown last stays. */
export function useThen(now: FieldState, changes: Changes, version: number | undefined): FieldState {
  const last = useRef<{ of: FieldState; replay: Replay; version: number; out: FieldState }>(undefined)
  const before = useRef<FieldState>({})
  if (version === undefined || changes.failed) {
    last.current = undefined
    return (before.current = now)
  }
  const { replay } = changes
  if (!replay || !now.steps) return { ...before.current, problem: now.problem }
  const kept = last.current
  if (kept && kept.of.steps === now.steps && kept.replay === replay && kept.version === version) return kept.out
  const out: FieldState = { ...now, steps: replay.show(now.steps, version), now: now.steps }
  last.current = { of: now, replay, version, out }
  return (before.current = out)
}
