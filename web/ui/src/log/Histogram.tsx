import { useEffect, useRef, type KeyboardEvent } from "react"
import { api, data, useAsk, type Schemas } from "../api/client"
import { formatMoment, some } from "../format"

type Span = Schemas["LogSpan"]

const spans = 120
const pause = 3_000 // ms between two counts of a log that grows

/** The levels from the bottom up: what is loud is always seen. */
const levels = [["error", "--danger"], ["warning", "--state-retrying"], ["info", "--state-grey"], ["debug", "--line"]] as const

/** tell says in words what is in a part of a log. */
export function tell(s: Span): string {
  const loud = levels.slice(0, 2).filter(([l]) => s[l] > 0).map(([l]) => some(s[l], l))
  return [s.from ? formatMoment(s.from, true).slice(11) : "", some(s.lines, "line"), ...loud].filter(Boolean).join(", ")
}

/** heights are those of the levels of a part, of 100 for the part with the most lines; a level that has a line has at least some. */
export function heights(s: Span, most: number): number[] {
  const least = 8
  return levels.map(([l]) => (s[l] === 0 ? 0 : Math.max(l === "error" || l === "warning" ? least : 0, (100 * s[l]) / most)))
}

/** Histogram is the whole log as bars by level; a click, or the arrow keys, jump to that part. It is counted when the lines are there,
 * which are wanted first. */
export function Histogram({ when, execution, version, line, onJump }: { when: boolean; execution: string; version: number; line?: number; onJump: (seq: number) => void }) {
  const asked = useAsk(["execution", execution, "histogram"], (signal) => data(api.GET("/api/v1/executions/{execution_id}/logs/histogram", { params: { path: { execution_id: execution }, query: { spans } }, signal })), { staleTime: pause, enabled: when })
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const latest = useRef(asked.refetch)
  latest.current = asked.refetch
  const counted = asked.data?.version ?? version
  useEffect(() => {
    if (version > counted) timer.current ??= setTimeout(() => { timer.current = undefined; void latest.current() }, pause)
  }, [version, counted])
  useEffect(() => () => clearTimeout(timer.current), [])
  const list = asked.data?.spans ?? []
  if (list.length < 2) return null
  const most = Math.max(...list.map((s) => s.lines))
  const found = line === undefined ? -1 : list.findIndex((s) => line < s.until_seq)
  const at = found < 0 ? list.length - 1 : found
  const go = (i: number) => onJump(list[Math.max(0, Math.min(list.length - 1, i))]!.first_seq)
  const key = (e: KeyboardEvent) => {
    const to = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, PageDown: at - 10, PageUp: at + 10, Home: 0, End: list.length - 1 }[e.key]
    if (to === undefined) return
    e.preventDefault()
    e.stopPropagation()
    go(to)
  }
  const sum = (l: "error" | "warning") => list.reduce((n, s) => n + s[l], 0)
  return (
    <figure className="log-histogram">
      <div
        role="slider" tabIndex={0} aria-label="Where in the log" aria-valuemin={1} aria-valuemax={list.length} aria-valuenow={at + 1} aria-valuetext={tell(list[at]!)} title="Click to jump there"
        onKeyDown={key} onClick={(e) => { const box = e.currentTarget.getBoundingClientRect(); go(Math.floor(((e.clientX - box.left) / box.width) * list.length)) }}
      >
        <svg viewBox={`0 0 ${list.length} 100`} preserveAspectRatio="none" aria-hidden="true">
          {found >= 0 && <rect x={found} width={1} height={100} fill="var(--chosen)" />}
          {list.map((s, i) => {
            let top = 100
            return <g key={s.first_seq}><title>{tell(s)}</title>{heights(s, most).map((h, l) => h > 0 && <rect key={l} x={i + 0.06} width={0.88} y={(top = Math.max(0, top - h))} height={h} fill={`var(${levels[l]![1]})`} />)}</g>
          })}
        </svg>
      </div>
      <figcaption className="quiet"><span>{list[0]!.from && formatMoment(list[0]!.from)}</span><span>{[some(asked.data!.lines, "line"), some(sum("warning"), "warning"), some(sum("error"), "error")].join(", ")}</span><span>{list.at(-1)!.from && formatMoment(list.at(-1)!.from!)}</span></figcaption>
    </figure>
  )
}
