import { formatDuration } from "../../format"
import { useRef, useState, type PointerEvent } from "react"
import { momentOf, placeOf, type Gap } from "../../field/layouts"
import type { View } from "../../field/raster"

const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5, 12e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5, 1728e5, 6048e5]

/** Ruler is the time above a waterfall; idle time that is drawn short is marked. Dragging on it chooses a time, in the units of the view. */
export function Ruler({ view, width, gaps, onBrush }: { view: View; width: number; gaps: Gap[]; onBrush: (from: number, to: number) => void }) {
  const begun = useRef<number>(undefined)
  const [brush, setBrush] = useState<[number, number]>()
  const at = (e: PointerEvent<HTMLElement>) => Math.max(0, Math.min(width, e.clientX - e.currentTarget.getBoundingClientRect().left))
  const down = (e: PointerEvent<HTMLElement>) => {
    if (e.button !== 0) return
    begun.current = at(e)
    e.currentTarget.setPointerCapture(e.pointerId)
  }
  const move = (e: PointerEvent<HTMLElement>) => {
    if (begun.current === undefined) return
    const now = at(e)
    setBrush([Math.min(begun.current, now), Math.max(begun.current, now)])
  }
  const up = (e: PointerEvent<HTMLElement>) => {
    const from = begun.current
    begun.current = undefined
    setBrush(undefined)
    const now = at(e)
    if (from !== undefined && e.type === "pointerup" && Math.abs(now - from) > 3) onBrush(view.x + Math.min(from, now) / view.sx, view.x + Math.max(from, now) / view.sx)
  }
  const every = steps.find((s) => s * view.sx >= 90) ?? steps.at(-1)!
  const [from, to] = [view.x, view.x + width / view.sx]
  const marks: { x: number; text: string }[] = []
  for (let t = Math.max(0, Math.ceil(momentOf(gaps, from) / every) * every), n = 0; n < 60; t += every, n++) {
    const x = placeOf(gaps, t)
    if (x > to) break
    const px = (x - view.x) * view.sx
    const folded = gaps.some((g) => x > g.x && x < g.x + g.width)
    if (!folded && px < width - 48 && (marks.length === 0 || px - marks.at(-1)!.x >= 70)) marks.push({ x: px, text: every < 1000 && t < 60_000 ? `${(t / 1000).toFixed(every < 10 ? 3 : every < 100 ? 2 : 1)} s` : formatDuration(t / 1000) })
  }
  return (
    <div className="x-ruler" aria-hidden="true" onPointerDown={down} onPointerMove={move} onPointerUp={up} onPointerCancel={up}>
      {brush && <b style={{ left: brush[0], width: brush[1] - brush[0] }} />}
      {marks.map((m) => <span key={m.text + m.x} style={{ left: m.x }}>{m.text}</span>)}
      {gaps.filter((g) => g.x + g.width > from && g.x < to).map((g) => (
        <i key={g.at} title={`${formatDuration(g.takes / 1000)} in which nothing ran`} style={{ left: (g.x - view.x) * view.sx, width: Math.max(6, g.width * view.sx) }} />
      ))}
    </div>
  )
}
