import type { Schemas } from "../../api/client"
import { formatMoment } from "../../format"

/** Preview shows what a timing means: in words, its next ten times, and what is wrong. */
export function Preview({ of }: { of: Schemas["Preview"] | undefined }) {
  if (!of) return null
  return (
    <div className="note timing" role="status" aria-label="When it fires" data-kind={of.problems.length > 0 ? "warn" : undefined}>
      {of.words && <strong>{of.words}</strong>}
      {of.problems.map((p, i) => <div key={i}>{p.message}{p.hint && `: ${p.hint}`}</div>)}
      {of.next_runs.length > 0 && <ol>{of.next_runs.map((at) => <li key={at}>{formatMoment(at!)}</li>)}</ol>}
    </div>
  )
}
