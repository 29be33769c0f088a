import { Fragment } from "react"
import { Link } from "wouter"
import type { Schemas } from "../../api/client"
import { formatBytes, formatCount, formatDuration } from "../../format"
import { Loaded } from "../../parts/Loading"
import { Moment, Took } from "../../parts/Time"
import { StateWord } from "../../parts/State"
import { ended } from "../../states"
import type { Named } from "../../field/names"
import { LogView } from "../../log/LogView"
import { useGraph, useStep } from "./ask"
import { parseTry } from "../../field/tries"
import { AttemptFacts, Attempts, LogOfAttempt } from "./Attempts"
import { usePage } from "./page"
import { Why } from "./Why"

/** What a version of the past does not have. */
const ofNow = "Parameters and outputs are shown at “Now” only."

const parts = ["log", "params", "outputs", "attempts"] as const

/** Side is the panel of the selected step. */
export function Side({ step: key }: { step: string }) {
  const { id, x, at, search, setSearch, select, selectIndex, names } = usePage()
  const step = useStep(id, key, at)
  const graph = useGraph(id, [])
  const attempt = parseTry(search.attempt)
  const shown = parts.find((p) => p === search.side) ?? "log"
  return (
    <aside className="x-side" aria-label={`Step ${key}`}>
      <header>
        <h2 className="mono x-key" title={key}>{key}</h2>
        <button type="button" className="button" data-kind="bare" aria-label="Close the step" title="Close (Esc)" onClick={() => select(undefined)}>✕</button>
      </header>
      <Loaded of={step} lines={6}>
        {(s) => s === null ? <p className="note">There is no step {key}: what it is part of has not begun, or did not run.</p> : (
          <>
            <Facts of={s} onParent={() => s.parent && void names.locate(s.parent).then((i) => (i >= 0 ? selectIndex(i) : select(s.parent)))} />
            {attempt && <AttemptFacts step={key} attempt={attempt} />}
            <Why of={s} state={s.status} />
            <div className="tabs" role="group" aria-label="Of this step">
              {parts.map((p) => <button key={p} type="button" aria-pressed={p === shown} className="x-tab" onClick={() => setSearch({ side: p })}>{p}</button>)}
            </div>
            {shown === "log" && <>
              {attempt
                ? <LogOfAttempt key={`${key} ${search.attempt}`} step={key} attempt={attempt} version={graph.data?.version ?? 0} />
                : <LogView key={key} execution={id} step={key} live={!ended(x.status)} version={graph.data?.version ?? 0} started={x.started_at} />}
              <Link className="x-more" href={`/executions/${id}/log?step=${encodeURIComponent(key)}`}>Log on its own page</Link>
            </>}
            {shown === "params" && <Value of={s.params} none={at !== undefined ? ofNow : "Its parameters are those of the definition, or it has none."} />}
            {shown === "outputs" && <Value of={s.outputs} none={at !== undefined ? ofNow : ended(s.status) ? "It has no outputs." : "It has no outputs yet."} />}
            {shown === "attempts" && <Attempts of={s} />}
          </>
        )}
      </Loaded>
    </aside>
  )
}

function Facts({ of: s, onParent }: { of: Named; onParent: () => void }) {
  const facts: [string, React.ReactNode][] = []
  if (s.action) facts.push(["action", <span key="a" className="mono">{s.action}</span>])
  if (s.started_at) facts.push(["started", <Moment key="s" time={s.started_at} ms />])
  if (s.until && !ended(s.status)) facts.push([s.status === "retrying" ? "next attempt" : "until", <Moment key="u" time={s.until} />])
  if (s.worker_id) facts.push(["worker", <span key="w" className="mono">{s.worker_id}</span>])
  if (s.parent) facts.push(["inside", <button key="p" type="button" className="x-step-link mono" onClick={onParent}>{s.parent}</button>])
  if (s.cost) facts.push(["cost", s.cost])
  if (s.input_tokens || s.output_tokens) facts.push(["tokens", `${formatCount(s.input_tokens ?? 0)} in, ${formatCount(s.output_tokens ?? 0)} out`])
  const used = s.resources as Schemas["Resources"] | undefined
  if (used?.cpu_seconds) facts.push(["processor", formatDuration(used.cpu_seconds)])
  if (used?.max_rss_bytes) facts.push(["memory", formatBytes(used.max_rss_bytes)])
  if (s.items) facts.push(["items", `${formatCount(s.items.in)} in, ${formatCount(s.items.out)} out, ${formatCount(s.items.failed)} failed`])
  return (
    <>
      <div className="row x-side-state">
        <StateWord state={s.status} />
        {s.attempt > 0 && <span className="quiet">attempt {s.attempt}{s.attempts && s.attempts > 1 ? ` of ${s.attempts}` : ""}</span>}
        {s.started_at && <span className="quiet">{s.completed_at || !s.duration_ms ? <Took from={s.started_at} to={s.completed_at} /> : <Lasts of={s} />}</span>}
      </div>
      <dl className="x-facts">{facts.map(([name, value]) => <Fragment key={name}><dt>{name}</dt><dd>{value}</dd></Fragment>)}</dl>
    </>
  )
}

// Lasts is how long a step has taken until the moment that is shown.
function Lasts({ of: s }: { of: Named }) {
  const { at } = usePage()
  return at === undefined ? <Took from={s.started_at} to={null} /> : <>{formatDuration(s.duration_ms! / 1000)}</>
}

function Value({ of: value, none }: { of: unknown; none: string }) {
  if (value === undefined || value === null) return <p className="quiet">{none}</p>
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2)
  const most = 200_000
  return (
    <div className="x-value">
      <button type="button" className="button" data-kind="bare" onClick={() => void navigator.clipboard?.writeText(text)}>Copy</button>
      <pre tabIndex={0} aria-label="Value">{text.slice(0, most)}</pre>
      {text.length > most && <p className="quiet">{formatBytes(text.length)} in all; the first {formatBytes(most)} are shown. Copy has everything.</p>}
    </div>
  )
}
