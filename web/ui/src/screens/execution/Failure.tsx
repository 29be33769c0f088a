import { useEffect, useState } from "react"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { ended } from "../../states"
import { AgainDialog } from "./Actions"
import { useGraph, useLost } from "./ask"
import { usePage } from "./page"
import { Why } from "./Why"

const soon = 300 // ms after which the page is at rest
const most = 300 // letters of an error in the line above the tabs; what it opens has all of them

/** Failure says why the execution failed, or what failed in one that went on; the step that is the cause, and a retry, are one click
 * away. */
export function Failure() {
  const { id, x, select } = usePage()
  const refused = useRefusal("operator")
  const [retry, setRetry] = useState(false)
  // Reasons cost the server more than the pictures of an execution, which come first.
  const drawn = useGraph(id, []).data !== undefined
  const [rests, setRests] = useState(false)
  useEffect(() => {
    if (!drawn) return
    const timer = setTimeout(() => setRests(true), soon)
    return () => clearTimeout(timer)
  }, [drawn])
  const lost = useLost(id, !x.error && rests).data
  const error = x.error ?? lost?.error
  const cause = error?.step_id ?? lost?.step_id
  const cancelled = x.status === "cancelled"
  const message = cancelled && error?.message === "cancelled" ? "It was cancelled before its end." : error?.message
  return (
    <section className="x-failure" data-quiet={cancelled || undefined} aria-label={cancelled ? "Why it ended" : "Why it failed"}>
      <details>
        <summary><strong>{message ? (message.length > most ? message.slice(0, most) + "…" : message) : (x.progress.failed > 0 ? "Steps failed, and the pipeline went on." : "Items failed, and the pipeline went on: the tab streams lists them.")}</strong>{error?.hint ? <span className="quiet"> {error.hint}</span> : null}</summary>
        {rests && <Why state={x.status} />}
      </details>
      <span className="row">
        {cause && <Button title={`Show ${cause}`} onClick={() => select(cause)}>Show <span className="mono clip x-cause">{cause}</span></Button>}
        {ended(x.status) && <Button refused={refused} onClick={() => setRetry(true)}>Retry what did not complete…</Button>}
      </span>
      {retry && <AgainDialog again={{ kind: "retry" }} onClose={() => setRetry(false)} />}
    </section>
  )
}
