import { useEffect, useState } from "react"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { ended } from "../../states"
import { AgainDialog } from "./Actions"
import { useGraph, useLost } from "./ask"
import { usePage } from "./page"
import { Why } from "./Why"

const soon = 300 // ms after which the page is at rest

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
  return (
    <section className="x-failure" aria-label="Why it failed">
      <details>
        <summary><strong>{error?.message ?? (x.progress.failed > 0 ? "Steps failed, and the pipeline went on." : "Items failed, and the pipeline went on: the tab streams lists them.")}</strong>{error?.hint ? <span className="quiet"> {error.hint}</span> : null}</summary>
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
