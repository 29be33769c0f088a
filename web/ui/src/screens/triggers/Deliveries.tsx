import { useState } from "react"
import { Link } from "wouter"
import { api, data, useAsk, useDo, type Schemas } from "../../api/client"
import { formatBytes } from "../../format"
import { useRefusal } from "../../me"
import { Dialog } from "../../parts/Dialog"
import { AreaField } from "../../parts/Fields"
import { Loaded } from "../../parts/Loading"
import { StateMark } from "../../parts/State"
import { Moment } from "../../parts/Time"
import { noTarget, paramsProblem } from "../run/Target"

const marks: Record<string, string> = { started: "completed", repeated: "skipped", refused: "cancelled", invalid: "failed", failed: "failed" }

/** Deliveries are the last calls of a webhook and what became of them. */
export function Deliveries({ of: w }: { of: Schemas["Webhook"] }) {
  const noRead = useRefusal("editor")
  const list = useAsk(["webhooks", "deliveries", w.webhook_id], (signal) => data(api.GET("/api/v1/webhooks/{webhook_id}/deliveries", { params: { path: { webhook_id: w.webhook_id } }, signal })), { enabled: !noRead })
  if (noRead) return <p className="quiet">The last deliveries: {noRead}.</p>
  return (
    <details className="deliveries" onToggle={() => void list.refetch()}>
      <summary>Last deliveries</summary>
      <Loaded of={list} lines={3}>
        {({ deliveries }) => deliveries.length === 0 ? <p className="quiet">None is known.</p> : (
          <div className="scroll" tabIndex={0} role="group" aria-label="Last deliveries">
            <table className="table">
              <thead><tr><th>Received</th><th>Verdict</th><th>From</th><th>Size</th><th>Execution or reason</th></tr></thead>
              <tbody>{deliveries.map((d, i) => (
                <tr key={i}>
                  <td><Moment time={d.received_at} ms /></td>
                  <td><span className="state"><StateMark state={marks[d.verdict] ?? "pending"} />{d.verdict}</span></td>
                  <td>{d.test ? <span className="quiet">test</span> : d.from}</td>
                  <td>{d.bytes ? formatBytes(d.bytes) : ""}</td>
                  <td>{d.execution_id ? <Link href={`/executions/${d.execution_id}`}>{d.verdict === "repeated" ? "open what it had started" : "open the execution"}</Link> : d.message}</td>
                </tr>
              ))}</tbody>
            </table>
          </div>
        )}
      </Loaded>
    </details>
  )
}

/** TestCall starts what a webhook says, without its secret. */
export function TestCall({ of: w, onClose }: { of: Schemas["Webhook"]; onClose: () => void }) {
  const [text, setText] = useState("{}")
  const wrong = paramsProblem({ ...noTarget, params: text })
  const send = useDo(() => data(api.POST("/api/v1/webhooks/{webhook_id}/test", { params: { path: { webhook_id: w.webhook_id } }, body: (text.trim() ? JSON.parse(text) : {}) as never })), [["webhooks"], ["executions"]])
  return (
    <Dialog title={`Test ${w.name || w.webhook_id}`} does="Send" busy={send.isPending} problem={send.error} refused={wrong} onClose={onClose} onDo={() => send.mutate(undefined)}>
      <AreaField label="Payload" value={text} onChange={setText} rows={6} problem={wrong || false} />
      {send.data && <div className="note" role="status">It started <Link href={`/executions/${send.data.execution_id}`}>an execution</Link>.</div>}
    </Dialog>
  )
}
