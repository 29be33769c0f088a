// The state of an editor: the text that is the truth, what the server says of it, and edits of it.
import { useCallback, useEffect, useMemo, useRef, useState } from "react"
import { api, data, Problem, type Schemas } from "../../api/client"
import { Refusal, Source, type Edit } from "../../document/edits"
import { foretold } from "../../document/source"
import { complain } from "../../parts/Toasts"
import type { Text } from "./TextPane"

export type Plan = Schemas["PipelinePlan"]

const pause = 80 // ms after the last key before the server is asked
const rest = 1_000 // ms after the last key before the text is parsed here

/** Asked is a text that the server has been asked about. */
interface Asked { text: string; answer: Promise<Plan>; abort: AbortController }

function askPlan(text: string): Asked {
  const abort = new AbortController()
  const answer = data(api.POST("/api/v1/pipelines/plan", { body: { document: text as never }, signal: abort.signal }))
  answer.catch(() => { /* who waits for it sees it */ })
  return { text, answer, abort }
}

/** usePlan asks the server what a text means, after each pause in typing, and at once where more than a key has changed it; ahead asks
 * about a text that is about to be the text. Changed is when the text changed last, in ms since 1970. Graph is the last one that there was;
 * stale says that it is older than the text. */
export function usePlan(text: string, changed: React.RefObject<number>) {
  const [plan, setPlan] = useState<Plan>()
  const [graph, setGraph] = useState<Schemas["Draft"]>()
  const [planned, setPlanned] = useState<string>()
  const [problem, setProblem] = useState<Problem | null>(null)
  const before = useRef(text)
  const early = useRef<Asked>(undefined)
  const ahead = useCallback((next: string) => {
    early.current?.abort.abort()
    early.current = askPlan(next)
  }, [])
  useEffect(() => {
    let asked: Asked | undefined
    const take = (a: Asked) => {
      asked = a
      a.answer.then(
        (p) => {
          if (a.abort.signal.aborted) return
          setPlan(p)
          setProblem(null)
          setPlanned(text)
          if (p.graph) setGraph(p.graph)
        },
        (err) => { if (!a.abort.signal.aborted) setProblem(err instanceof Problem ? err : new Problem(0, "internal", String(err))) },
      )
    }
    const typed = Math.abs(text.length - before.current.length) <= 1
    before.current = text
    const known = early.current
    early.current = undefined
    if (known?.text === text) take(known)
    else known?.abort.abort()
    const timer = asked ? undefined : setTimeout(() => take(askPlan(text)), typed ? Math.min(pause, Math.max(0, changed.current + pause - Date.now())) : 0)
    return () => { clearTimeout(timer); asked?.abort.abort() }
  }, [text, changed])
  return { plan, graph, planned, problem, ahead, stale: plan !== undefined && !plan.graph }
}

// parsed parses a text when somebody wants to know, once, with what an edit asks first; undefined where it does not parse.
function parsed(text: string): () => Source | undefined {
  let found: { source?: Source } | undefined
  return () => {
    if (!found) {
      found = {}
      try {
        found.source = Source.of(text)
        found.source.steps()
        found.source.value()
      } catch {
        // the server says why
      }
    }
    return found.source
  }
}

/** useEdits gives what parses the text, and a function that applies an edit of it: a refusal is told with its place. Ahead hears of a text
 * before it is the text. */
export function useEdits(text: string, pane: React.RefObject<Text | null>, ahead: (text: string) => void) {
  const latest = useRef(text)
  latest.current = text
  const source = useMemo(() => parsed(text), [text])
  const opened = useRef(source)
  useEffect(() => { // an edit comes after a rest: it finds the text parsed
    if (source === opened.current && "requestIdleCallback" in window) {
      const idle = requestIdleCallback(source, { timeout: rest })
      return () => cancelIdleCallback(idle)
    }
    const timer = setTimeout(source, rest)
    return () => clearTimeout(timer)
  }, [source])
  const edit = useCallback(
    (make: (text: string) => Edit): boolean => {
      try {
        const made = foretold(ahead, () => make(latest.current)) // the server reads it while it is checked and drawn
        if (made.changes.length > 0) {
          pane.current?.apply(made)
          latest.current = made.text
        }
        return true
      } catch (err) {
        complain(err instanceof Refusal ? new Problem(0, "invalid", err.message, err.at !== undefined ? "the place is shown in the text" : "") : err)
        if (err instanceof Refusal && err.at !== undefined) pane.current?.reveal(err.at)
        return false
      }
    },
    [pane, ahead],
  )
  return { source, edit }
}

/** offsetOf is a line and column, counted in characters from 1, as an offset of a text. */
export function offsetOf(text: string, line: number, column: number): number {
  let at = 0
  for (let i = 1; i < line; i++) {
    const next = text.indexOf("\n", at)
    if (next < 0) return text.length
    at = next + 1
  }
  for (let i = 1; i < column && at < text.length; i++) at += text.codePointAt(at)! > 0xffff ? 2 : 1
  return at
}
