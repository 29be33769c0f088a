import type { ReactNode } from "react"
import { Link } from "wouter"
import type { Schemas } from "../../api/client"
import { formatCount, shortID } from "../../format"
import { Ago } from "../../parts/Time"

type Step = Schemas["QueueStep"]

/** StepLink leads to a step in its execution. */
export function StepLink({ of: s, text, name }: { of: Step; text?: ReactNode; name?: string }) {
  return <Link href={`/executions/${s.execution_id}?step=${encodeURIComponent(s.step_id)}`} title={`${s.step_id} of ${s.execution_id}`} aria-label={name}>{text ?? <>{s.step_id} <span className="quiet">of {shortID(s.execution_id)}</span></>}</Link>
}

/** Holders are the steps that take the places of a queue with a limit. */
export function Holders({ of: q }: { of: Schemas["StepQueue"] }) {
  const held = q.holders ?? []
  return (
    <div className="queue-holders">
      <p className="quiet">These take the places of {q.name} on this server, the longest first:</p>
      <ul aria-label={`Who holds ${q.name}`}>
        {held.map((s) => (
          <li key={`${s.execution_id} ${s.step_id}`}>
            <StepLink of={s} /> <span className="quiet">{s.list ? <>in the list <code>{s.list}</code></> : s.worker_id ? <>on {s.worker_id}</> : null}{s.since ? <>, since <Ago time={s.since} /></> : null}</span>
          </li>
        ))}
      </ul>
      {q.running > held.length && <p className="quiet">and {formatCount(q.running - held.length)} more.</p>}
    </div>
  )
}
