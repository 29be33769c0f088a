import { formatDuration } from "../../format"
import { momentOf, type Gap } from "../../field/layouts"
import type { View } from "../../field/raster"

const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5, 12e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5, 1728e5, 6048e5]

/** Ruler is the time above a waterfall; idle time that is drawn short is marked. */
export function Ruler({ view, width, gaps }: { view: View; width: number; gaps: Gap[] }) {
  const every = steps.find((s) => s * view.sx >= 90) ?? steps.at(-1)!
  const [from, to] = [view.x, view.x + width / view.sx]
  const marks: { x: number; text: string }[] = []
  for (let t = Math.max(0, Math.ceil(momentOf(gaps, from) / every) * every), n = 0; n < 60; t += every, n++) {
    const x = placeOf(gaps, t)
    if (x > to) break
    const px = (x - view.x) * view.sx
    if (marks.length === 0 || px - marks.at(-1)!.x >= 70) marks.push({ x: px, text: formatDuration(t / 1000) })
  }
  return (
    <div className="x-ruler" aria-hidden="true">
      {marks.map((m) => <span key={m.text + m.x} style={{ left: m.x }}>{m.text}</span>)}
      {gaps.filter((g) => g.x + g.width > from && g.x < to).map((g) => (
        <i key={g.at} title={`${formatDuration(g.takes / 1000)} in which nothing ran`} style={{ left: (g.x - view.x) * view.sx, width: Math.max(6, g.width * view.sx) }} />
      ))}
    </div>
  )
}

function placeOf(gaps: Gap[], t: number): number {
  let x = t
  for (const g of gaps) {
    if (t <= g.at) break
    x -= Math.min(1, (t - g.at) / g.takes) * (g.takes - g.width)
  }
  return x
}
