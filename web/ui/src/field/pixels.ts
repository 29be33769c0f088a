// Boxes of less than a few pixels, and many of them, as colours in memory. No DOM but the image.
import type { Layout } from "./layouts"
import type { Paint, Scene, View } from "./raster"
import { queuedCode, waitingCode, type Spans } from "./waterfall"

type Colours = Pick<Paint, "fill" | "loud" | "ground" | "waits">

let image: ImageData | undefined

/** pixels paints a scene onto a canvas: first the calm states, then the loud ones, each of them `least` pixels wide and high at least. */
export function pixels(ctx: CanvasRenderingContext2D, scene: Scene, v: View, paint: Paint, least: number) {
  const { width, height } = ctx.canvas
  if (!image || image.width !== width || image.height !== height) image = ctx.createImageData(width, height)
  const out = new Uint32Array(image.data.buffer)
  out.fill(packed(paint.ground))
  paintPixels(out, width, height, scene, v, paint, least)
  ctx.putImageData(image, 0, 0)
}

// Facts about a layout that are the same for every picture of it.
interface Known {
  /** What is drawn: not the frames, and nothing without width. */
  shown: Uint32Array
  /** The height that all have; 0: they differ. */
  height: number
  /** Whether there are such times. */
  queued: boolean
  backoff: boolean
  waiting: boolean
}

const known = new WeakMap<Layout, Known>()

function look(layout: Layout): Known {
  let found = known.get(layout)
  if (found) return found
  const { x, w, h, spans } = layout
  const frame = new Uint8Array(layout.n)
  for (const i of layout.frames) frame[i] = 1
  const shown = new Uint32Array(layout.n)
  let [n, height, queued, backoff, waiting] = [0, -1, false, false, false]
  for (let i = 0; i < layout.n; i++) {
    if (w[i] === 0 || frame[i]) continue
    shown[n++] = i
    height = height < 0 || height === h[i] ? h[i]! : 0
    queued ||= spans !== undefined && spans.run[i]! > x[i]!
    if (spans === undefined || x[i]! + w[i]! <= spans.rest[i]!) continue
    if (spans.state[i] === waitingCode) waiting = true
    else backoff = true
  }
  known.set(layout, (found = { shown: shown.slice(0, n), height: Math.max(0, height), queued, backoff, waiting }))
  return found
}

// Times in which attempts wait, and how much of their colour they have.
const waits = [["queued", 0.4], ["backoff", 0.7], ["waiting", 0.7]] as const

// Memory for one picture after the other. Lines and counts are zero between two of them.
const held = { lines: new Uint32Array(0), ends: new Int32Array(0), counts: new Int32Array(0), loud: new Uint32Array(0) }

function room<K extends keyof typeof held>(name: K, size: number): (typeof held)[K] {
  if (held[name].length < size) held[name] = (name === "lines" || name === "loud" ? new Uint32Array(size) : new Int32Array(size)) as (typeof held)[K]
  return held[name]
}

/** paintPixels is pixels without a canvas. Where all boxes are several pixels high and stand in rows, a row is painted as a line, which is
 * then repeated: a box costs as many pixels as it is wide. */
export function paintPixels(out: Uint32Array, width: number, height: number, { layout, status, dim }: Scene, v: View, paint: Colours, least: number) {
  const ground = packed(paint.ground)
  const colours = paint.fill.map((f) => (f ? packed(f) : 0))
  const faint = colours.map((c) => mix(c, ground))
  const { x: xs, y: ys, w: ws, h: hs, spans } = layout
  const { shown, height: same, ...has } = look(layout)
  for (const [part, share] of waits) {
    if (spans && has[part]) paintWaits(out, width, height, { layout, status, dim }, spans, shown, v, colours, part, mix(packed(paint.waits?.[part] ?? paint.ground), ground, share))
  }
  const lefts = spans ? spans.run : xs
  const inRows = spans !== undefined && same * v.sy >= least + 1
  const lines = room("lines", inRows ? width * height : 0)
  const ends = room("ends", inRows ? height : 0)
  const later = room("loud", shown.length)
  const loudOf = paint.fill.map((_, s) => paint.loud[s] ?? 0)
  let waiting = 0 // how many of later are to be painted in the next pass
  let loudest = 0
  const { x: vx, y: vy, sx, sy } = v
  for (let pass = 0; pass <= loudest; pass++) {
    const size = pass === 0 ? 1 : least
    const list = pass === 0 ? shown : later
    const n = pass === 0 ? shown.length : waiting
    for (let k = 0; k < n; k++) {
      const i = list[k]!
      const s = status[i]!
      const dimmed = dim !== undefined && dim[i] !== 0
      const loud = dimmed ? 0 : loudOf[s]!
      if (loud !== pass) {
        if (pass === 0) {
          later[waiting++] = i
          if (loud > loudest) loudest = loud
        }
        continue
      }
      const colour = dimmed ? faint[s]! : colours[s]!
      if (!colour || (spans && s === queuedCode)) continue
      let x0 = ((lefts[i]! - vx) * sx) | 0
      let y0 = ((ys[i]! - vy) * sy) | 0
      let x1 = Math.max(x0 + size, (((spans ? spans.rest[i]! : xs[i]! + ws[i]!) - vx) * sx) | 0)
      let y1 = Math.max(y0 + size, ((ys[i]! + hs[i]! - vy) * sy) | 0)
      if (x1 <= 0 || y1 <= 0 || x0 >= width || y0 >= height) continue
      const line = inRows && y0 >= 0 && y1 <= height
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
      if (line) {
        ends[y0] = y1
        for (let at = y0 * width + x0, end = y0 * width + x1; at < end; at++) lines[at] = colour
        continue
      }
      for (let y = y0; y < y1; y++) {
        const row = y * width
        for (let x = x0; x < x1; x++) out[row + x] = colour
      }
    }
    if (inRows) repeat(out, width, height, lines, ends, pass === 0)
  }
}

// repeat copies each line to all lines of its row. Fresh: only the first of these may have something already, times in which one waits.
function repeat(out: Uint32Array, width: number, height: number, lines: Uint32Array, ends: Int32Array, fresh: boolean) {
  for (let y = 0; y < height; y++) {
    const end = ends[y]!
    if (end === 0) continue
    ends[y] = 0
    const from = y * width
    for (let line = y; line < (fresh ? Math.min(end, y + 2) : end); line++) {
      const to = line * width
      for (let x = 0; x < width; x++) if (lines[from + x] !== 0) out[to + x] = lines[from + x]!
    }
    for (let line = y + 2; fresh && line < end; line++) out.copyWithin(line * width, (y + 1) * width, (y + 2) * width)
    lines.fill(0, from, from + width)
  }
}

// paintWaits paints the times in which attempts are queued, wait for the next one, or for something else. Thousands of long ones may lie in one row of pixels:
// where each begins and ends is counted, and every pixel is written once.
function paintWaits(out: Uint32Array, width: number, height: number, { layout, status, dim }: Scene, spans: Spans, shown: Uint32Array, v: View, colours: number[], part: (typeof waits)[number][0], colour: number) {
  const counts = room("counts", (width + 1) * height)
  const any = new Uint8Array(height)
  const [queued, waiting] = [part === "queued", part === "waiting"]
  for (let k = 0; k < shown.length; k++) {
    const i = shown[k]!
    if ((dim !== undefined && dim[i] !== 0) || !colours[status[i]!] || (!queued && (spans.state[i] === waitingCode) !== waiting)) continue
    const y = Math.floor((layout.y[i]! - v.y) * v.sy)
    const from = queued ? layout.x[i]! : spans.rest[i]!
    const to = queued ? spans.run[i]! : layout.x[i]! + layout.w[i]!
    if (to <= from || y < 0 || y >= height) continue
    const x0 = Math.max(0, Math.floor((from - v.x) * v.sx))
    const x1 = Math.min(width, Math.floor((to - v.x) * v.sx))
    if (x1 <= x0) continue
    any[y] = 1
    counts[y * (width + 1) + x0]!++
    counts[y * (width + 1) + x1]!--
  }
  for (let y = 0; y < height; y++) {
    if (!any[y]) continue
    const from = y * (width + 1)
    for (let x = 0, n = 0; x < width; x++) if ((n += counts[from + x]!) > 0) out[y * width + x] = colour
    counts.fill(0, from, from + width + 1)
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
