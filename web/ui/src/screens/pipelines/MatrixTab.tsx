import { Link } from "wouter"
import { api, data, useAsk, type Schemas } from "../../api/client"
import { formatMoment } from "../../format"
import { Loaded } from "../../parts/Loading"
import { StateMark } from "../../parts/State"
import { lookOf } from "../../states"
import { useSearchParams } from "../../url"
import type { Stored } from "./Pipeline"

type Matrix = Schemas["Matrix"]
const sizes = ["25", "50", "100"]

/** MatrixTab shows the steps of a pipeline in its last executions: since when what fails. */
export function MatrixTab({ p }: { p: Stored }) {
  const [search, setSearch] = useSearchParams()
  const size = sizes.find((s) => s === search.n) ?? sizes[0]!
  const matrix = useAsk(["executions", "matrix", p.pipeline_id, size], (signal) => data(api.GET("/api/v1/pipelines/{pipeline_id}/matrix", { params: { path: { pipeline_id: p.pipeline_id }, query: { executions: Number(size), steps: 200 } }, signal })))
  return (
    <section className="card" aria-labelledby="matrix">
      <header>
        <h2 id="matrix">Steps in the last executions</h2>
        <label className="row">at most
          <select className="input" value={size} onChange={(e) => setSearch({ n: e.target.value === sizes[0] ? undefined : e.target.value })}>{sizes.map((s) => <option key={s}>{s}</option>)}</select>
        </label>
      </header>
      <Loaded of={matrix} lines={8}>
        {(m) => m.executions.length === 0 ? <p className="body quiet">It has not run yet.</p> : (
          <>
            <Cells m={m} />
            {m.truncated && <p className="body quiet">Not all is shown: there are more steps, or older executions have too many of them.</p>}
          </>
        )}
      </Loaded>
    </section>
  )
}

function Cells({ m }: { m: Matrix }) {
  return (
    <div className="scroll" tabIndex={0} role="group" aria-labelledby="matrix">
      <table className="matrix">
        <thead>
          <tr>
            <th scope="col">Step</th>
            {m.executions.map((x) => (
              <th scope="col" key={x.execution_id}>
                <Link href={`/executions/${x.execution_id}`} aria-label={`${formatMoment(x.created_at!)}, ${lookOf(x.status).word}`} title={`${formatMoment(x.created_at!)}, v${x.workflow_version ?? "?"}: ${lookOf(x.status).word}`}><StateMark state={x.status} /></Link>
              </th>
            ))}
            <th scope="col">Fails since</th>
          </tr>
        </thead>
        <tbody>
          {m.steps.map((s) => (
            <tr key={s.step_id}>
              <th scope="row" className="mono">{s.step_id}</th>
              {m.executions.map((x, i) => <td key={x.execution_id}>{s.status[i] && <Cell x={x} row={s} i={i} />}</td>)}
              <td className="quiet">{since(m, s)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

// since is when an unbroken row of failures up to the newest execution began.
function since(m: Matrix, row: Schemas["MatrixRow"]): string {
  let i = m.executions.length
  while (i > 0 && (row.status[i - 1] === "failed" || row.status[i - 1] === "timed_out")) i--
  return i === m.executions.length ? "" : formatMoment(m.executions[i]!.created_at!)
}

function Cell({ x, row, i }: { x: Schemas["Execution"]; row: Schemas["MatrixRow"]; i: number }) {
  const state = row.status[i]!
  const share = row.failed[i] ?? 0
  const part = share > 0 && share < 1 ? `, ${Math.max(1, Math.round(100 * share))} % failed` : ""
  const says = `${row.step_id}, ${lookOf(state).word}${part}`
  const to = row.kind === "spawned" ? `/executions/${x.execution_id}/table?t=${encodeURIComponent(row.step_id)}` : `/executions/${x.execution_id}?step=${encodeURIComponent(row.step_id)}`
  return (
    <Link href={to} aria-label={`${says}, ${formatMoment(x.created_at!)}`} title={says}>
      <StateMark state={state} />
      {part && <i style={{ height: `${Math.max(12, 100 * share)}%` }} />}
    </Link>
  )
}
