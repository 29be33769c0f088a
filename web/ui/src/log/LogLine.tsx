import { memo, type CSSProperties } from "react"
import { formatDuration, formatMoment } from "../format"
import { parse, type Span } from "./ansi"
import type { Line } from "./lines"

interface Props {
  line: Line
  ground: string
  /** Milliseconds since 1970 from which times count; undefined: they are times of day. */
  from?: number
  withStep: boolean
  chosen: boolean
  q?: string
  /** Shows what comes with the line besides its text. */
  fields: boolean
  onLink: (seq: number) => void
  onStep?: (key: string) => void
}

const cssOf = (s: Span): CSSProperties | undefined =>
  s.color || s.background || s.bold || s.dim || s.italic || s.underline || s.strike
    ? { color: s.color, background: s.background, fontWeight: s.bold ? 700 : undefined, fontStyle: s.italic ? "italic" : undefined, textDecoration: [s.underline && "underline", s.strike && "line-through"].filter(Boolean).join(" ") || undefined }
    : undefined

/** LogLine is one line: when, how important, from which step, and its text. Everything is a text node. What a click does, keys do for
 * the line that is chosen. */
export const LogLine = memo(function LogLine({ line, ground, from, withStep, chosen, q, fields, onLink, onStep }: Props) {
  const at = line.timestamp ? Date.parse(line.timestamp) : NaN
  const more = typeof line.metadata === "object" && line.metadata !== null && Object.keys(line.metadata).length > 0
  return (
    <div className="log-line" data-level={line.level} data-chosen={chosen || undefined} data-hit={line.hit || undefined} data-seq={line.seq}>
      <span className="log-time" title={`${line.timestamp ?? ""} · line ${line.seq}: click to copy a link to it`} onClick={() => onLink(line.seq)}>
        {from === undefined ? formatMoment(at, true).slice(11) : `+${formatDuration((at - from) / 1000)}`}
      </span>
      <span className="log-level">{line.level === "info" ? "" : line.level.slice(0, 4)}</span>
      {withStep && <span className="log-step clip" title={line.step_id} onClick={() => onStep?.(line.step_id)}>{line.step_id}</span>}
      <span className="log-text">
        {parse(line.message, ground).map((s, i) => <span key={i} style={cssOf(s)}>{q ? <Marked text={s.text} q={q} /> : s.text}</span>)}
        {more && fields && <span className="log-fields"> {JSON.stringify(line.metadata)}</span>}
      </span>
    </div>
  )
})

// Marked shows where the text that one looks for is.
function Marked({ text, q }: { text: string; q: string }) {
  const low = text.toLowerCase()
  const wanted = q.toLowerCase()
  const parts = []
  let at = 0
  for (let i = low.indexOf(wanted); i >= 0 && parts.length < 100; i = low.indexOf(wanted, at)) {
    parts.push(text.slice(at, i), <mark key={i}>{text.slice(i, i + q.length)}</mark>)
    at = i + q.length
  }
  return <>{parts}{text.slice(at)}</>
}
