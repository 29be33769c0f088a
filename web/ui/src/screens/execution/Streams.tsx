import { useState } from "react"
import { Link } from "wouter"
import { api, data, type Schemas } from "../../api/client"
import { usePages } from "../../api/pages"
import { formatCount } from "../../format"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { Loaded } from "../../parts/Loading"
import { ProblemBox } from "../../parts/Problem"
import { StateWord } from "../../parts/State"
import { ended } from "../../states"
import { AgainDialog } from "./Actions"
import { columnsOf, counted, rate } from "./flow"
import { usePage } from "./page"
import "./streams.css"

type Stream = Schemas["ItemStream"]
type Module = Schemas["StreamModule"]
type Group = Schemas["FailureGroup"]

/** Streams shows how items flow through the modules, which of them limits the rest, and which items have failed. */
export function Streams() {
  const { id } = usePage()
  const list = usePages(["execution", id, "live", "streams"], async (cursor) => {
    const got = await data(api.GET("/api/v1/executions/{execution_id}/streams", { params: { path: { execution_id: id }, query: { cursor } } }))
    return { rows: got.streams, next: got.next_cursor }
  }, { id: (s: Stream) => s.id })
  return (
    <div className="x-view streams">
      <Loaded of={list.first} lines={6}>{() => (
        <>
          {list.rows!.length === 0 && <p className="empty">No stream has begun: this execution has no steps with a module, or has not come to them.</p>}
          {list.rows!.map((s) => <Flow key={s.id} of={s} />)}
          {list.problem && <ProblemBox problem={list.problem} />}
          {list.more && <p><Button onClick={list.onEnd}>More streams</Button></p>}
          {list.rows!.length > 0 && <p><Link className="button" href={`/map?execution=${id}`}>Items on a map</Link></p>}
          {list.rows!.length > 0 && <Failures />}
        </>
      )}</Loaded>
    </div>
  )
}

function Flow({ of: s }: { of: Stream }) {
  return (
    <section aria-label={`Stream ${s.id}`}>
      <h2>{s.id}</h2>
      {s.bottleneck
        ? <p className="note"><strong>Bottleneck: {s.bottleneck.step_id}.</strong> {s.bottleneck.reason}</p>
        : <p className="quiet">No module is known to be the bottleneck.</p>}
      <ol className="flow">
        {columnsOf(s.modules).map((column, i) => (
          <li key={i}>{column.map((m) => <Box key={m.step_id} of={m} limits={m.step_id === s.bottleneck?.step_id} />)}</li>
        ))}
      </ol>
    </section>
  )
}

function Box({ of: m, limits }: { of: Module; limits: boolean }) {
  const { select } = usePage()
  return (
    <article className="module" data-limits={limits || undefined} aria-label={`${m.step_id}${limits ? ", the bottleneck" : ""}`}>
      <header>
        <button type="button" className="button clip" data-kind="bare" onClick={() => select(m.step_id)}>{m.step_id}</button>
        <StateWord state={m.status} />
      </header>
      <span className="mono quiet clip" title={m.module}>{m.module}</span>
      {limits && <strong>bottleneck</strong>}
      {m.inputs.length > 0 && <span className="quiet clip">from {m.inputs.join(", ")}</span>}
      {m.items ? (
        <dl>
          <Fact name="in" value={formatCount(m.items.in)} more={m.total ? `of ${formatCount(m.total)}` : rate(m.in_per_second)} />
          <Fact name="out" value={formatCount(m.items.out)} more={rate(m.out_per_second)} />
          {m.items.failed > 0 && <Fact name="failed" value={formatCount(m.items.failed)} bad />}
          {m.items.dropped > 0 && <Fact name="dropped" value={formatCount(m.items.dropped)} />}
          {m.items.skipped > 0 && <Fact name="done before" value={formatCount(m.items.skipped)} />}
          {m.buffered !== undefined && <Fact name="waiting" value={formatCount(m.buffered)} more={m.buffer_capacity ? `of ${formatCount(m.buffer_capacity)}` : undefined} />}
        </dl>
      ) : <span className="quiet">no items yet</span>}
      {m.buffered !== undefined && m.buffer_capacity && (
        <div className="row">
          <div className="bar" role="img" aria-label={`its buffer is filled to ${fill(m.buffered, m.buffer_capacity)} %`}><i style={{ width: `${fill(m.buffered, m.buffer_capacity)}%`, background: "var(--warn)" }} /></div>
          <span className="quiet">{fill(m.buffered, m.buffer_capacity)} % of its buffer</span>
        </div>
      )}
      {m.working !== undefined && (
        <div className="row">
          <div className="bar" role="img" aria-label={`at work ${Math.round(m.working * 100)} % of the time`}><i style={{ width: `${m.working * 100}%`, background: "var(--accent)" }} /></div>
          <span className="quiet">{Math.round(m.working * 100)} % at work</span>
        </div>
      )}
    </article>
  )
}

const fill = (waiting: number, room: number) => Math.min(100, Math.round((100 * waiting) / room))

function Fact({ name, value, more, bad }: { name: string; value: string; more?: string; bad?: boolean }) {
  return <div><dt>{name}</dt><dd className={bad ? "bad" : undefined}>{value}{more ? <span className="quiet"> {more}</span> : null}</dd></div>
}

function Failures() {
  const { id, x } = usePage()
  const refused = useRefusal("operator")
  const [again, setAgain] = useState(false)
  const list = usePages(["execution", id, "live", "stream failures"], async (cursor) => {
    const got = await data(api.GET("/api/v1/executions/{execution_id}/streams/failures", { params: { path: { execution_id: id }, query: { cursor } } }))
    return { rows: got.groups, next: got.next_cursor, whole: got }
  }, { id: (g: Group) => JSON.stringify([g.step_id, g.error_type, g.message]) })
  const whole = (list.first.data as { whole: Schemas["FailureGroups"] } | undefined)?.whole
  return (
    <section aria-label="Failures">
      <h2>Failures{whole ? ` (${formatCount(whole.failures)})` : ""}</h2>
      {Boolean(whole?.failures) && <p className="quiet">{counted.streams} {counted.map}</p>}
      {whole && !whole.complete && <p className="note">There are more failures than are read here. The failure report of the pipeline has all of them.</p>}
      <Loaded of={list.first} lines={3}>{() => (list.rows!.length === 0 ? <p className="empty">No failure of an item is collected on this server.</p> : (
        <div className="scroll">
          <table>
            <thead><tr><th>Module</th><th>Kind</th><th>Message</th><th className="number">Items</th></tr></thead>
            <tbody>{list.rows!.map((g) => <Failed key={JSON.stringify([g.step_id, g.error_type, g.message])} of={g} />)}</tbody>
          </table>
        </div>
      ))}</Loaded>
      {list.problem && <ProblemBox problem={list.problem} />}
      {list.more && <p><Button onClick={list.onEnd}>More failures</Button></p>}
      {Boolean(whole?.failures) && ended(x.status) && <p><Button refused={refused} onClick={() => setAgain(true)}>Try the failed items again…</Button></p>}
      {again && <AgainDialog again={{ kind: "retry" }} onClose={() => setAgain(false)} />}
    </section>
  )
}

function Failed({ of: g }: { of: Group }) {
  const [open, setOpen] = useState(false)
  return (
    <>
      <tr>
        <td className="mono">{g.step_id}</td>
        <td>{g.error_type}</td>
        <td><button type="button" className="button" data-kind="bare" aria-expanded={open} onClick={() => setOpen(!open)}>{open ? "▾" : "▸"} {g.message}</button></td>
        <td className="number">{formatCount(g.count)}</td>
      </tr>
      {open && g.examples.map((e, i) => (
        <tr key={i} className="example">
          <td className="mono" colSpan={2}>{[e.collection_id, e.item_id].filter(Boolean).join("/")}</td>
          <td colSpan={2}>{e.message}{e.context ? <span className="quiet mono"> {placeOf(e.context as Record<string, unknown>)}</span> : null}</td>
        </tr>
      ))}
    </>
  )
}

function placeOf({ source_file: file, line_number: line, ...rest }: Record<string, unknown>): string {
  const place = file ? [`${String(file)}${line ? `:${String(line)}` : ""}`] : []
  return [...place, ...Object.entries(rest).map(([k, v]) => `${k.replaceAll("_", " ")} ${String(v)}`)].join(" · ")
}
