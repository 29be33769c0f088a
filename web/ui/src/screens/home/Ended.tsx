import { api, data, useAsk, type Schemas } from "../../api/client"
import { formatCount, formatDuration } from "../../format"
import { Loaded } from "../../parts/Loading"
import { daysOf, sumOf, type Day } from "./days"
import "./ended.css"

const days = 14

/** Ended shows how executions ended day by day: how many, which share completed, how long they took, what they cost. */
export function Ended({ pipeline }: { pipeline?: string }) {
  const stats = useAsk(["executions", "stats", pipeline ?? ""], (signal) => data(api.GET("/api/v1/stats/executions", { params: { query: { bucket: "day", pipeline_id: pipeline } }, signal })))
  return (
    <section className="card" aria-labelledby="ended">
      <header><h2 id="ended">The last {days} days</h2><span className="quiet">days in UTC</span></header>
      <Loaded of={stats} lines={3}>{(s) => <Body of={s} />}</Loaded>
    </section>
  )
}

function Body({ of: s }: { of: Schemas["ExecutionStats"] }) {
  const list = daysOf(s)
  const all = sumOf(s.buckets)
  if (all.ended === 0) return <p className="body quiet">No execution has ended in this time.</p>
  return (
    <div className="body">
      <p><b>{share(all.completed, all.ended)}</b> of {formatCount(all.ended)} completed{withFailures(all)}, {formatCount(all.bad)} failed or ran out of time{all.cost > 0 ? <>, cost {all.cost.toFixed(2)}</> : null}.{!s.complete && " There are more counts than are read here."}</p>
      <div className="ended">
        <Bars name="Completed, and not" days={list} top={Math.max(...list.map((d) => d.ended))} parts={(d) => [["--state-completed", d.completed], ["--state-grey", d.ended - d.completed - d.bad], ["--state-failed", d.bad]]} say={(d) => (d.ended ? `${share(d.completed, d.ended)} of ${formatCount(d.ended)} completed${withFailures(d)}, ${formatCount(d.bad)} failed` : "none")} />
        <Bars name="Failed or out of time" days={list} top={Math.max(...list.map((d) => d.bad))} parts={(d) => [["--state-failed", d.bad]]} say={(d) => formatCount(d.bad)} />
        <Bars name="95 % took at most" days={list} top={Math.max(...list.map((d) => d.p95 ?? 0))} parts={(d) => [["--accent", d.p95 ?? 0]]} say={(d) => (d.p95 === undefined ? "none completed" : formatDuration(d.p95))} />
      </div>
    </div>
  )
}

const withFailures = (d: { withFailures: number }) => (d.withFailures > 0 ? ` (${formatCount(d.withFailures)} with failures)` : "")

const share = (n: number, of: number) => `${((100 * n) / Math.max(1, of)).toFixed(n === of ? 0 : 1)} %`

interface BarsProps { name: string; days: Day[]; top: number; parts: (d: Day) => [token: string, n: number][]; say: (d: Day) => string }

// A table for those who do not see the bars.
function Bars({ name, days: list, top, parts, say }: BarsProps) {
  return (
    <figure>
      <figcaption>{name}</figcaption>
      <div className="ended-bars" aria-hidden="true">
        {list.map((d) => (
          <span key={d.day} title={`${d.day}: ${say(d)}`}>
            {parts(d).filter(([, n]) => n > 0).map(([token, n]) => <i key={token} style={{ height: `${Math.max(2, (40 * n) / Math.max(top, 1e-9))}px`, background: `var(${token})` }} />)}
          </span>
        ))}
      </div>
      <table className="hidden-text">
        <caption>{name}</caption>
        <tbody>{list.map((d) => <tr key={d.day}><th scope="row">{d.day}</th><td>{say(d)}</td></tr>)}</tbody>
      </table>
    </figure>
  )
}
