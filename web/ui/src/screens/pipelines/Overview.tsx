import { useEffect, useState } from "react"
import { Link, useLocation } from "wouter"
import { api, data, useAsk } from "../../api/client"
import { parametersOf, textOf, type Parameter } from "../../document/params"
import { formatDuration } from "../../format"
import { Loaded } from "../../parts/Loading"
import { Rows } from "../../parts/Rows"
import { StateMark } from "../../parts/State"
import { lookOf } from "../../states"
import { columns } from "../executions/columns"
import { Ended } from "../home/Ended"
import type { Stored } from "./Pipeline"
import { DocumentText } from "./Text"

/** Overview shows a pipeline's last executions, parameters and text. */
export function Overview({ p }: { p: Stored }) {
  const [, navigate] = useLocation()
  const last = useAsk(["executions", "of", p.pipeline_id], (signal) => data(api.GET("/api/v1/executions", { params: { query: { workflow_id: p.pipeline_id, limit: 50 } }, signal })))
  const active = useAsk(["pipelines", p.pipeline_id, "version", p.active_version || p.version], (signal) => data(api.GET("/api/v1/pipelines/{pipeline_id}/versions/{version}", { params: { path: { pipeline_id: p.pipeline_id, version: p.active_version || p.version } }, signal })))
  return (
    <>
      <section className="card" aria-labelledby="last">
        <header><h2 id="last">Last executions</h2><Link href={`/executions?workflow=${p.pipeline_id}`}>All of them</Link></header>
        <Loaded of={last} lines={4}>
          {({ executions }) => executions.length === 0 ? <p className="body quiet">It has not run yet.</p> : (
            <>
              <Outcomes executions={executions} />
              <Rows label="Last executions" rows={executions.slice(0, 8)} columns={columns.filter((c) => c.title !== "Pipeline")} keyOf={(x) => x.execution_id} onOpen={(x) => navigate(`/executions/${x.execution_id}`)} fit={400} />
            </>
          )}
        </Loaded>
      </section>
      <Ended pipeline={p.pipeline_id} otherwise="14d" />
      <Loaded of={active} lines={8}>
        {(v) => (
          <>
            <Parameters text={v.document ?? ""} />
            <section className="card" aria-labelledby="text">
              <header><h2 id="text">Text of v{v.version}</h2>{v.note && <span className="quiet">{v.note}</span>}</header>
              <div className="body"><DocumentText text={v.document ?? ""} label={`Text of ${p.name} v${v.version}`} /></div>
            </section>
          </>
        )}
      </Loaded>
    </>
  )
}

interface Outcome { execution_id: string; status: string; duration_ms: number | null }

// The newest right, as high as they took long.
function Outcomes({ executions }: { executions: Outcome[] }) {
  const ended = executions.filter((x) => x.duration_ms !== null)
  const top = Math.max(1, ...ended.map((x) => x.duration_ms!))
  const whole = ended.filter((x) => x.status === "completed").length
  const partly = ended.filter((x) => x.status === "completed_with_failures").length
  return (
    <div className="row" style={{ padding: "8px 12px", gap: 16, alignItems: "end" }}>
      <div className="outcomes">
        {[...executions].reverse().map((x) => (
          <Link key={x.execution_id} href={`/executions/${x.execution_id}`} aria-label={`${lookOf(x.status).word}, ${formatDuration((x.duration_ms ?? 0) / 1000)}`} title={`${lookOf(x.status).word}, ${formatDuration((x.duration_ms ?? 0) / 1000)}`}>
            <i style={{ height: `${4 + (28 * (x.duration_ms ?? 0)) / top}px`, background: `var(${lookOf(x.status).token})` }} />
            <StateMark state={x.status} size={10} />
          </Link>
        ))}
      </div>
      {ended.length > 0 && <span className="quiet">{whole + partly} of the last {ended.length} completed{partly > 0 && `, ${partly} of them with failures`} · the longest took {formatDuration(top / 1000)}</span>}
    </div>
  )
}

function Parameters({ text }: { text: string }) {
  const [params, setParams] = useState<Parameter[]>([])
  useEffect(() => {
    let current = true
    parametersOf(text).then((found) => { if (current) setParams(found) }, () => { if (current) setParams([]) })
    return () => { current = false }
  }, [text])
  if (params.length === 0) return null
  return (
    <section className="card" aria-labelledby="parameters">
      <header><h2 id="parameters">Parameters</h2></header>
      <div className="scroll" tabIndex={0} role="group" aria-labelledby="parameters">
        <table className="table">
          <thead><tr><th>Name</th><th>Type</th><th>Default</th><th>Meaning</th></tr></thead>
          <tbody>
            {params.map((p) => <tr key={p.name}><td><code>{p.name}</code></td><td>{p.type}{p.secret && ", secret"}</td><td>{p.default === undefined ? (p.required ? <strong>needed</strong> : "–") : <code>{textOf(p.type, p.default) || '""'}</code>}</td><td>{p.description}{p.enum && ` One of ${p.enum.join(", ")}.`}</td></tr>)}
          </tbody>
        </table>
      </div>
    </section>
  )
}
