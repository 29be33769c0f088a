import { useMemo, useRef, useState, type PointerEvent } from "react"
import { formatCount, formatDuration, formatMoment } from "../../format"
import { shapes } from "../../parts/shapes"
import { lookOf } from "../../states"
import type { Execution } from "./query"
import { nearest, scatter } from "./scatter"

interface Props {
  rows: readonly Execution[]
  /** There are more than are loaded. */
  more: boolean
  onOpen: (id: string) => void
  /** A time was chosen by dragging. */
  onRange: (from: string, to: string) => void
}

const dragged = 8 // px from which on a press is no click

/** Durations are the loaded executions as points: a click opens one, dragging chooses a time. The list below has the same, by keyboard too. */
export function Durations({ rows, more, onOpen, onRange }: Props) {
  const s = useMemo(() => scatter(rows), [rows])
  const pressed = useRef<number | undefined>(undefined)
  const [drag, setDrag] = useState<[number, number]>()
  const [over, setOver] = useState<string>()
  const place = (e: PointerEvent) => {
    const box = e.currentTarget.getBoundingClientRect()
    const x = Math.max(0, Math.min(1, (e.clientX - box.left) / box.width))
    return { x, box, point: nearest(s.points, x, (e.clientY - box.top) / box.height, box.width, box.height) }
  }
  if (s.points.length === 0) return <p className="quiet">None of these has ended yet: there are no durations.</p>
  const move = (e: PointerEvent) => {
    const { x, box, point } = place(e)
    setOver(point?.id)
    if (pressed.current !== undefined) setDrag(Math.abs(x - pressed.current) * box.width >= dragged ? [Math.min(x, pressed.current), Math.max(x, pressed.current)] : undefined)
  }
  const up = (e: PointerEvent) => {
    const { point } = place(e)
    if (drag) onRange(...(drag.map((x, i) => new Date(Math.floor((s.from + x * (s.to - s.from)) / 1000 + i) * 1000).toISOString()) as [string, string]))
    else if (pressed.current !== undefined && point) onOpen(point.id)
    pressed.current = undefined
    setDrag(undefined)
  }
  const shown = s.points.find((p) => p.id === over)
  return (
    <figure className="durations">
      <div
        className="durations-field" style={{ cursor: shown ? "pointer" : "crosshair" }}
        onPointerDown={(e) => { e.currentTarget.setPointerCapture(e.pointerId); pressed.current = place(e).x }} onPointerMove={move} onPointerUp={up} onPointerCancel={() => { pressed.current = undefined; setDrag(undefined) }} onPointerLeave={() => setOver(undefined)}
      >
        <svg width="100%" height="100%" overflow="visible" role="img" aria-label={`Durations of ${formatCount(s.points.length)} executions, from ${formatDuration(s.least)} to ${formatDuration(s.most)}; the list below has them one by one`}>
          {drag && <rect x={`${drag[0] * 100}%`} width={`${(drag[1] - drag[0]) * 100}%`} height="100%" fill="var(--chosen)" />}
          {s.points.map((p) => {
            const look = lookOf(p.status)
            const shape = shapes[look.shape]!
            const colour = `var(${look.token})`
            return <svg key={p.id} x={`${p.x * 100}%`} y={`${(1 - p.y) * 100}%`} overflow="visible"><path transform={`translate(-5 -5) scale(${p.id === over ? 1.2 : 0.85})`} d={shape.path} stroke={shape.line ? colour : "none"} strokeWidth={shape.line} fill={shape.fill ? colour : "none"} fillOpacity={shape.fill} /></svg>
          })}
        </svg>
      </div>
      <figcaption className="quiet">
        <span>{formatMoment(s.from)}</span>
        <span>{shown ? `${shown.pipeline}: ${lookOf(shown.status).word}, ${formatDuration(shown.seconds)}` : `${formatDuration(s.least)} to ${formatDuration(s.most)}, of ${formatCount(s.points.length)} ${more || s.left > 0 ? "that are loaded and newest" : "that have ended"}`}</span>
        <span>{formatMoment(s.to)}</span>
      </figcaption>
    </figure>
  )
}
