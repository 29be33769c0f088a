import type { JSX } from "react"
import { lookOf } from "../states"

// Each state has a shape of its own, so that nothing is said by colour alone.
const shapes: Record<string, JSX.Element> = {
  circle: <circle cx="6" cy="6" r="4.2" fill="none" strokeWidth="1.6" />,
  dot: <circle cx="6" cy="6" r="3.2" stroke="none" />,
  half: <path d="M6 1.8a4.2 4.2 0 0 1 0 8.4zM6 1.8a4.2 4.2 0 1 0 0 8.4" fillOpacity="0.35" strokeWidth="1.4" />,
  diamond: <path d="M6 1l5 5-5 5-5-5z" stroke="none" />,
  arrow: <path d="M9.8 4.2A4.2 4.2 0 1 0 10.2 7M10.4 1.4v3h-3" fill="none" strokeWidth="1.7" />,
  tick: <path d="M1.8 6.4l2.9 3L10.2 3" fill="none" strokeWidth="2" />,
  cross: <path d="M2.4 2.4l7.2 7.2M9.6 2.4L2.4 9.6" fill="none" strokeWidth="2.2" />,
  "tick-cross": <path d="M1 6.4l2 2.2L6.6 4M7.4 6.4l3.6 3.6M11 6.4L7.4 10" fill="none" strokeWidth="1.6" />,
  clock: <path d="M6 1.4a4.6 4.6 0 1 0 0 9.2 4.6 4.6 0 0 0 0-9.2M6 3.4V6l2 1.4" fill="none" strokeWidth="1.6" />,
  dash: <path d="M2 6h8" fill="none" strokeWidth="2" />,
  bar: <path d="M2.8 9.2l6.4-6.4M6 1.4a4.6 4.6 0 1 0 0 9.2 4.6 4.6 0 0 0 0-9.2" fill="none" strokeWidth="1.5" />,
  pause: <path d="M3.6 2v8M8.4 2v8" fill="none" strokeWidth="2.2" />,
}

/** StateMark is the shape of a state in its colour. */
export function StateMark({ state, size = 12 }: { state: string; size?: number }) {
  const look = lookOf(state)
  return (
    <svg width={size} height={size} viewBox="0 0 12 12" aria-hidden="true" stroke={`var(${look.token})`} fill={`var(${look.token})`} strokeLinecap="round" strokeLinejoin="round">
      {shapes[look.shape]}
    </svg>
  )
}

/** StateWord is the shape and the word of a state. */
export function StateWord({ state, count }: { state: string; count?: number }) {
  return (
    <span className="state">
      <StateMark state={state} />
      {count !== undefined && count.toLocaleString("en-US") + " "}
      {lookOf(state).word}
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
