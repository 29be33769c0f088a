import { useEffect, useState } from "react"
import { Link } from "wouter"
import { api, data, useAsk, type Schemas } from "../../api/client"
import { usePages } from "../../api/pages"
import { formatDuration, shortID } from "../../format"
import { Loaded } from "../../parts/Loading"
import { Rows, type Column } from "../../parts/Rows"
import { StateMark, StateWord } from "../../parts/State"
import { Moment } from "../../parts/Time"
import { useSearchParams } from "../../url"
import { Definitions, Details, Whole } from "./Details"
import "./compare.css"

type Step = Schemas["ComparedStep"]
type Side = Schemas["StepOf"]

const side = (s: Side | undefined) => s ? <span className="state"><StateMark state={s.status} />{s.status.replaceAll("_", " ")}{s.attempt > 1 && <span className="quiet"> {s.attempt} attempts</span>}</span> : <span className="quiet">not there</span>

const signed = (ms: number) => (ms === 0 ? "±0" : (ms > 0 ? "+" : "−") + formatDuration(Math.abs(ms) / 1000))

const differs = (s: Step) => [s.params_differ && "params", s.outputs_differ && "outputs", s.definition_differs && "definition"].filter(Boolean).join(", ")

const columns: Column<Step>[] = [
  { title: "Step", width: "minmax(140px, 2fr)", show: (s) => <code>{s.step_id}</code> },
  { title: "A", width: "minmax(110px, 1fr)", show: (s) => side(s.a) },
  { title: "B", width: "minmax(110px, 1fr)", show: (s) => side(s.b) },
  { title: "Longer in B", width: "110px", from: 700, show: (s) => signed(s.moved_ms) },
  { title: "×", width: "64px", from: 900, show: (s) => (s.times ? s.times.toFixed(s.times < 10 ? 1 : 0) : "–") },
  { title: "Differs", width: "minmax(100px, 1fr)", from: 700, show: (s) => differs(s) },
]

const most = 500 // steps of a page

const sorts = { moved: "what moved the total", change: "what changed", key: "step" } as const
type Sort = keyof typeof sorts

/** Compare shows what differs between two executions: steps of one only, other states, attempts, durations; of a chosen one its values and
 * its log; and the texts of the definitions. */
export default function Compare({ params }: { params: Record<string, string | undefined> }) {
  const [search, set] = useSearchParams()
  const path = { execution_id: params.a!, other_id: params.b! }
  const sort: Sort = search.sort === "change" || search.sort === "key" ? search.sort : "moved"
  const all = search.all === "true"
  const ask = (cursor: string | undefined, limit: number, signal: AbortSignal) => data(api.GET("/api/v1/executions/{execution_id}/compare/{other_id}", { params: { path, query: { sort, all, effects: !all, cursor, limit } }, signal }))
  const whole = useAsk(["compare", path.execution_id, path.other_id], (signal) => ask(undefined, 1, signal))
  const steps = usePages(["compare", path.execution_id, path.other_id, sort, String(all)], async (cursor, signal) => {
    const page = await ask(cursor, most, signal)
    return { rows: page.steps, next: page.next_cursor }
  }, { id: (s) => s.step_id })
  // A page may be empty where many steps are the same: the next is asked for until some are there.
  const few = (steps.rows?.length ?? most) < 20
  useEffect(() => { if (few && steps.more) steps.onEnd() }, [few, steps.more, steps.rows])
  return (
    <div className="screen" data-full>
      <header>
        <h1>Compare</h1>
        <Link className="button" href={`/executions/${path.other_id}/compare/${path.execution_id}`}>Swap A and B</Link>
      </header>
      <Loaded of={whole} lines={4}>{(c) => <Both c={c} />}</Loaded>
      {search.step && <Details key={search.step} step={search.step} a={path.execution_id} b={path.other_id} />}
      <div className="row" role="group" aria-label="Order of the steps">
        {(Object.keys(sorts) as Sort[]).map((s) => <button key={s} type="button" className="chip" aria-pressed={s === sort} onClick={() => set({ sort: s })}>{sorts[s]}</button>)}
        <button type="button" className="chip" aria-pressed={all} onClick={() => set({ all: all ? "" : "true" })}>also steps that are the same</button>
      </div>
      <Loaded of={steps.first} lines={6}>
        {() => (steps.rows ?? []).length > 0
          ? <div className="fill"><Rows label="Compared steps" rows={steps.rows!} columns={columns} keyOf={(s) => s.step_id} selected={search.step} onOpen={(s) => set({ step: search.step === s.step_id ? "" : s.step_id, part: search.part ?? (s.outputs_differ ? "outputs" : s.params_differ ? "params" : s.a?.status !== s.b?.status ? "error" : "log") })} onEnd={steps.onEnd} onView={steps.onView} /></div>
          : <div className="empty"><h2>{steps.more ? "Looking for steps that differ …" : "Every step came to the same state"}</h2><p>Same states, attempts and outputs in both executions{steps.more && ", so far"}.</p></div>}
      </Loaded>
    </div>
  )
}

function Both({ c }: { c: Schemas["Comparison"] }) {
  const facts = [c.definition_differs && "another definition", c.params_differ && "other parameters", c.outputs_differ && "other outputs"].filter(Boolean)
  return (
    <>
      <div className="scroll" role="group" aria-label="Both" tabIndex={0}><table className="table" aria-label="Executions">
        <thead><tr><th /><th>Pipeline</th><th>State</th><th>Started</th><th>Took</th></tr></thead>
        <tbody>
          {([["A", c.a], ["B", c.b]] as const).map(([name, x]) => (
            <tr key={name}>
              <td>{name}</td>
              <td><Link href={`/executions/${x.execution_id}`}>{x.pipeline} {shortID(x.execution_id)}</Link></td>
              <td><StateWord state={x.status} /></td>
              <td><Moment time={x.started_at} /></td>
              <td>{x.started_at && x.completed_at ? formatDuration((Date.parse(x.completed_at) - Date.parse(x.started_at)) / 1000) : "–"}</td>
            </tr>
          ))}
        </tbody>
      </table></div>
      <p>{facts.length > 0 ? `B has ${facts.join(", ")}.` : "Definition, parameters and outputs are the same."}</p>
      {c.definition_differs && <Folded title="What differs in the definition"><Definitions a={c.a.execution_id} b={c.b.execution_id} /></Folded>}
      {c.params_differ && <Folded title="What differs in the parameters"><Whole a={c.a.execution_id} b={c.b.execution_id} of="params" /></Folded>}
      {c.outputs_differ && <Folded title="What differs in the outputs"><Whole a={c.a.execution_id} b={c.b.execution_id} of="result" /></Folded>}
    </>
  )
}

// Folded asks for what is in it when it is opened.
function Folded({ title, children }: { title: string; children: React.ReactNode }) {
  const [open, set] = useState(false)
  return <details open={open} onToggle={(e) => set(e.currentTarget.open)}><summary>{title}</summary>{open && children}</details>
}
