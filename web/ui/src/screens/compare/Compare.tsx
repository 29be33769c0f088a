import { Link, useLocation } from "wouter"
import { api, data, useAsk, type Schemas } from "../../api/client"
import { usePages } from "../../api/pages"
import { formatDuration, shortID } from "../../format"
import { Loaded } from "../../parts/Loading"
import { Rows, type Column } from "../../parts/Rows"
import { StateMark, StateWord } from "../../parts/State"
import { Moment } from "../../parts/Time"
import { useSearchParams } from "../../url"

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

const sorts = { change: "what changed", moved: "what took longer", key: "step" } as const
type Sort = keyof typeof sorts

/** Compare shows what differs between two executions: steps of one only, other states, attempts, durations, values. */
export default function Compare({ params }: { params: Record<string, string | undefined> }) {
  const [search, set] = useSearchParams()
  const [, navigate] = useLocation()
  const path = { execution_id: params.a!, other_id: params.b! }
  const sort: Sort = search.sort === "moved" || search.sort === "key" ? search.sort : "change"
  const all = search.all === "true"
  const ask = (cursor: string | undefined, limit: number, signal: AbortSignal) => data(api.GET("/api/v1/executions/{execution_id}/compare/{other_id}", { params: { path, query: { sort, all, cursor, limit } }, signal }))
  const whole = useAsk(["compare", path.execution_id, path.other_id], (signal) => ask(undefined, 1, signal))
  const steps = usePages(["compare", path.execution_id, path.other_id, sort, String(all)], async (cursor, signal) => {
    const page = await ask(cursor, 500, signal)
    return { rows: page.steps, next: page.next_cursor }
  }, { id: (s) => s.step_id })
  return (
    <div className="screen" data-full>
      <header>
        <h1>Compare</h1>
        <Link className="button" href={`/executions/${path.other_id}/compare/${path.execution_id}`}>Swap A and B</Link>
      </header>
      <Loaded of={whole} lines={4}>{(c) => <Both c={c} />}</Loaded>
      <div className="row" role="group" aria-label="Order of the steps">
        {(Object.keys(sorts) as Sort[]).map((s) => <button key={s} type="button" className="chip" aria-pressed={s === sort} onClick={() => set({ sort: s })}>{sorts[s]}</button>)}
        <button type="button" className="chip" aria-pressed={all} onClick={() => set({ all: all ? "" : "true" })}>also what is the same</button>
      </div>
      <Loaded of={steps.first} lines={6}>
        {() => (steps.rows ?? []).length > 0
          ? <div className="fill"><Rows label="Compared steps" rows={steps.rows!} columns={columns} keyOf={(s) => s.step_id} onOpen={(s) => navigate(`/executions/${s.b ? path.other_id : path.execution_id}?step=${encodeURIComponent(s.step_id)}`)} onEnd={steps.onEnd} onView={steps.onView} /></div>
          : <div className="empty"><h2>Every step did the same</h2><p>Same states and attempts in both executions.</p></div>}
      </Loaded>
    </div>
  )
}

function Both({ c }: { c: Schemas["Comparison"] }) {
  const facts = [c.definition_differs && "another definition", c.params_differ && "other parameters", c.outputs_differ && "other outputs"].filter(Boolean)
  return (
    <>
      <table className="table" aria-label="Executions">
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
      </table>
      <p>{facts.length > 0 ? `B has ${facts.join(", ")}.` : "Definition, parameters and outputs are the same."}</p>
    </>
  )
}
