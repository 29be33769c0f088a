import { Link } from "wouter"
import { api, data, useAsk, type Schemas } from "../../api/client"
import { formatCount, formatDuration, shortID } from "../../format"
import { Button } from "../../parts/Button"
import { Loaded } from "../../parts/Loading"
import { save } from "../../parts/save"
import { StateWord } from "../../parts/State"
import { Ago } from "../../parts/Time"
import { csvOf } from "./csv"
import { sinceOf } from "./Insight"

type Promises = Schemas["Promises"]

const forecasts: Record<string, string> = { breached: "too long already", late: "will take too long", in_time: "in time", unknown: "no estimate yet" }

/** SLA shows promised and real durations, who broke a promise, and who will. Its key begins with "executions": it is asked again when one changes. */
export function SLA({ days }: { days: number }) {
  const asked = useAsk(["executions", "sla", days], (signal) => data(api.GET("/api/v1/stats/sla", { params: { query: { from: sinceOf(days) } }, signal })))
  return (
    <Loaded of={asked} lines={6}>{(p) => p.pipelines.length + p.breaches.length + p.running.length === 0 ? (
      <div className="empty">
        <h2>No execution of this time has an SLA</h2>
        <p>A pipeline promises a duration in its settings. One that takes longer goes on, and is listed here.</p>
        <pre>settings:{"\n"}  sla: {"{"}expected_seconds: 600, max_seconds: 3600{"}"}</pre>
      </div>
    ) : (
      <>
        {p.running.length > 0 && <Running rows={p.running} />}
        {p.pipelines.length > 0 && <Kept of={p} days={days} />}
        {p.breaches.length > 0 && <Broken rows={p.breaches} />}
        {!p.complete && <p className="quiet">There is more than is shown here: choose less time.</p>}
      </>
    )}</Loaded>
  )
}

const promised = (r: { expected_seconds?: number; max_seconds?: number }) => [r.expected_seconds && formatDuration(r.expected_seconds), r.max_seconds && `at most ${formatDuration(r.max_seconds)}`].filter(Boolean).join(", ")
const pipeline = (r: { pipeline_id: string; pipeline: string }) => (r.pipeline_id ? <Link href={`/pipelines/${r.pipeline_id}`}>{r.pipeline}</Link> : <>{r.pipeline}</>)
const execution = (id: string) => <Link href={`/executions/${id}`} className="mono" title={id}>{shortID(id)}</Link>

function Running({ rows }: { rows: Promises["running"] }) {
  const will = rows.filter((r) => r.forecast === "breached" || r.forecast === "late").length
  return (
    <section className="card" aria-labelledby="sla-running">
      <header><h2 id="sla-running">Running</h2><span className={will ? "bad" : "quiet"}>{will === 0 ? "none takes longer than promised" : `${will} of ${rows.length} will not keep the promise`}</span></header>
      <div className="insight-scroll" tabIndex={0} role="region" aria-label="Running executions with an SLA">
        <table className="table">
          <thead><tr><th>Execution</th><th>Pipeline</th><th>Forecast</th><th className="num">Runs for</th><th className="num">Still takes</th><th>Promised</th></tr></thead>
          <tbody>{rows.map((r) => (
            <tr key={r.execution_id}>
              <td>{execution(r.execution_id)}</td><td>{pipeline(r)}</td>
              <td className={r.forecast === "breached" || r.forecast === "late" ? "bad" : undefined}>{forecasts[r.forecast] ?? r.forecast}</td>
              <td className="num">{formatDuration(r.elapsed_seconds)}</td><td className="num">{formatDuration(r.eta_seconds)}</td><td>{promised(r)}</td>
            </tr>
          ))}</tbody>
        </table>
      </div>
    </section>
  )
}

function Kept({ of: p, days }: { of: Promises; days: number }) {
  const csv = () => save([csvOf(["pipeline_id", "pipeline", "expected_seconds", "max_seconds", "ended", "breached", "breached_maximum", "mean_seconds"],
    p.pipelines.map((r) => [r.pipeline_id, r.pipeline, r.expected_seconds ?? "", r.max_seconds ?? "", r.ended, r.breached, r.breached_maximum, r.mean_seconds]))], `sla-${days}-days.csv`, "text/csv")
  return (
    <section className="card" aria-labelledby="sla-kept">
      <header><h2 id="sla-kept">Promised and real</h2><Button onClick={csv}>Export CSV</Button></header>
      <div className="insight-scroll" tabIndex={0} role="region" aria-label="Promised and real durations">
        <table className="table">
          <thead><tr><th>Pipeline</th><th>Promised</th><th className="num">On average</th><th className="num">Ended</th><th className="num">Too long</th><th className="num">Beyond the maximum</th><th className="num">Kept</th></tr></thead>
          <tbody>{p.pipelines.map((r, i) => (
            <tr key={i}>
              <td>{pipeline(r)}</td><td>{promised(r)}</td><td className="num">{formatDuration(r.mean_seconds)}</td><td className="num">{formatCount(r.ended)}</td>
              <td className={r.breached ? "num bad" : "num"}>{formatCount(r.breached)}</td><td className="num">{formatCount(r.breached_maximum)}</td>
              <td className="num">{((100 * (r.ended - r.breached)) / Math.max(1, r.ended)).toFixed(1)} %</td>
            </tr>
          ))}</tbody>
        </table>
      </div>
    </section>
  )
}

function Broken({ rows }: { rows: Promises["breaches"] }) {
  return (
    <section className="card" aria-labelledby="sla-broken">
      <header><h2 id="sla-broken">Took longer than promised</h2><span className="quiet">the newest first</span></header>
      <div className="insight-scroll" tabIndex={0} role="region" aria-label="Executions that took longer than promised">
        <table className="table">
          <thead><tr><th>Execution</th><th>Pipeline</th><th>State</th><th>Ended</th><th className="num">Took</th><th>Promised</th></tr></thead>
          <tbody>{rows.map((r) => (
            <tr key={r.execution_id + r.ended_at}>
              <td>{execution(r.execution_id)}</td><td>{pipeline(r)}</td><td><StateWord state={r.status} /></td><td><Ago time={r.ended_at} /></td><td className="num">{formatDuration(r.took_seconds)}</td><td>{promised(r)}</td>
            </tr>
          ))}</tbody>
        </table>
      </div>
    </section>
  )
}
