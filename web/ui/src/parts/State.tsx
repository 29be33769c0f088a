import { formatCount } from "../format"
import { lookOf } from "../states"
import { shapes } from "./shapes"

/** StateMark is the shape of a state in its colour. */
export function StateMark({ state, size = 12 }: { state: string; size?: number }) {
  const look = lookOf(state)
  const shape = shapes[look.shape]!
  const colour = `var(${look.token})`
  return (
    <svg width={size} height={size} viewBox="0 0 12 12" aria-hidden="true">
      <path d={shape.path} stroke={shape.line ? colour : "none"} strokeWidth={shape.line} fill={shape.fill ? colour : "none"} fillOpacity={shape.fill} strokeLinecap="round" strokeLinejoin="round" />
    </svg>
  )
}

/** StateWord is the shape and the word of a state. */
export function StateWord({ state, count }: { state: string; count?: number }) {
  return (
    <span className="state">
      <StateMark state={state} />
      <span className="clip" title={lookOf(state).word}>{count !== undefined && formatCount(count) + " "}{lookOf(state).word}</span>
    </span>
  )
}

/** StateBar shows shares of states as a bar. */
export function StateBar({ counts, label }: { counts: Record<string, number>; label: string }) {
  const total = Object.values(counts).reduce((a, b) => a + b, 0)
  return (
    <div className="bar" role="img" aria-label={label}>
      {Object.entries(counts).map(([state, n]) => (
        <i key={state} style={{ width: `${(100 * n) / Math.max(1, total)}%`, background: `var(${lookOf(state).token})` }} />
      ))}
    </div>
  )
}
