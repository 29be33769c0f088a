import { expect, test } from "vitest"
import { arrange } from "./layouts"
import { drawLabels } from "./labels"
import type { Naming } from "./names"
import type { Paint } from "./raster"
import { synthetic } from "./synthetic.test-data"
import { tryStates } from "./waterfall"

const wide = 7 // pixels a letter
const paint: Paint = { fill: tryStates.map(() => "#336699"), loud: [], ground: "#ffffff", line: "#888888", text: "#000000", quiet: "#666666", accent: "#0000ff", font: "mono" }

/** written are the names that a waterfall of a width writes, from where to where. */
function written(name: string, width: number, x: number, sx: number, start: number[]) {
  const s = synthetic(3)
  s.start.set(start)
  s.duration.fill(100)
  const layout = arrange(s, { kind: "waterfall", rows: "step", now: s.began + 10_000 })
  const out: { text: string; from: number; to: number }[] = []
  const ctx = { canvas: { width, height: 200 }, setTransform() {}, fillRect() {}, measureText: () => ({ width: wide }), fillText: (text: string, at: number) => out.push({ text, from: at, to: at + text.length * wide }) }
  const names: Naming = { get: (i) => ({ index: i, step_id: `${name}-${i}` }) as ReturnType<Naming["get"]>, want: () => {}, onChange: () => () => {}, revision: () => 0 }
  drawLabels(ctx as unknown as CanvasRenderingContext2D, { layout, status: layout.spans!.state, beside: true }, { x, y: 0, sx, sy: 1 }, paint, 1, [0, 1, 2], { states: tryStates, cards: false }, names)
  return out
}

test("no name of a waterfall is cut off at the right edge: it moves before the bar, or over it", () => {
  const [first, second, third] = written("a-name-of-some-length", 700, 0, 1, [1, 301, 551])
  expect(first!.from).toBeGreaterThan(100) // there is room behind the bar
  expect(second!.from).toBeGreaterThan(400)
  expect([third!.to <= 551, third!.from >= 0]).toEqual([true, true]) // before the bar
  for (const [width, sx, x] of [[700, 1, 0], [700, 1, 300], [260, 0.5, 0], [120, 2, 900], [700, 6.5, 0], [90, 0.1, 0]] as const) {
    for (const w of written("a-name-of-some-length", width, x, sx, [1, 301, 551])) expect([w.text, w.to <= Math.max(width, w.from + 2 * wide)], `${width} ${sx} ${x} ${JSON.stringify(w)}`).toEqual([w.text, true])
  }
})
