// Decodes, arranges and indexes the steps of an execution beside the page, so that it never waits for it.
import { decode, type Table } from "./columns"
import { arrange, type Layout, type Spec } from "./layouts"
import { join, patch, type Steps } from "./steps"
import { joinTries, type Tries } from "./tries"

/** Then are the states and times of a moment. */
export type Then = Pick<Steps, "status" | "start" | "duration">

export type Ask = { id: number; tables: ArrayBuffer[] } | { id: number; tries: ArrayBuffer[] } | { id: number; spec: Spec; then?: Then } | { patch: ArrayBuffer }
export type Answer = { id: number; steps: Steps } | { id: number; tries: Tries } | { id: number; layout: Layout } | { id: number; error: string }

let steps: Steps | undefined
let tries: Tries | undefined

const buffersOf = (of: object): ArrayBuffer[] => [...new Set(Object.values(of).filter((v) => ArrayBuffer.isView(v)).map((v) => v.buffer as ArrayBuffer))]

self.onmessage = ({ data }: MessageEvent<Ask>) => {
  const answer = (a: Answer, transfer: ArrayBuffer[] = []) => (self as unknown as Worker).postMessage(a, transfer)
  if ("patch" in data) {
    if (steps) patch(steps, decode(data.patch))
    return
  }
  try {
    if ("tables" in data) {
      steps = join(data.tables.map((b): Table => decode(b)))
      answer({ id: data.id, steps }) // copied: the worker keeps its own for layouts
      return
    }
    if ("tries" in data) {
      tries = joinTries(data.tries.map((b): Table => decode(b)))
      answer({ id: data.id, tries })
      return
    }
    if (!steps) throw new Error("there are no steps to arrange yet")
    const layout = arrange(data.then ? { ...steps, ...data.then } : steps, data.spec, tries)
    answer({ id: data.id, layout }, [...buffersOf(layout), ...buffersOf(layout.index), ...buffersOf(layout.spans ?? {})])
  } catch (err) {
    answer({ id: data.id, error: err instanceof Error ? err.message : String(err) })
  }
}
