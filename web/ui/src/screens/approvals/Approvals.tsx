import { useEffect, useRef, useState } from "react"
import { Link } from "wouter"
import { useKeys } from "../../keys"
import { Button } from "../../parts/Button"
import { Loaded } from "../../parts/Loading"
import { StateMark } from "../../parts/State"
import { Ago, Moment } from "../../parts/Time"
import { useSearchParams } from "../../url"
import { Decide, useApprovals, useMayDecide, type Approval, type Deciding } from "./decide"
import "./approvals.css"

export default function Approvals() {
  const list = useApprovals()
  const [search, set] = useSearchParams()
  const [deciding, setDeciding] = useState<Deciding>()
  const may = useMayDecide()
  const all = list.data?.approvals ?? []
  const at = Math.max(0, all.findIndex((a) => a.approval_id === search.approval))
  const here: Approval | undefined = all[at]
  const focus = useRef(false)
  const move = (by: number) => {
    const next = all[Math.max(0, Math.min(all.length - 1, at + by))]
    focus.current = true
    if (next) set({ approval: next.approval_id })
  }
  useEffect(() => {
    if (!focus.current) return
    focus.current = false
    document.getElementById(`approval-${here?.approval_id}`)?.focus()
  }, [here?.approval_id])
  const decide = (approve: boolean, approval = here) => { if (approval && !may(approval)) setDeciding({ approval, approve }) }
  useKeys([
    { keys: "j", does: "Next approval", act: () => move(1) },
    { keys: "k", does: "Previous approval", act: () => move(-1) },
    { keys: "a", does: "Approve, after a confirmation", act: () => decide(true) },
    { keys: "r", does: "Reject, after a confirmation", act: () => decide(false) },
  ])
  return (
    <div className="screen">
      <header>
        <h1>Approvals</h1>
        {all.length > 0 && <span className="quiet keys-hint"><kbd className="kbd">J</kbd> <kbd className="kbd">K</kbd> move · <kbd className="kbd">A</kbd> approve · <kbd className="kbd">R</kbd> reject</span>}
        <Notify />
      </header>
      <Loaded of={list} lines={6}>
        {({ approvals, next_cursor }) => approvals.length === 0 ? (
          <div className="empty">
            <h2>Nothing waits for a decision</h2>
            <p>A step with the action <code>util.approval</code> waits here until somebody approves or rejects it.</p>
            <pre>{"- id: ask\n  action: util.approval\n  params: {message: Deploy to production?}"}</pre>
          </div>
        ) : (
          <>
            <ul className="inbox" aria-label="Approvals">
              {approvals.map((a) => (
                <li key={a.approval_id} id={`approval-${a.approval_id}`} tabIndex={0} aria-current={a === here || undefined} onFocus={() => { if (a !== here) set({ approval: a.approval_id }) }}>
                  <StateMark state="waiting" size={14} />
                  <div className="asked">
                    <strong>{a.message}</strong>
                    <span className="quiet"><Link href={`/executions/${a.execution_id}?step=${encodeURIComponent(a.step_id)}`}>{a.pipeline} · {a.step_id}</Link> · asked <Ago time={a.asked_at} />{a.approvers.length > 0 && ` · for ${a.approvers.join(", ")}`}</span>
                    {a.until && <span className="quiet">until <Moment time={a.until} />, then {a.default ? `${a.default} by default` : "the step fails"}</span>}
                  </div>
                  <div className="row">
                    <Button refused={may(a)} onClick={() => decide(true, a)} aria-label={may(a) ? undefined : `Approve ${a.message}`}>✓ Approve</Button>
                    <Button kind="danger" refused={may(a)} onClick={() => decide(false, a)} aria-label={may(a) ? undefined : `Reject ${a.message}`}>✕ Reject</Button>
                  </div>
                </li>
              ))}
            </ul>
            {next_cursor && <p className="quiet">The oldest 200 are shown.</p>}
          </>
        )}
      </Loaded>
      {deciding && <Decide of={deciding} onClose={() => setDeciding(undefined)} />}
    </div>
  )
}

function Notify() {
  const [permission, setPermission] = useState(() => ("Notification" in window ? Notification.permission : "denied"))
  if (permission !== "default") return null
  return <Button onClick={() => void Notification.requestPermission().then(setPermission)}>Notify me of new ones</Button>
}
