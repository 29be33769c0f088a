import { Fragment, useEffect, useRef, useState } from "react"
import { Link, useLocation } from "wouter"
import { api, data, useAsk, type Schemas } from "../../api/client"
import { watch } from "../../api/live"
import { formatCount, shortID } from "../../format"
import { Loaded } from "../../parts/Loading"
import { Rows, type Column } from "../../parts/Rows"
import { Ago } from "../../parts/Time"
import { Linked } from "../execution/Linked"
import { depths, type Depths } from "./depth"
import { Holders, StepLink } from "./Holders"
import "./queue.css"

type Held = Schemas["HeldExecution"]
type Queue = Schemas["StepQueue"]

const columns: Column<Held>[] = [
  { title: "Execution", width: "minmax(130px, 1fr)", show: (x) => <Link href={`/executions/${x.execution_id}`} onClick={(e) => e.stopPropagation()} tabIndex={-1}>{x.pipeline} {shortID(x.execution_id)}</Link> },
  { title: "Why", width: "minmax(140px, 2.4fr)", show: (x) => <div className="queue-why" onClick={(e) => { if ((e.target as Element).closest("a")) e.stopPropagation() }}><Linked text={x.reasons.map((r) => r.message).join("; ")} /></div> },
  { title: "Priority", width: "80px", from: 760, show: (x) => x.priority || <span className="quiet">–</span> },
  { title: "Created", width: "88px", from: 480, show: (x) => <Ago time={x.created_at} /> },
]

/** Waiting says what waits, and why: steps in queues, and executions that have not begun. */
export function Waiting() {
  const [, navigate] = useLocation()
  const all = useAsk(["queues"], (signal) => data(api.GET("/api/v1/queue", { params: { query: { limit: 200 } }, signal })))
  const lines = useDepths(all.data?.queues)
  const [open, setOpen] = useState("") // the queue whose holders are shown
  return (
    <Loaded of={all} lines={6}>
      {({ queues, executions, waiting }) => (
        <>
          <section className="card" aria-labelledby="queues">
            <header><h2 id="queues">Steps that wait for a worker</h2></header>
            <div className="scroll" role="group" aria-label="Queues" tabIndex={0}>
              <table className="table queues">
                <thead><tr><th>Queue</th><th>Waiting</th><th>Oldest</th><th>Running</th><th>Limits</th><th>Here, since you look</th><th>Why</th></tr></thead>
                <tbody>
                  {queues.map((q) => (
                    <Fragment key={q.name}><tr>
                      <td><strong>{q.name}</strong></td>
                      <td>{formatCount(q.waiting)}</td>
                      <td>{q.oldest ? <StepLink of={q.oldest} text={<Ago time={q.oldest.since} />} name={`${q.oldest.step_id} waits the longest`} /> : <span className="quiet">–</span>}</td>
                      <td>{q.holders?.length ? <button type="button" className="button" data-kind="bare" aria-expanded={open === q.name} aria-label={`${formatCount(q.running)} running in ${q.name}: who`} onClick={() => setOpen(open === q.name ? "" : q.name)}>{open === q.name ? "▾" : "▸"} {formatCount(q.running)}</button> : formatCount(q.running)}</td>
                      <td>{limits(q)}</td>
                      <td><Depth of={lines[q.name]} name={q.name} /></td>
                      <td>{q.reasons.map((r) => r.message).join("; ") || <span className="quiet">nothing waits</span>}</td>
                    </tr>
                    {open === q.name && (q.holders?.length ?? 0) > 0 && <tr><td colSpan={7}><Holders of={q} /></td></tr>}</Fragment>
                  ))}
                </tbody>
              </table>
            </div>
          </section>
          <h2 className="queue-held">{waiting === 0 ? "No execution waits to begin" : `${waiting >= 1000 ? "1,000 or more" : formatCount(waiting)} ${waiting === 1 ? "execution waits" : "executions wait"} to begin`}</h2>
          {executions.length > 0
            ? <div className="fill"><Rows label="Executions that wait" rows={executions} columns={columns} keyOf={(x) => x.execution_id} onOpen={(x) => navigate(`/executions/${x.execution_id}`)} rowHeight={window.innerWidth < 760 ? 150 : 56} /></div>
            : <p className="quiet">Executions wait here for others with the same concurrency key, and for room: limits are in the settings and in <code>settings.concurrency</code> of a pipeline.</p>}
        </>
      )}
    </Loaded>
  )
}

const limits = (q: Queue) =>
  [q.concurrency === undefined ? "" : q.concurrency < 0 ? "none may run here now" : `${formatCount(q.concurrency)} at once`, q.rate ? `${q.rate} a second` : ""].filter(Boolean).join(", ") || <span className="quiet">no limit</span>

// useDepths keeps how many steps waited in each queue while the page was open.
function useDepths(now: Queue[] | undefined): Record<string, Depths> {
  const kept = useRef<Record<string, Depths>>({})
  const [, again] = useState(0)
  useEffect(() => {
    const take = (rows: { name: string; waiting: number }[]) => {
      for (const q of rows) kept.current[q.name] = depths(kept.current[q.name], Date.now(), q.waiting)
      again((n) => n + 1)
    }
    if (now) take(now)
    return watch((of, change) => { if (of === "queues" && change.rows) take(change.rows as unknown as Queue[]) })
  }, [now])
  return kept.current
}

function Depth({ of, name }: { of: Depths | undefined; name: string }) {
  if (!of || of.most === 0) return <span className="quiet">–</span>
  const end = Date.now()
  const x = (t: number) => (120 * (t - of.from)) / Math.max(1, end - of.from)
  const y = (n: number) => 21 - (20 * n) / of.most
  let line = ""
  of.at.forEach(([t, n], i) => { line += i === 0 ? `M${x(t).toFixed(1)} ${y(n).toFixed(1)}` : `H${x(t).toFixed(1)}V${y(n).toFixed(1)}` })
  return (
    <svg width="120" height="22" viewBox="0 0 120 22" role="img" aria-label={`In ${name} at most ${formatCount(of.most)} steps waited in the last ${Math.max(1, Math.round((end - of.from) / 1000))} seconds`}>
      <path d={`${line}H120`} className="queue-depth" />
    </svg>
  )
}
