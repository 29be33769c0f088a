import { useState } from "react"
import { Loaded } from "../../parts/Loading"
import { Button } from "../../parts/Button"
import { useRefusal } from "../../me"
import type { Named } from "../../field/names"
import { ended, lookOf } from "../../states"
import { AgainDialog, Approval, type Again } from "./Actions"
import { useApprovals, useWhy } from "./ask"
import { Message } from "./Linked"
import { usePage } from "./page"
import { WhatIf } from "./WhatIf"

/** Why says in sentences why something is in its state, and what can be done about it. */
export function Why({ of, state }: { of?: Named; state: string }) {
  const step = of?.step_id
  const kept = of?.parent !== undefined && ended(state)
  const { id, x, at, select } = usePage()
  const why = useWhy(id, step, !kept, at)
  const approvals = useApprovals(id, state === "waiting")
  const refused = useRefusal("operator")
  const [again, setAgain] = useState<Again | undefined>()
  const question = approvals.data?.find((a) => a.step_id === step)
  const lost = ["failed", "timed_out", "cancelled"].includes(state)
  return (
    <section className="x-why" aria-label="Why">
      {kept && <Kept of={of} />}
      {!kept && <Loaded of={why} lines={2}>
        {(w) => (
          <ul>
            {w.reasons.map((r, i) => (
              <li key={i}>
                <span><Message text={r.message} /></span>
                {r.steps.filter((s) => s !== step).slice(0, 20).map((s) => <button key={s} type="button" className="x-step-link mono" onClick={() => select(s)}>{s}</button>)}
                {r.steps.length > 20 && <span className="quiet"> and {r.steps.length - 20} more</span>}
              </li>
            ))}
            {w.reasons.length === 0 && <li className="quiet">There is nothing to explain.</li>}
          </ul>
        )}
      </Loaded>}
      {at === undefined && <div className="row">
        {question && <Approval of={question} />}
        {lost && step && ended(x.status) && <Button refused={refused} onClick={() => setAgain({ kind: "retry" })}>Retry what did not complete…</Button>}
        {step && (lost || state === "completed") && <Button refused={refused} onClick={() => setAgain({ kind: "restart", step, failed: false })}>Restart from here…</Button>}
      </div>}
      {!kept && <WhatIf key={step ?? ""} step={step} />}
      {again && <AgainDialog again={again} onClose={() => setAgain(undefined)} />}
    </section>
  )
}

// Kept is what the step itself says of its end.
function Kept({ of: s }: { of: Named }) {
  const { select } = usePage()
  const cause = s.error?.step_id
  if (!s.error) return <p>{lookOf(s.status).word}{s.attempt > 1 ? ` in attempt ${s.attempt}` : ""}</p>
  return (
    <div>
      <Message text={s.error.message} />
      {s.error.hint && <div className="quiet">{s.error.hint}</div>}
      {cause && cause !== s.step_id && <button type="button" className="x-step-link mono" onClick={() => select(cause)}>{cause}</button>}
    </div>
  )
}
