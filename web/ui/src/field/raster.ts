// Draws boxes on a 2D canvas: boxes of 4 pixels and more as such, smaller ones pixel by pixel. No React, no DOM but the canvas.
import { inside } from "./pick"
import type { Layout } from "./layouts"
import { queuedCode, type Spans } from "./waterfall"

/** View maps places to pixels: (x - view.x) * view.sx. */
export interface View { x: number; y: number; sx: number; sy: number }

export interface Paint {
  /** A colour for each value of status; undefined: such a step is not drawn. */
  fill: (string | undefined)[]
  /** How loud each value of status is: 0 calm; 1 must be seen at any size; 2 also where louder ones than calm lie around it. */
  loud: number[]
  /** Of attempts: the colours of the time in which one is queued, and in which it waits for the next one. */
  waits?: { queued: string; backoff: string }
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
  const seen = small && !scene.bare ? [] : inside(scene.layout, scene.layout.index, v.x, v.y, v.x + width / v.sx, v.y + height / v.sy)
  if (!scene.bare && (small || seen.length > maxBoxes)) {
    pixels(ctx, scene, v, paint, width, height, Math.round(3 * ratio))
    return { labelled: [], mode: "pixels" }
  }
  ctx.setTransform(1, 0, 0, 1, 0, 0)
  ctx.fillStyle = paint.ground
  ctx.fillRect(0, 0, width, height)
  const frames = new Set<number>(seen.length > 50_000 ? [] : scene.layout.frames)
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

// drawWaits draws the time in which attempts are queued as a thin line with a bar where it begins, and that until the next attempt as dashes.
function drawWaits(ctx: CanvasRenderingContext2D, layout: Layout, spans: Spans, v: View, paint: Paint, seen: number[], dim: Uint8Array | undefined) {
  const width = ctx.canvas.width
  const line = Math.max(1, 2 * v.sy)
  for (const part of ["queued", "backoff"] as const) {
    ctx.fillStyle = paint.waits?.[part] ?? paint.line
    for (const i of seen) {
      if (spans.row[i] === 0) continue
      const [a, b] = part === "queued" ? [layout.x[i]!, spans.run[i]!] : [spans.rest[i]!, layout.x[i]! + layout.w[i]!]
      const from = Math.max(-8, (a - v.x) * v.sx)
      const to = Math.min(width + 8, (b - v.x) * v.sx)
      if (to - from < 1) continue
      if (dim) ctx.globalAlpha = dim[i] ? 0.15 : 1
      const [y, h] = [(layout.y[i]! - v.y) * v.sy, layout.h[i]! * v.sy]
      if (part === "queued") {
        ctx.fillRect(from, y + h / 2 - line / 2, to - from, line)
        ctx.fillRect(from, y + h / 5, line, (h * 3) / 5)
      } else for (let x = from; x < to; x += 8) ctx.fillRect(x, y + h / 2 - line, Math.min(4, to - x), 2 * line)
    }
  }
  ctx.globalAlpha = 1
}

let image: ImageData | undefined

// pixels writes colours into memory: first the calm states, then the loud ones, each of them `least` pixels wide and high at least.
function pixels(ctx: CanvasRenderingContext2D, scene: Scene, v: View, paint: Paint, width: number, height: number, least: number) {
  if (!image || image.width !== width || image.height !== height) image = ctx.createImageData(width, height)
  const out = new Uint32Array(image.data.buffer)
  out.fill(packed(paint.ground))
  paintPixels(out, width, height, scene, v, paint, least)
  ctx.putImageData(image, 0, 0)
}

/** paintPixels is pixels without a canvas. */
export function paintPixels(out: Uint32Array, width: number, height: number, { layout, status, dim }: Scene, v: View, paint: Pick<Paint, "fill" | "loud" | "ground" | "waits">, least: number) {
  const ground = packed(paint.ground)
  const colours = paint.fill.map((f) => (f ? packed(f) : 0))
  const faint = colours.map((c) => mix(c, ground))
  const { x: xs, y: ys, w: ws, h: hs, spans } = layout
  const skip = new Uint8Array(layout.n)
  for (const i of layout.frames) skip[i] = 1
  if (spans) {
    // Thousands of long waits may lie in one row of pixels: where each begins and ends is counted, and every pixel is written once.
    for (const part of ["queued", "backoff"] as const) {
      const count = new Int32Array((width + 1) * height)
      let any = false
      for (let i = 0; i < layout.n; i++) {
        if (ws[i] === 0 || skip[i] || dim?.[i] || !colours[status[i]!]) continue
        const [from, to] = part === "queued" ? [xs[i]!, spans.run[i]!] : [spans.rest[i]!, xs[i]! + ws[i]!]
        const y = Math.floor((ys[i]! - v.y) * v.sy)
        if (to <= from || y < 0 || y >= height) continue
        const [x0, x1] = [Math.max(0, Math.floor((from - v.x) * v.sx)), Math.min(width, Math.floor((to - v.x) * v.sx))]
        if (x1 <= x0) continue
        any = true
        count[y * (width + 1) + x0]!++
        count[y * (width + 1) + x1]!--
      }
      if (!any) continue
      const colour = part === "queued" ? mix(packed(paint.waits?.queued ?? paint.ground), ground, 0.4) : mix(packed(paint.waits?.backoff ?? paint.ground), ground, 0.7)
      for (let y = 0; y < height; y++) for (let x = 0, at = y * (width + 1), n = 0; x < width; x++) if ((n += count[at + x]!) > 0) out[y * width + x] = colour
    }
  }
  const lefts = spans ? spans.run : xs
  const loudest = Math.max(0, ...paint.loud)
  for (let pass = 0; pass <= loudest; pass++) {
    const size = pass === 0 ? 1 : least
    for (let i = 0; i < layout.n; i++) {
      const s = status[i]!
      if ((dim?.[i] ? 0 : (paint.loud[s] ?? 0)) !== pass || ws[i] === 0 || skip[i]) continue
      const colour = dim?.[i] ? faint[s]! : colours[s]!
      if (!colour || (spans && s === queuedCode)) continue
      let x0 = ((lefts[i]! - v.x) * v.sx) | 0
      let y0 = ((ys[i]! - v.y) * v.sy) | 0
      let x1 = Math.max(x0 + size, (((spans ? spans.rest[i]! : xs[i]! + ws[i]!) - v.x) * v.sx) | 0)
      let y1 = Math.max(y0 + size, ((ys[i]! + hs[i]! - v.y) * v.sy) | 0)
      if (x1 <= 0 || y1 <= 0 || x0 >= width || y0 >= height) continue
      // A step that is partly in view keeps its least size, also at the left and upper edge.
      if (x0 < 0) {
        x0 = 0
        if (x1 < size) x1 = size
      }
      if (y0 < 0) {
        y0 = 0
        if (y1 < size) y1 = size
      }
      if (x1 > width) {
        x1 = width
        if (x0 > x1 - size) x0 = Math.max(0, x1 - size)
      }
      if (y1 > height) {
        y1 = height
        if (y0 > y1 - size) y0 = Math.max(0, y1 - size)
      }
      for (let y = y0; y < y1; y++) {
        const row = y * width
        for (let x = x0; x < x1; x++) out[row + x] = colour
      }
    }
  }
}

/** packed is a colour #rrggbb as a pixel of little-endian memory. */
export function packed(colour: string): number {
  const n = parseInt(colour.slice(1), 16)
  return (0xff000000 | ((n & 0xff) << 16) | (n & 0xff00) | (n >> 16)) >>> 0
}

function mix(a: number, b: number, of = 0.15): number {
  const part = (shift: number) => Math.round(((a >>> shift) & 0xff) * of + ((b >>> shift) & 0xff) * (1 - of)) << shift
  return a === 0 ? 0 : ((0xff000000 | part(16) | part(8) | part(0)) >>> 0)
}
