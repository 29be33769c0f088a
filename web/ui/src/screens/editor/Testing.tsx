// Tests of a draft: it runs up to a step, with results of a past execution for the steps before, and what came out stands at the steps.
import { useEffect, useRef, useState } from "react"
import { Link } from "wouter"
import { api, data, useAsk, useDo } from "../../api/client"
import { valuesOf } from "../../document/params"
import { formatMoment, shortID } from "../../format"
import { Dialog } from "../../parts/Dialog"
import { PickField } from "../../parts/Fields"
import { Loaded } from "../../parts/Loading"
import { Button } from "../../parts/Button"
import { StateWord } from "../../parts/State"
import { Took } from "../../parts/Time"
import { byImportance, ended, lookOf } from "../../states"
import { useDetail, useGraph, useLiveExecution, useStep } from "../execution/ask"
import { ParamsForm } from "../run/ParamsForm"
import { useParameters } from "../run/useParameters"
import type { DraftNode } from "./arrange"

/** topOf is the step at the top level that a node is inside of: up to there a part can run. */
export function topOf(nodes: readonly DraftNode[], id: string | undefined): string {
  let n = nodes.find((x) => x.id === id)
  for (let i = 0; n?.parent && i < 100; i++) { const parent: string = n.parent; n = nodes.find((x) => x.id === parent) }
  return n && n.kind !== "handler" ? (n.step_id ?? n.id) : ""
}

interface Props { text: string; name: string; nodes: readonly DraftNode[]; until: string; onStarted: (execution: string) => void; onClose: () => void }

/** TestDialog runs the text as it is; it is not stored. */
export function TestDialog({ text, name, nodes, until: first, onStarted, onClose }: Props) {
  const { params } = useParameters(text)
  const [texts, setTexts] = useState<Record<string, string>>({})
  const [until, setUntil] = useState(first)
  const [seed, setSeed] = useState("")
  const [tried, setTried] = useState(false)
  const { values, problems } = valuesOf(params, texts)
  const past = useAsk(["executions", "past", name], async (signal) => (await data(api.GET("/api/v1/executions", { params: { query: { pipeline: name, limit: 50 } }, signal }))).executions.filter((x) => ended(x.status)), { enabled: name !== "" })
  const key = useRef(crypto.randomUUID()) // the same attempt sent twice starts one execution
  const start = useDo(() => data(api.POST("/api/v1/execute", {
    params: { header: { "Idempotency-Key": key.current } },
    body: { workflow_definition: text, params: values, until: until || undefined, seed: seed ? { execution_id: seed } : undefined },
  })), [["executions"], ["stats"]])
  const go = () => {
    setTried(true)
    if (Object.keys(problems).length === 0) start.mutate(undefined, { onSuccess: (x) => onStarted(x.execution_id), onError: (p) => { if (p.status !== 0) key.current = crypto.randomUUID() } })
  }
  const steps = nodes.filter((n) => !n.parent && n.kind !== "handler").map((n) => n.step_id ?? n.id)
  return (
    <Dialog title="Test this text" does="Run the test" busy={start.isPending} problem={start.error} onClose={onClose} onDo={go}>
      <p className="quiet">It runs as it is here, with real actions, and is not stored. Handlers run at the end.</p>
      <PickField label="Up to" value={until} onChange={setUntil} choices={[["", "the end"], ...steps.map((s) => [s, s] as const)]} hint="with the steps before it; others are skipped" />
      <Loaded of={past} lines={1}>
        {(list) => <PickField label="Results of steps before" value={seed} onChange={setSeed} choices={[["", "from this test: all of them run"], ...list.map((x) => [x.execution_id, `${formatMoment(x.created_at ?? "")} ${lookOf(x.status).word} ${shortID(x.execution_id)}`] as const)]} hint={list.length === 0 ? `no execution of ${name} has ended` : "of a past execution: what completed in it is taken over"} />}
      </Loaded>
      <ParamsForm params={params} texts={texts} problems={tried ? problems : {}} onChange={setTexts} />
    </Dialog>
  )
}

interface BarProps { execution: string; nodes: readonly DraftNode[]; older: boolean; onStates: (states: ReadonlyMap<string, string>) => void; onClose: () => void }

/** TestBar follows a test, and says the state of every step to the graph. */
export function TestBar({ execution: id, nodes, older, onStates, onClose }: BarProps) {
  const detail = useDetail(id)
  const x = detail.data
  useLiveExecution(id, x?.status)
  const around = nodes.filter((n) => nodes.some((c) => c.parent === n.id)).map((n) => n.id)
  const graph = useGraph(id, around.slice(0, 50))
  useEffect(() => {
    onStates(new Map((graph.data?.nodes ?? []).map((n) => [n.id, n.status ?? Object.keys(n.states).sort(byImportance)[0] ?? "pending"])))
    return () => onStates(new Map())
  }, [graph.data, onStates])
  return (
    <div className="editor-test row" role="region" aria-label="Test">
      <strong>Test</strong>
      <Loaded of={detail} lines={1}>{(d) => <><StateWord state={d.status} />{d.started_at && <span className="quiet"><Took from={d.started_at} to={d.completed_at} /></span>}</>}</Loaded>
      {older && <span className="quiet">The text has changed since.</span>}
      <Link href={`/executions/${id}`}>Open the execution</Link>
      <span className="grow" />
      <Button kind="bare" onClick={onClose}>Close the test</Button>
    </div>
  )
}

/** TestResult is what a step of a test gave. */
export function TestResult({ execution, step }: { execution: string; step: string }) {
  const found = useStep(execution, step)
  return (
    <Loaded of={found}>
      {(s) => s === null ? <p className="quiet">The step is not part of the test, or has not begun.</p> : (
        <>
          <div className="row"><StateWord state={s.status} />{s.started_at && <span className="quiet"><Took from={s.started_at} to={s.completed_at} /></span>}</div>
          {s.error && <p className="note" data-kind="warn">{s.error.message}</p>}
          <pre className="test-value" tabIndex={0} aria-label="Outputs">{s.outputs === undefined || s.outputs === null ? (ended(s.status) ? "It has no outputs." : "It has no outputs yet.") : JSON.stringify(s.outputs, null, 2).slice(0, 100_000)}</pre>
        </>
      )}
    </Loaded>
  )
}
