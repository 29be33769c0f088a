import type { Problem } from "../api/client"

/** ProblemBox shows what failed, why, and what to do; with all that a report needs to be copied. */
export function ProblemBox({ problem, title, again }: { problem: Problem; title?: string; again?: () => void }) {
  const copy = () => navigator.clipboard?.writeText([title, `${problem.code}: ${problem.message}`, problem.hint, problem.request && `request ${problem.request}`].filter(Boolean).join("\n"))
  return (
    <div className="problem" role="alert">
      <strong>{title ? `${title}: ${problem.message}` : problem.message}</strong>
      {problem.hint && <div>{problem.hint}</div>}
      {problem.details.slice(0, 20).map((d, i) => (
        <div key={i} className="mono">{[d.line ? `${d.line}:${d.column ?? 1}` : d.location, d.message, d.hint].filter(Boolean).join(": ")}</div>
      ))}
      <div className="row">
        <small>
          {problem.code}
          {problem.request && ` · request ${problem.request}`}
        </small>
        <button type="button" className="button" data-kind="bare" onClick={copy}>Copy</button>
        {again && <button type="button" className="button" onClick={again}>Try again</button>}
      </div>
    </div>
  )
}
