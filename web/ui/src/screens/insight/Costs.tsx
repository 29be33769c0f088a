import { Link } from "wouter"
import { api, data, useAsk, type Schemas } from "../../api/client"
import { formatCount } from "../../format"
import { Button } from "../../parts/Button"
import { Loaded } from "../../parts/Loading"
import { save } from "../../parts/save"
import { complain } from "../../parts/Toasts"
import { useSearchParams } from "../../url"
import { csvOf, daysBetween } from "./csv"
import { sinceOf } from "./Insight"

type Row = Schemas["CostRow"]

const groups = [["pipeline", "Pipeline"], ["step", "Step"], ["project", "Project"], ["day", "Day"]] as const
type By = (typeof groups)[number][0]

const ask = (by: By[], days: number, limit: number, signal?: AbortSignal) => data(api.GET("/api/v1/stats/costs", { params: { query: { by, from: sinceOf(days), limit } }, signal }))
const money = (text: string | undefined) => Number(text ?? 0)
const shown = (text: string | undefined) => (money(text) >= 1 ? money(text).toFixed(2) : text ?? "0")

/** Costs shows what executions that ended cost: by day as bars, and by what is chosen as a table. */
export function Costs({ days }: { days: number }) {
  const [search, set] = useSearchParams()
  const by = groups.find(([g]) => g === search.by)?.[0] ?? "pipeline"
  const byDay = useAsk(["insight", "costs", days, "day"], (signal) => ask(["day"], days, 400, signal))
  const rows = useAsk(["insight", "costs", days, by], (signal) => ask(by === "step" ? ["pipeline", "step"] : [by], days, 500, signal))
  const csv = () => {
    ask(["day", "pipeline", "project", "step"], days, 5000).then((c) => {
      const lines = c.rows.map((r) => [(r.day ?? "").slice(0, 10), r.pipeline_id ?? "", r.pipeline ?? "", r.project ?? "", r.step_id ?? "", r.attempts, r.cost, r.repeated_attempts, r.repeated_cost])
      save([csvOf(["day", "pipeline_id", "pipeline", "project", "step", "attempts", "cost", "repeated_attempts", "repeated_cost"], lines)], `costs-${days}-days.csv`, "text/csv")
      if (!c.complete) complain(new Error("The file is not complete: there are more sums than are read at once, and the last days are missing. Choose less time."))
      else if (c.more_rows > 0) complain(new Error(`The file has the first ${formatCount(c.rows.length)} lines. Choose less time for the others.`))
    }, complain)
  }
  return (
    <Loaded of={byDay} lines={6}>{(d) => d.total.attempts === 0 ? <None of={d} /> : (
      <>
        {!d.complete && <Cut />}
        <div className="tiles">
          <div className="tile"><b>{shown(d.total.cost)}</b><span>cost</span></div>
          <div className="tile"><b>{shown(d.total.repeated_cost)}</b><span>of it retries</span></div>
          <div className="tile"><b>{share(d.total)}</b><span>of the cost is repetition</span></div>
          <div className="tile"><b>{formatCount(d.total.attempts)}</b><span>attempts that cost something</span></div>
        </div>
        {money(d.earlier_cost) > 0 && <p className="note">{shown(d.earlier_cost)} more was spent before {d.counted_since ? d.counted_since.slice(0, 10) : "now"}, when costs were not counted by step and project yet.</p>}
        <section className="card" aria-labelledby="by-day">
          <header><h2 id="by-day">By day</h2><span className="quiet">days in UTC, by when executions ended</span></header>
          <div className="body"><Bars of={d} /></div>
        </section>
        <section className="card" aria-labelledby="by-group">
          <header>
            <h2 id="by-group">What it was for</h2>
            <div className="chips" role="group" aria-label="Sum by">
              {groups.map(([g, word]) => <button key={g} type="button" className="chip" aria-pressed={g === by} onClick={() => set({ by: g === "pipeline" ? undefined : g })}>{word}</button>)}
            </div>
            <Button onClick={csv}>Export CSV</Button>
          </header>
          <Loaded of={rows} lines={4}>{(c) => <Table of={c} by={by} />}</Loaded>
        </section>
      </>
    )}</Loaded>
  )
}

const share = (r: Row) => `${((100 * money(r.repeated_cost)) / Math.max(1e-9, money(r.cost))).toFixed(1)} %`

const Cut = () => <p className="note" data-kind="warn">These sums are not complete: there are more than are read at once, and the last days are missing. Choose less time.</p>

function None({ of: { earlier_cost: earlier, complete } }: { of: Schemas["Costs"] }) {
  return (
    <div className="empty">
      <h2>Nothing that ended in this time has cost anything</h2>
      {!complete && <Cut />}
      {money(earlier) > 0
        ? <p>{shown(earlier)} was spent before costs were counted by step and project.</p>
        : <p>Costs are those of language models by the prices of the settings, or what an action says that an attempt cost.</p>}
      <pre>prices:{"\n"}  ai.chat: {"{"}per_input_token: 0.0000025, per_output_token: 0.00001{"}"}</pre>
    </div>
  )
}

function Bars({ of: c }: { of: Schemas["Costs"] }) {
  const there = new Map(c.rows.map((r) => [(r.day ?? "").slice(0, 10), r]))
  const list = daysBetween(c.from ?? "", c.to ?? "")
  const top = Math.max(...c.rows.map((r) => money(r.cost)), 1e-9)
  const say = (r: Row | undefined) => (r ? `${r.cost}, of it ${r.repeated_cost} for retries` : "nothing")
  return (
    <figure className="insight-days">
      <figcaption>
        <span><i className="insight-key" style={{ background: "var(--accent)" }} />first attempts <i className="insight-key" style={{ background: "var(--state-failed)" }} />retries</span>
        <span>up to {shown(String(top))} a day</span>
      </figcaption>
      <div className="insight-bars" aria-hidden="true">
        {list.map((day) => {
          const r = there.get(day)
          const again = money(r?.repeated_cost)
          return (
            <span key={day} title={`${day}: ${say(r)}`}>
              {r && money(r.cost) > again && <i style={{ height: `${(118 * (money(r.cost) - again)) / top}px`, background: "var(--accent)" }} />}
              {again > 0 && <i style={{ height: `${Math.max(2, (118 * again) / top)}px`, background: "var(--state-failed)" }} />}
            </span>
          )
        })}
      </div>
      <div className="insight-axis" aria-hidden="true"><span>{list[0]}</span><span>{list.at(-1)}</span></div>
      <table className="hidden-text"><caption>Cost by day</caption><tbody>{list.map((day) => <tr key={day}><th scope="row">{day}</th><td>{say(there.get(day))}</td></tr>)}</tbody></table>
    </figure>
  )
}

function Table({ of: c, by }: { of: Schemas["Costs"]; by: By }) {
  const most = Math.max(...c.rows.map((r) => money(r.cost)), 1e-9)
  return (
    <div className="insight-scroll" tabIndex={0} role="region" aria-label="Costs">
      <table className="table">
        <thead><tr><th>{groups.find(([g]) => g === by)![1]}</th>{by === "step" && <th>Pipeline</th>}<th className="num">Cost</th><th>Share</th><th className="num">Attempts</th><th className="num">Repeated</th><th className="num">Retries cost</th></tr></thead>
        <tbody>
          {c.rows.map((r, i) => (
            <tr key={i}>
              <td>{name(r, by)}</td>
              {by === "step" && <td>{name(r, "pipeline")}</td>}
              <td className="num">{shown(r.cost)}</td>
              <td style={{ minWidth: 80 }}><span className="bar" aria-hidden="true"><i style={{ width: `${(100 * money(r.cost)) / most}%`, background: "var(--accent)" }} /></span></td>
              <td className="num">{formatCount(r.attempts)}</td>
              <td className="num">{formatCount(r.repeated_attempts)}</td>
              <td className="num">{money(r.repeated_cost) > 0 ? shown(r.repeated_cost) : "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {c.more_rows > 0 && <p className="quiet">{formatCount(c.more_rows)} rows more cost less than these.</p>}
    </div>
  )
}

function name(r: Row, by: By) {
  switch (by) {
    case "day": return (r.day ?? "").slice(0, 10)
    case "project": return r.project ? <Link href={`/projects/${encodeURIComponent(r.project)}`}>{r.project}</Link> : <span className="quiet">no project</span>
    case "step": return r.step_id ? <code>{r.step_id}</code> : <span className="quiet">other steps</span>
    case "pipeline": return r.pipeline_id ? <Link href={`/pipelines/${r.pipeline_id}`}>{r.pipeline}</Link> : <>{r.pipeline}</>
  }
}
