// The selection of steps of an execution: one text in the address, which graph, waterfall, fan, table, chips and keys share.
import { useEffect, useMemo, useRef, useState } from "react"
import { Problem } from "../../api/client"
import { decode } from "../../field/columns"
import type { Steps } from "../../field/steps"
import { evaluate, needsKeys } from "../../selection/evaluate"
import { readKeys, type Keys } from "../../selection/keys"
import { join, parse, quote, statesOf, type Expr, type Fault } from "../../selection/parse"
import type { Search } from "../../url"
import { fetchTable } from "./field"

export interface Selection {
  text: string
  expr?: Expr
  fault?: Fault
  /** 1 for each step that is selected; undefined: all are, or it is not known yet. */
  mask?: Uint8Array
  /** The names of steps are being asked for. */
  waits: boolean
  problem?: Problem
  /** The states of a selection that is nothing but some of them. */
  states?: string[]
}

/** textOf is the selection of an address, also of one of before there was one text for all of it. */
export function textOf(search: Search): string {
  if (search.sel !== undefined) return search.sel
  const all: Expr[] = []
  const add = (text: string | undefined) => {
    const { expr } = parse(text ?? "")
    if (expr) all.push(expr)
  }
  add(search.state?.split(",").filter(Boolean).join(" | "))
  if (search.path === "critical") add("critical")
  if ((search.path === "up" || search.path === "down") && search.step) all.push({ kind: "flow", up: search.path === "up", down: search.path === "down", of: { kind: "match", field: "step", pattern: search.step } })
  if (search.t) add(quote(search.t))
  return join(all) ?? ""
}

/** selectText changes an address so that it selects by a text. */
export const selectText = (text: string | undefined): Search => ({ sel: text || undefined, state: undefined, path: undefined, t: undefined })

/** useSelection works out what is selected: once for each text and each change of the steps. */
export function useSelection(id: string, search: Search, steps: Steps | undefined, inside: boolean): Selection {
  const text = textOf(search)
  const read = useMemo(() => parse(text), [text])
  const { expr } = read
  const { keys, problem } = useKeys(id, steps, inside || (expr !== undefined && needsKeys(expr)))
  const mask = useMemo(() => (expr && steps && (keys || !needsKeys(expr)) ? evaluate(expr, steps, keys) : undefined), [expr, steps, keys])
  return useMemo(() => ({ text, ...read, mask, waits: expr !== undefined && mask === undefined && !problem, problem, states: expr && statesOf(expr) }), [text, read, expr, mask, problem])
}

const chunk = 100_000
const pause = 1000 // ms between two requests

/** useKeys has the keys of all steps, once they are wanted; again when there are more steps. */
export function useKeys(id: string, steps: Steps | undefined, wanted: boolean): { keys?: Keys; problem?: Problem } {
  const [state, set] = useState<{ id: string; keys?: Keys; problem?: Problem }>({ id })
  const held = useRef({ id, there: -1, n: 0, had: -1, busy: false, timer: undefined as ReturnType<typeof setTimeout> | undefined })
  const there = useMemo(() => (wanted && steps ? present(steps) : -1), [steps, wanted])
  const n = steps?.n ?? 0
  useEffect(() => {
    const h = held.current
    if (h.id !== id) Object.assign(h, { id, had: -1, busy: false })
    Object.assign(h, { there, n })
    const load = async () => {
      h.timer = undefined
      h.busy = true
      const wants = h.there
      try {
        const tables = []
        for (let from = 0; from < h.n; from += chunk) {
          const response = await fetchTable(`api/v1/executions/${encodeURIComponent(id)}/field?columns=key,action,queue&from=${from}&limit=${chunk}`, "")
          tables.push(decode(await response.arrayBuffer()))
        }
        if (h.id !== id) return
        h.had = wants
        set({ id, keys: readKeys(tables) })
      } catch (err) {
        const problem = err instanceof Problem ? err : new Problem(0, "internal", String(err))
        if (problem.status !== 0) h.had = wants // asked for again when there are more
        if (h.id === id && problem.status !== 0) set((s) => ({ ...s, problem }))
      } finally {
        h.busy = false
        if (h.id === id && h.there > h.had) h.timer = setTimeout(() => void load(), pause)
      }
    }
    if (there > h.had && !h.busy && h.timer === undefined) h.timer = setTimeout(() => void load(), h.had < 0 ? 0 : pause)
  }, [id, there, n])
  useEffect(() => () => {
    clearTimeout(held.current.timer)
    Object.assign(held.current, { id: "", timer: undefined })
  }, [])
  return state.id === id ? state : {}
}

function present(steps: Steps): number {
  const absent = steps.states.indexOf("absent")
  let there = 0
  for (let i = 0; i < steps.n; i++) if (steps.status[i] !== absent) there++
  return there
}

/** around marks the steps that are selected, or have such inside. */
export function around(mask: Uint8Array, steps: Steps): Uint8Array {
  const out = new Uint8Array(mask)
  for (let i = 0; i < steps.n; i++) {
    if (!mask[i]) continue
    for (let p = steps.parent[i]!, depth = 0; p > 0 && depth < 64 && !out[p - 1]; p = steps.parent[p - 1]!, depth++) out[p - 1] = 1
  }
  return out
}
