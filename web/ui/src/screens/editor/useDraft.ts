// The state of an editor: the text that is the truth, what the server says of it, and edits of it.
import { useCallback, useEffect, useMemo, useRef, useState } from "react"
import { api, data, Problem, type Schemas } from "../../api/client"
import { Refusal, Source, type Edit } from "../../document/edits"
import { complain } from "../../parts/Toasts"
import type { Text } from "./TextPane"

export type Plan = Schemas["PipelinePlan"]

const pause = 120 // ms after the last key before the server is asked
const rest = 1_000 // ms after the last key before the text is parsed here

/** usePlan asks the server what a text means, after each pause in typing, and at once where more than a key has changed it. Graph is the last one that there was; stale says that it is older than the text. */
export function usePlan(text: string) {
  const [plan, setPlan] = useState<Plan>()
  const [graph, setGraph] = useState<Schemas["Draft"]>()
  const [planned, setPlanned] = useState<string>()
  const [problem, setProblem] = useState<Problem | null>(null)
  const asked = useRef(text)
  useEffect(() => {
    const abort = new AbortController()
    const typed = Math.abs(text.length - asked.current.length) <= 1
    asked.current = text
    const timer = setTimeout(() => {
      data(api.POST("/api/v1/pipelines/plan", { body: { document: text as never }, signal: abort.signal })).then(
        (p) => {
          setPlan(p)
          setProblem(null)
          setPlanned(text)
          if (p.graph) setGraph(p.graph)
        },
        (err) => { if (!abort.signal.aborted) setProblem(err instanceof Problem ? err : new Problem(0, "internal", String(err))) },
      )
    }, typed ? pause : 0)
    return () => { clearTimeout(timer); abort.abort() }
  }, [text])
  return { plan, graph, planned, problem, stale: plan !== undefined && !plan.graph }
}

// parsed parses a text when somebody wants to know, once; undefined where it does not parse.
function parsed(text: string): () => Source | undefined {
  let found: { source?: Source } | undefined
  return () => {
    if (!found) {
      found = {}
      try {
        found.source = Source.of(text)
      } catch {
        // the server says why
      }
    }
    return found.source
  }
}

/** useEdits gives what parses the text, and a function that applies an edit of it: a refusal is told with its place. */
export function useEdits(text: string, pane: React.RefObject<Text | null>) {
  const latest = useRef(text)
  latest.current = text
  const source = useMemo(() => parsed(text), [text])
  useEffect(() => { // an edit comes after a rest: it finds the text parsed
    const timer = setTimeout(source, rest)
    return () => clearTimeout(timer)
  }, [source])
  const edit = useCallback(
    (make: (text: string) => Edit): boolean => {
      try {
        const { changes } = make(latest.current)
        if (changes.length > 0) pane.current?.apply(changes)
        return true
      } catch (err) {
        complain(err instanceof Refusal ? new Problem(0, "invalid", err.message, err.at !== undefined ? "the place is shown in the text" : "") : err)
        if (err instanceof Refusal && err.at !== undefined) pane.current?.reveal(err.at)
        return false
      }
    },
    [pane],
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
