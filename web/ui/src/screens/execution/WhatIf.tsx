import { useState } from "react"
import type { Schemas } from "../../api/client"
import { Button } from "../../parts/Button"
import { Loaded } from "../../parts/Loading"
import { lookOf } from "../../states"
import { useWhatIf } from "./ask"
import { Linked } from "./Linked"
import { usePage } from "./page"

// The assumptions about a step, and about an execution, as `executions why --what-if` writes them.
const ofStep = (key: string) => [["it failed", `fail ${key}`], ["it failed for good", `fail ${key} permanently`], ["it completed", `complete ${key}`], ["it was skipped", `skip ${key}`], ["its worker was lost", `lose ${key}`], ["it was restarted", `restart ${key}`]] as const
const ofAll = [["it was retried", "retry"], ["it was cancelled", "cancel"], ["it was paused", "pause"], ["it went on", "resume"]] as const

const shown = 20 // entries of each list

/** WhatIf says what would come of something that is assumed of a step, or of the execution. Nothing is done. */
export function WhatIf({ step }: { step?: string }) {
  const { id, at } = usePage()
  const [asked, setAsked] = useState<string | undefined>()
  const choices = step ? ofStep(step) : ofAll
  const would = useWhatIf(id, asked || undefined, at)
  if (asked === undefined) return <Button kind="bare" onClick={() => setAsked("")}>What if…</Button>
  return (
    <div className="x-what-if" role="group" aria-label="What if">
      <label>What if{" "}
        <select value={asked} autoFocus onChange={(e) => setAsked(e.target.value)}>
          <option value="">…</option>
          {choices.map(([words, assume]) => <option key={assume} value={assume}>{words}</option>)}
        </select>
      </label>
      {asked && <Loaded of={would} lines={2}>{(w) => <Told of={w} self={step} />}</Loaded>}
    </div>
  )
}

const word = (status: string) => lookOf(status).word

// Told is the answer in sentences.
function Told({ of: w, self }: { of: Schemas["WhatIf"]; self?: string }) {
  const { select } = usePage()
  const name = (key: string) => (key === self ? <span className="mono">{key}</span> : <button type="button" className="x-step-link mono" onClick={() => select(key)}>{key}</button>)
  const more = (n: number) => n > shown && <li className="quiet">and {n - shown} more</li>
  const changed = w.was !== w.status
  return (
    <ul aria-live="polite">
      <li>{changed ? `The execution would be ${word(w.status)}` : `The execution would stay ${word(w.status)}`}{w.error && <>: <Linked text={w.error.message} /></>}.</li>
      {w.dispatched.slice(0, shown).map((t) => <li key={t.step_id}>{name(t.step_id)} would run at once{t.attempt > 1 && `, in attempt ${t.attempt}`}.</li>)}
      {more(w.counts.dispatched)}
      {w.changed.slice(0, shown).map((c) => <li key={c.step_id}>{name(c.step_id)} would be {word(c.status)}{c.reasons[0] && <>: <Linked text={c.reasons[0].message} /></>}.</li>)}
      {more(w.counts.changed)}
      {w.stopped.length > 0 && <li>Asked to stop: {w.stopped.slice(0, shown).join(", ")}.</li>}
      {w.twice.length > 0 && <li>Must not run twice, and would: {w.twice.slice(0, shown).join(", ")}.</li>}
      {!changed && w.counts.dispatched + w.counts.changed + w.stopped.length === 0 && <li className="quiet">Nothing would change.</li>}
      <li className="quiet">Nothing has been done.</li>
    </ul>
  )
}
