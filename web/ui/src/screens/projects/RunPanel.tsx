import { useState } from "react"
import { Link } from "wouter"
import { api, data, useAsk, useDo, type Schemas } from "../../api/client"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { Dialog } from "../../parts/Dialog"
import { Loaded } from "../../parts/Loading"
import { Took } from "../../parts/Time"
import { complain, say } from "../../parts/Toasts"
import { RunState } from "../queue/RunsQueue"

type Run = Schemas["PipelineRun"]

// noRestart says why a run cannot begin again with a step, or false.
function noRestart(r: Run, s: Run["steps"][number]): string | false {
  const failed = r.steps.find((it) => it.position < s.position && it.status === "failed")
  return failed ? `${failed.name} before it failed: restart from there` : s.status === "pending" && "it has not run"
}

/** RunPanel shows a run: its steps in order with their results, and what can be done. */
export function RunPanel({ id, onClose }: { id: string; onClose: () => void }) {
  const run = useAsk(["runs", "one", id], (signal) => data(api.GET("/api/v1/pipeline-runs/{run_id}", { params: { path: { run_id: id } }, signal })))
  return <section className="card run-panel" aria-label="Run"><Loaded of={run} lines={4}>{({ data: r }) => <Shown run={r} onClose={onClose} />}</Loaded></section>
}

function Shown({ run: r, onClose }: { run: Run; onClose: () => void }) {
  const [restart, setRestart] = useState<Run["steps"][number]>()
  const refusal = useRefusal("operator")
  const path = { params: { path: { run_id: r.id } } }
  const stale = [["runs"], ["progress"]]
  const act = useDo((what: "start" | "pause" | "stop") => data(what === "start" ? api.POST("/api/v1/pipeline-runs/{run_id}/start", path) : what === "pause" ? api.POST("/api/v1/pipeline-runs/{run_id}/pause", path) : api.POST("/api/v1/pipeline-runs/{run_id}/stop", path)), stale)
  const again = useDo((step: string) => data(api.POST("/api/v1/pipeline-runs/{run_id}/restart", { ...path, body: { step_id: step } })), stale)
  const after = restart ? r.steps.length - restart.position : 0
  const active = r.status === "running" || r.status === "queued"
  const go = (what: "start" | "pause" | "stop") => act.mutate(what, { onError: complain })
  return (
    <>
      <header>
        <h2>{r.lesson.name || r.lesson.id} · {r.pipeline_version.title} v{r.pipeline_version.version}</h2>
        <RunState status={r.status} />
        <Button refused={refusal || (!(r.status === "paused" || r.status === "failed") && `it is ${r.status}`)} busy={act.isPending} onClick={() => go("start")}>Start</Button>
        <Button refused={refusal || (!active && `it is ${r.status}`)} busy={act.isPending} onClick={() => go("pause")}>Pause</Button>
        <Button kind="danger" refused={refusal || (!active && `it is ${r.status}`)} busy={act.isPending} onClick={() => go("stop")}>Stop</Button>
        <Link className="button" href={`/executions/${r.id}`}>Execution</Link>
        <Button kind="bare" aria-label="Close" onClick={onClose}>✕</Button>
      </header>
      {(r.state.held || r.state.message) && <p className="body">{r.state.held ?? r.state.message}</p>}
      <div className="scroll" tabIndex={0} role="group" aria-label="Steps of the run">
        <table className="table">
          <thead><tr><th aria-label="Position">#</th><th>Step</th><th>State</th><th>Took</th><th>Result</th><th><span className="hidden-text">What can be done</span></th></tr></thead>
          <tbody>
            {r.steps.map((s) => (
              <tr key={s.id}>
                <td>{s.position}</td>
                <td>{s.name} <span className="quiet">{s.type}{s.reused_from && " · taken over"}</span></td>
                <td><RunState status={s.status} /></td>
                <td style={{ whiteSpace: "nowrap" }}><Took from={s.start_time} to={s.end_time} /></td>
                <td>{s.error ? <span className="bad">{s.error.message}</span> : s.result !== undefined && s.result !== null ? <details><summary>result</summary><pre>{typeof s.result === "string" ? s.result : JSON.stringify(s.result, null, 1)}</pre></details> : <span className="quiet">–</span>}</td>
                <td><Button refused={refusal || noRestart(r, s)} aria-label={refusal || noRestart(r, s) ? undefined : `Restart from ${s.name}`} onClick={() => setRestart(s)}>Restart …</Button></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {restart && (
        <Dialog title={`Restart from ${restart.name}?`} does="Restart" busy={again.isPending} problem={again.error} onClose={() => setRestart(undefined)} onDo={() => again.mutate(restart.id, { onSuccess: () => { say(`It runs again from ${restart.name}.`); setRestart(undefined) } })}>
          <p>{after === 0 ? "It runs again, and its result is replaced." : `It and the ${after === 1 ? "step" : `${after} steps`} after it run again, and their results are replaced.`}{active && " What runs is cancelled."}</p>
        </Dialog>
      )}
    </>
  )
}
