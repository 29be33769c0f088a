import { useState } from "react"
import { Link } from "wouter"
import { api, data, useDo } from "../../api/client"
import { Dialog } from "../../parts/Dialog"
import { AreaField, TextField } from "../../parts/Fields"
import { noTarget, paramsProblem } from "../run/Target"

/** SendEvent sends an event, and shows what it started. */
export function SendEvent({ onClose }: { onClose: () => void }) {
  const [type, setType] = useState("")
  const [key, setKey] = useState("")
  const [text, setText] = useState("{}")
  const wrong = paramsProblem({ ...noTarget, params: text })
  const send = useDo(() => data(api.POST("/api/v1/events", { body: { type: type.trim(), source: "test", ...(key.trim() ? { key: key.trim() } : {}), data: text.trim() ? (JSON.parse(text) as Record<string, unknown>) : {} } })), [["event-triggers"], ["executions"]])
  const answer = send.data
  return (
    <Dialog title="Send a test event" does="Send" busy={send.isPending} problem={send.error} refused={!type.trim() ? "a type is needed" : wrong} onClose={onClose} onDo={() => send.mutate(undefined)}>
      <div className="two">
        <TextField label="Type" value={type} onChange={setType} autoFocus required hint="such as model.onboarded" />
        <TextField label="Key" value={key} onChange={setKey} hint="also ends steps that wait for it" />
      </div>
      <AreaField label="Data" value={text} onChange={setText} rows={5} problem={wrong || false} />
      {answer && (
        <div className="note" role="status">
          <strong>{answer.started.length === 0 ? "It started nothing." : `It started ${answer.started.filter((s) => s.execution_id).length} of ${answer.started.length}:`}</strong>
          {answer.started.map((s) => <div key={s.trigger_id}>{s.trigger_id}: {s.execution_id ? <Link href={`/executions/${s.execution_id}`}>open the execution</Link> : s.message}</div>)}
          {answer.signal && <div>Steps that wait for the key: {answer.signal}</div>}
        </div>
      )}
    </Dialog>
  )
}
