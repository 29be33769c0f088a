// Draws boxes on a 2D canvas: boxes of 4 pixels and more as such, smaller ones pixel by pixel. No React, no DOM but the canvas.
import { inside } from "./pick"
import type { Layout } from "./layouts"
import { pixels } from "./pixels"
import { queuedCode, waitingCode, type Spans } from "./waterfall"

/** View maps places to pixels: (x - view.x) * view.sx. */
export interface View { x: number; y: number; sx: number; sy: number }

export interface Paint {
  /** A colour for each value of status; undefined: such a step is not drawn. */
  fill: (string | undefined)[]
  /** How loud each value of status is: 0 calm; 1 must be seen at any size; 2 also where louder ones than calm lie around it. */
  loud: number[]
  /** Of attempts: the colours of the time in which one is queued, in which it waits for the next one, and in which its step waits for
   * something else. */
  waits?: { queued: string; backoff: string; waiting: string }
  ground: string
  line: string
  text: string
  quiet: string
  accent: string
  font: string
}

export interface Scene {
  layout: Layout
  status: Uint8Array
  first?: Uint32Array
  edges?: Uint32Array
  /** Steps that a filter leaves out are drawn faint. */
  dim?: Uint8Array
  /** A name that has no room in its box stands at its right. */
  beside?: boolean
  /** Boxes are elements above the canvas: only frames and edges are drawn. */
  bare?: boolean
}

export interface Drawn {
  /** Boxes in view that are high enough for a label; empty where there are too many. */
  labelled: number[]
  mode: "boxes" | "pixels"
}

const maxBoxes = 20_000 // more of them are quicker as pixels, however large they are
const maxEdges = 6000
const maxLabels = 500

/** draw draws a scene. Width and height are those of the canvas in its own pixels, of which ratio make one of the page's. */
export function draw(ctx: CanvasRenderingContext2D, scene: Scene, view: View, paint: Paint, ratio: number): Drawn {
  const { width, height } = ctx.canvas
  const v = { x: view.x, y: view.y, sx: view.sx * ratio, sy: view.sy * ratio }
  const small = heightOf(scene.layout) * view.sy < 4
  const seen = small && !scene.bare ? [] : inside(scene.layout, scene.layout.index, v.x, v.y, v.x + width / v.sx, v.y + height / v.sy, maxBoxes + 1)
  if (!scene.bare && (small || seen.length > maxBoxes)) {
    pixels(ctx, scene, v, paint, Math.round(3 * ratio))
    return { labelled: [], mode: "pixels" }
  }
  ctx.setTransform(1, 0, 0, 1, 0, 0)
  ctx.fillStyle = paint.ground
  ctx.fillRect(0, 0, width, height)
  const frames = new Set<number>(scene.layout.frames)
  drawFrames(ctx, scene, v, paint, seen, frames)
  if (scene.edges && seen.length <= maxEdges) drawEdges(ctx, scene, v, paint, seen, ratio)
  if (scene.bare) return { labelled: [], mode: "boxes" }
  drawBoxes(ctx, scene, v, paint, seen, frames)
  const boxes = seen.filter((i) => paint.fill[scene.status[i]!] && !frames.has(i) && (scene.beside || scene.layout.w[i]! * view.sx >= 32))
  return { labelled: heightOf(scene.layout) * view.sy >= 12 && boxes.length <= maxLabels ? seen.filter((i) => frames.has(i)).concat(boxes) : [], mode: "boxes" }
}

const heights = new WeakMap<Layout, number>()

/** heightOf is the height of a layout's smallest box. */
export function heightOf(layout: Layout): number {
  let h = heights.get(layout)
  if (h === undefined) {
    h = Infinity
    for (let i = 0; i < layout.n; i++) if (layout.w[i]! > 0 && layout.h[i]! < h) h = layout.h[i]!
    heights.set(layout, (h = h === Infinity ? 1 : h))
  }
  return h
}

function drawFrames(ctx: CanvasRenderingContext2D, { layout, status }: Scene, v: View, paint: Paint, seen: number[], frames: Set<number>) {
  ctx.lineWidth = 1
  for (const i of seen) {
    if (!frames.has(i)) continue
    const [x, y, w, h] = [(layout.x[i]! - v.x) * v.sx, (layout.y[i]! - v.y) * v.sy, layout.w[i]! * v.sx, layout.h[i]! * v.sy]
    ctx.globalAlpha = 0.07
    ctx.fillStyle = paint.fill[status[i]!] ?? paint.line
    ctx.fillRect(x, y, w, h)
    ctx.globalAlpha = 1
    ctx.strokeStyle = paint.line
    ctx.strokeRect(Math.round(x) + 0.5, Math.round(y) + 0.5, Math.max(1, Math.round(w) - 1), Math.max(1, Math.round(h) - 1))
  }
}

function drawEdges(ctx: CanvasRenderingContext2D, { layout, status, first, edges }: Scene, v: View, paint: Paint, seen: number[], ratio: number) {
  ctx.strokeStyle = paint.line
  ctx.lineWidth = Math.max(1, Math.min(1.5 * ratio, 2 * v.sx))
  ctx.beginPath()
  for (const i of seen) {
    for (let k = first![i]!; k < first![i + 1]!; k++) {
      const from = edges![k]!
      if (layout.w[from] === 0 || !paint.fill[status[i]!] || !paint.fill[status[from]!]) continue
      const x0 = (layout.x[from]! + layout.w[from]! - v.x) * v.sx
      const y0 = (layout.y[from]! + layout.h[from]! / 2 - v.y) * v.sy
      const x1 = (layout.x[i]! - v.x) * v.sx
      const y1 = (layout.y[i]! + layout.h[i]! / 2 - v.y) * v.sy
      const bend = Math.max(8, Math.min(80 * v.sx, Math.abs(x1 - x0) / 2))
      ctx.moveTo(x0, y0)
      ctx.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1)
    }
  }
  ctx.stroke()
}

function drawBoxes(ctx: CanvasRenderingContext2D, { layout, status, dim }: Scene, v: View, paint: Paint, seen: number[], frames: Set<number>) {
  // One colour after the other: changing it is what costs. Loud ones last, so that nothing hides them.
  const of = paint.fill.map(() => [] as number[])
  for (const i of seen) if (!frames.has(i) && of[status[i]!]) of[status[i]!]!.push(i)
  const order = of.map((_, s) => s).sort((a, b) => (paint.loud[a] ?? 0) - (paint.loud[b] ?? 0))
  if (layout.spans) drawWaits(ctx, layout, layout.spans, v, paint, seen, dim)
  for (const s of order) {
    const colour = paint.fill[s]
    if (!colour || of[s]!.length === 0) continue
    ctx.fillStyle = colour
    const least = paint.loud[s] ? 3 : 1
    for (const i of of[s]!) {
      if (dim) ctx.globalAlpha = dim[i] ? 0.15 : 1
      const [from, wide] = layout.spans ? [layout.spans.run[i]!, layout.spans.rest[i]! - layout.spans.run[i]!] : [layout.x[i]!, layout.w[i]!]
      if (layout.spans && status[i] === queuedCode) continue // it has not run
      ctx.fillRect((from - v.x) * v.sx, (layout.y[i]! - v.y) * v.sy, Math.max(least, wide * v.sx), Math.max(least, layout.h[i]! * v.sy))
    }
    ctx.globalAlpha = 1
  }
}

// drawWaits draws the time in which attempts are queued as a thin line with a bar where it begins, that until the next attempt as dashes,
// and that in which a step waits for something else as a hollow bar.
function drawWaits(ctx: CanvasRenderingContext2D, layout: Layout, spans: Spans, v: View, paint: Paint, seen: number[], dim: Uint8Array | undefined) {
  const width = ctx.canvas.width
  const line = Math.max(1, 2 * v.sy)
  for (const part of ["queued", "backoff", "waiting"] as const) {
    ctx.fillStyle = paint.waits?.[part] ?? paint.line
    for (const i of seen) {
      if (spans.row[i] === 0 || (part !== "queued" && (spans.state[i] === waitingCode) !== (part === "waiting"))) continue
      const [a, b] = part === "queued" ? [layout.x[i]!, spans.run[i]!] : [spans.rest[i]!, layout.x[i]! + layout.w[i]!]
      const from = Math.max(-8, (a - v.x) * v.sx)
      const to = Math.min(width + 8, (b - v.x) * v.sx)
      if (to - from < 1) continue
      if (dim) ctx.globalAlpha = dim[i] ? 0.15 : 1
      const [y, h] = [(layout.y[i]! - v.y) * v.sy, layout.h[i]! * v.sy]
      if (part === "queued") {
        ctx.fillRect(from, y + h / 2 - line / 2, to - from, line)
        ctx.fillRect(from, y + h / 5, line, (h * 3) / 5)
      } else if (part === "waiting") {
        const [top, thick] = [Math.round(y + h / 4), Math.max(1, Math.round(line))]
        for (const at of [top, top + Math.round(h / 2) - thick]) ctx.fillRect(from, at, to - from, thick)
        ctx.fillRect(to - thick, top, thick, Math.round(h / 2))
      } else for (let x = from; x < to; x += 8) ctx.fillRect(x, y + h / 2 - line, Math.min(4, to - x), 2 * line)
    }
  }
  ctx.globalAlpha = 1
}
