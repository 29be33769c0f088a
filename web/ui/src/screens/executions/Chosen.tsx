import { useState } from "react"
import { Link } from "wouter"
import { api, data, Problem, queries } from "../../api/client"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { Dialog } from "../../parts/Dialog"
import { say } from "../../parts/Toasts"
import { canCancel, canRetry, type Execution } from "./query"

const plural = (n: number) => `${n.toLocaleString("en-US")} execution${n === 1 ? "" : "s"}`

interface Act { word: "Cancel" | "Retry"; done: string; allowed: (x: Execution) => boolean; why: string; go: (id: string) => Promise<unknown> }

const acts: Act[] = [
  { word: "Cancel", done: "Cancelled", allowed: canCancel, why: "have ended", go: (id) => data(api.POST("/api/v1/executions/{execution_id}/cancel", { params: { path: { execution_id: id } } })) },
  { word: "Retry", done: "Retried", allowed: canRetry, why: "have nothing that failed, or still run", go: (id) => data(api.POST("/api/v1/executions/{execution_id}/retry", { params: { path: { execution_id: id } } })) },
]

/** Chosen is what can be done with the executions that are chosen. */
export function Chosen({ rows, onClear }: { rows: Execution[]; onClear: () => void }) {
  const [act, setAct] = useState<Act>()
  const refusal = useRefusal("operator")
  const [a, b] = rows
  return (
    <div className="note row" role="region" aria-label="Chosen executions">
      <strong>{plural(rows.length)} chosen</strong>
      {acts.map((it) => {
        const n = rows.filter(it.allowed).length
        return <Button key={it.word} kind={it.word === "Cancel" ? "danger" : undefined} refused={refusal || (n === 0 && `none can be: they ${it.why}`)} onClick={() => setAct(it)}>{it.word} {n}</Button>
      })}
      {rows.length === 2 ? <Link className="button" href={`/executions/${b!.execution_id}/compare/${a!.execution_id}`}>Compare</Link> : <Button refused="choose two to compare them">Compare</Button>}
      <Button kind="bare" onClick={onClear}>Clear</Button>
      {act && <Confirm act={act} rows={rows} onClose={() => setAct(undefined)} onDone={onClear} />}
    </div>
  )
}

function Confirm({ act, rows, onClose, onDone }: { act: Act; rows: Execution[]; onClose: () => void; onDone: () => void }) {
  const [busy, setBusy] = useState(false)
  const [problem, setProblem] = useState<Problem | null>(null)
  const allowed = rows.filter(act.allowed)
  const left = rows.length - allowed.length
  const go = async () => {
    setBusy(true)
    const waiting = [...allowed]
    const failed: Problem[] = []
    // Four at a time: the server also has others to answer.
    await Promise.all(Array.from({ length: 4 }, async () => {
      for (let x = waiting.shift(); x; x = waiting.shift()) {
        try { await act.go(x.execution_id) } catch (err) { failed.push(err instanceof Problem ? err : new Problem(0, "internal", String(err))) }
      }
    }))
    void queries.invalidateQueries({ queryKey: ["executions"] })
    setBusy(false)
    if (failed.length < allowed.length) say(`${act.done} ${plural(allowed.length - failed.length)}.`)
    if (failed[0]) {
      setProblem(new Problem(failed[0].status, failed[0].code, `${failed.length} of ${allowed.length} failed; the first: ${failed[0].message}`, failed[0].hint, failed[0].details, failed[0].request))
      return
    }
    onClose()
    onDone()
  }
  return (
    <Dialog title={`${act.word} ${plural(allowed.length)}?`} does={problem ? "Try again" : `${act.word} ${allowed.length}`} stays={act.word === "Cancel" ? "Keep them running" : undefined} danger={act.word === "Cancel"} busy={busy} problem={problem} onClose={onClose} onDo={() => void go()}>
      <p>{act.word === "Cancel" ? "Running steps are stopped. What has completed stays, and a retry takes it over." : "Each gets a new execution that takes over what completed and runs the rest again."}</p>
      {left > 0 && <p className="note">{left} of {rows.length} chosen {left === 1 ? "is" : "are"} left out: they {act.why}.</p>}
    </Dialog>
  )
}
