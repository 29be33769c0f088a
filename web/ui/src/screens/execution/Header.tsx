import { Link } from "wouter"
import { formatCount, shortID } from "../../format"
import { Ago, Took, useNow } from "../../parts/Time"
import { StateMark, StateWord } from "../../parts/State"
import { byImportance, ended, lookOf } from "../../states"
import { paths } from "../../field/paths"
import { parts, pathOf, statesOf, togglePath, toggleState } from "../../selection/parse"
import { countStates } from "../../field/steps"
import { Actions } from "./Actions"
import { useGraph } from "./ask"
import { usePage } from "./page"
import { selectText } from "./selection"

/** Header says what the execution is, how it stands, and what can be done. */
export function Header() {
  const { id, x, live } = usePage()
  const now = useNow()
  const over = ended(x.status)
  const behind = Math.round((now - live.since) / 1000)
  return (
    <header className="x-head">
      <div className="x-title">
        <h1 className="clip">
          {x.workflow_id ? <Link href={`/pipelines/${x.workflow_id}`}>{x.pipeline}</Link> : x.pipeline}
          {x.workflow_version ? <span className="quiet"> #{x.workflow_version}</span> : null}
        </h1>
        <button type="button" className="button mono" data-kind="bare" title={`Copy ${id}`} aria-label={`Copy the id ${id}`} onClick={() => void navigator.clipboard?.writeText(id)}>{shortID(id)}</button>
        <strong className="x-status"><StateWord state={x.status} /></strong>
        <span className="x-took">{x.started_at ? <Took from={x.started_at} to={x.completed_at} /> : <>created <Ago time={x.created_at} /></>}</span>
        {x.started_at && <span className="quiet x-wide">started <Ago time={x.started_at} /></span>}
        <span className="quiet x-wide">{x.trigger_type}{x.triggered_by ? ` by ${x.triggered_by}` : ""}</span>
        {x.parent_id && <span className="quiet x-wide">retry of <Link href={`/executions/${x.parent_id}`}>{shortID(x.parent_id)}</Link></span>}
        {x.cost && <span className="quiet x-wide">cost {x.cost}</span>}
        {!over && (
          <span className="live" data-on={live.connected} role="status" title={live.connected ? "The page shows what happens now" : "The connection to the server is lost; it is tried again"}>
            <i aria-hidden="true" />{live.connected ? "live" : behind < 2 ? "connecting" : `${behind} s behind`}
          </span>
        )}
      </div>
      <Actions />
    </header>
  )
}

/** Counts are the steps by state; each is a filter. */
export function Counts() {
  const { id, x, at, field, selection, setSearch } = usePage()
  const all = parts(selection.expr)
  const states = all.map(statesOf).find((s) => s) ?? []
  const path = all.map(pathOf).find((p) => p)
  const graph = useGraph(id, [], at)
  const counts: Record<string, number> = {}
  if (field.steps) Object.assign(counts, countStates(field.steps))
  else for (const n of graph.data?.nodes ?? []) for (const [s, k] of Object.entries(n.states)) counts[s] = (counts[s] ?? 0) + k
  const shown = Object.keys(counts).sort(byImportance)
  const total = shown.reduce((sum, s) => sum + counts[s]!, 0)
  const done = shown.filter(ended).reduce((sum, s) => sum + counts[s]!, 0)
  const toggle = (state: string) => setSearch(selectText(toggleState(selection.text, state)))
  return (
    <div className="x-counts" role="group" aria-label="Steps by state">
      <span className="x-total">{formatCount(done)}<span className="quiet"> / {formatCount(total)}</span></span>
      {shown.map((s) => (
        <button key={s} type="button" className="x-count" aria-pressed={states.includes(s)} onClick={() => toggle(s)} title={`Show only what is ${lookOf(s).word}`}>
          <StateMark state={s} /> {formatCount(counts[s]!)} <span className="x-word">{lookOf(s).word}</span>
        </button>
      ))}
      {states.length > 0 && <button type="button" className="button" data-kind="bare" onClick={() => setSearch(selectText(states.reduce<string | undefined>((text, s) => toggleState(text, s), selection.text)))}>all states</button>}
      {path && <button type="button" className="button" aria-pressed="true" onClick={() => setSearch(selectText(togglePath(selection.text, undefined)))}>{paths[path]} ✕</button>}
      {x.held && <span className="note" data-kind="warn">{x.held}</span>}
      {x.breached && <span className="x-late">takes longer than its {x.breached === "maximum" ? "maximum" : "expected"} duration</span>}
      {x.abandoned > 0 && <span className="quiet">{x.abandoned} still to be stopped outside</span>}
      <div className="bar x-bar" role="img" aria-label={`${formatCount(done)} of ${formatCount(total)} steps have ended`}>
        {shown.map((s) => <i key={s} style={{ width: `${(100 * counts[s]!) / Math.max(1, total)}%`, background: `var(${lookOf(s).token})` }} />)}
      </div>
    </div>
  )
}
