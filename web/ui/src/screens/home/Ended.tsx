import { useEffect } from "react"
import { api, data, useAsk, type Schemas } from "../../api/client"
import { formatCount, formatDuration } from "../../format"
import { Loaded } from "../../parts/Loading"
import { useNow } from "../../parts/Time"
import { useSearchParams } from "../../url"
import { costSince, ranges, timesOf, type Range, type Time } from "./days"
import "./ended.css"

type Stats = Schemas["ExecutionStats"]

// What a range of the default length asks has no times in it: its address is always the same. Hours are 24 unless from is given.
function useStats(range: Range, pipeline: string | undefined) {
  return useAsk(["executions", "stats", range, pipeline ?? ""], (signal) => data(api.GET("/api/v1/stats/executions", {
    params: { query: { bucket: ranges[range].bucket, from: range === "7d" ? new Date(Date.now() - 167 * 3_600_000).toISOString() : undefined, pipeline_id: pipeline } }, signal,
  })))
}

/** Ended shows how executions ended within a time that the address has: how many, which share completed, how long they took, what they cost. */
export function Ended({ pipeline, otherwise }: { pipeline?: string; otherwise: Range }) {
  const [search, set] = useSearchParams()
  const range = Object.hasOwn(ranges, search.range ?? "") ? (search.range as Range) : otherwise
  const stats = useStats(range, pipeline)
  const hours = useStats("24h", pipeline)
  // A time that nothing ends in moves on too.
  const tick = Math.floor(useNow() / (range === "1h" ? 60_000 : 3_600_000))
  useEffect(() => { void stats.refetch({ cancelRefetch: false }) }, [tick])
  return (
    <section className="card" aria-labelledby="ended">
      <header>
        <h2 id="ended">{ranges[range].name}</h2>
        {range === "14d" && <span className="quiet">days in UTC</span>}
        <select className="input" aria-label="Time range" value={range} onChange={(e) => set({ range: e.target.value === otherwise ? undefined : e.target.value })}>
          {Object.keys(ranges).map((r) => <option key={r} value={r}>{r.replace(/(\d+)/, "$1 ")}</option>)}
        </select>
      </header>
      <Loaded of={stats} lines={4}>{(s) => <Body of={s} today={hours.data} />}</Loaded>
    </section>
  )
}

function Body({ of: s, today }: { of: Stats; today: Stats | undefined }) {
  const list = timesOf(s)
  const all = { completed: s.total.completed + s.total.completed_with_failures, withFailures: s.total.completed_with_failures, bad: s.total.failed + s.total.timed_out }
  const cost = (n: number) => (n === 0 ? "0" : n.toFixed(2))
  const facts: [string, string][] = [
    ["half took at most", formatDuration(s.total.p50_seconds)], ["95 % took at most", formatDuration(s.total.p95_seconds)],
    ["cost", cost(Number(s.total.cost))], ["cost today", today ? cost(costSince(today.buckets, new Date().setHours(0, 0, 0, 0))) : "–"],
  ]
  return (
    <div className="body">
      {s.total.ended === 0 ? <p className="quiet">No execution has ended in this time.</p> : <p><b>{share(all.completed, s.total.ended)}</b> of {formatCount(s.total.ended)} completed{withFailures(all)}, {formatCount(all.bad)} failed or ran out of time.{!s.complete && " There are more counts than are read here."}</p>}
      <dl className="ended-facts">{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      {s.total.ended > 0 && (
        <div className="ended" data-by={s.bucket}>
          <Bars name={`Ended by ${s.bucket}`} times={list} top={Math.max(...list.map((d) => d.ended))} parts={(d) => [["--state-completed", d.completed], ["--state-grey", d.ended - d.completed - d.bad], ["--state-failed", d.bad]]} say={(d) => (d.ended ? `${share(d.completed, d.ended)} of ${formatCount(d.ended)} completed${withFailures(d)}, ${formatCount(d.bad)} failed` : "none")} />
          <Bars name="Failed or out of time" times={list} top={Math.max(...list.map((d) => d.bad))} parts={(d) => [["--state-failed", d.bad]]} say={(d) => formatCount(d.bad)} />
          <Bars name="95 % took at most" times={list} top={Math.max(...list.map((d) => d.p95 ?? 0))} parts={(d) => [["--accent", d.p95 ?? 0]]} say={(d) => (d.p95 === undefined ? "none completed" : `${formatDuration(d.p95)}, half ${formatDuration(d.p50)}`)} />
        </div>
      )}
    </div>
  )
}

const withFailures = (d: { withFailures: number }) => (d.withFailures > 0 ? ` (${formatCount(d.withFailures)} with failures)` : "")

const share = (n: number, of: number) => `${((100 * n) / Math.max(1, of)).toFixed(n === of ? 0 : 1)} %`

interface BarsProps { name: string; times: Time[]; top: number; parts: (d: Time) => [token: string, n: number][]; say: (d: Time) => string }

// A table for those who do not see the bars: of many times those in which something ended.
function Bars({ name, times, top, parts, say }: BarsProps) {
  const many = times.length > 24
  return (
    <figure>
      <figcaption>{name}</figcaption>
      <div className="ended-bars" data-many={many || undefined} aria-hidden="true">
        {times.map((d) => (
          <span key={d.at} title={`${d.at}: ${say(d)}`}>
            {parts(d).filter(([, n]) => n > 0).map(([token, n]) => <i key={token} style={{ height: `${Math.max(2, (40 * n) / Math.max(top, 1e-9))}px`, background: `var(${token})` }} />)}
          </span>
        ))}
      </div>
      <table className="hidden-text">
        <caption>{name}</caption>
        <tbody>{times.filter((d) => !many || d.ended > 0).map((d) => <tr key={d.at}><th scope="row">{d.at}</th><td>{say(d)}</td></tr>)}</tbody>
      </table>
    </figure>
  )
}
