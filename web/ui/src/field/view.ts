// Where on a field one looks: moving, zooming, fitting. Pure.
import type { Bounds } from "./pick"
import type { View } from "./raster"

export interface Limits { least: number; most: number }

/** fit shows all of some bounds, with a margin, at most so large. Free: both directions for themselves, of which only the vertical
 * one has a limit. Rows: that one has always its largest value, so that rows can be read. */
export function fit(b: Bounds, width: number, height: number, free: boolean, largest = 1, rows = false): View {
  const margin = 16
  const [w, h] = [Math.max(1, b[2] - b[0]), Math.max(1, b[3] - b[1])]
  let sx = Math.max(1, width - 2 * margin) / w
  let sy = Math.max(1, height - 2 * margin) / h
  if (free) sy = rows ? largest : Math.min(largest, sy)
  else sx = sy = Math.min(largest, sx, sy)
  return free
    ? { x: b[0] - margin / sx, y: b[1] - Math.min(margin, 8) / sy, sx, sy }
    : { x: b[0] - (width / sx - w) / 2, y: b[1] - Math.max(margin / sy, (height / sy - h) / 2), sx, sy }
}

/** zoom makes things larger by a factor around a place on the screen. */
export function zoom(v: View, factor: number, px: number, py: number, free: "x" | "y" | "both", limits: Limits): View {
  const scaled = (s: number, on: boolean) => (on ? Math.min(limits.most, Math.max(limits.least, s * factor)) : s)
  const sx = scaled(v.sx, free !== "y")
  const sy = free === "both" && v.sx === v.sy ? sx : scaled(v.sy, free !== "x")
  return { x: v.x + px / v.sx - px / sx, y: v.y + py / v.sy - py / sy, sx, sy }
}

/** within keeps a view from showing emptiness beside what is larger than the screen. */
export function within(v: View, b: Bounds, width: number, height: number): View {
  const margin = 16
  const axis = (at: number, scale: number, low: number, high: number, size: number) =>
    (high - low) * scale + 2 * margin <= size ? at : Math.max(low - margin / scale, Math.min(at, high + (margin - size) / scale))
  return { ...v, x: axis(v.x, v.sx, b[0], b[2], width), y: axis(v.y, v.sy, b[1], b[3], height) }
}

/** pan moves by pixels; some of the bounds always stays in view. */
export function pan(v: View, dx: number, dy: number, b: Bounds, width: number, height: number): View {
  const room = 40
  const clamp = (at: number, low: number, high: number) => Math.min(Math.max(low, high), Math.max(Math.min(low, high), at))
  return { ...v, x: clamp(v.x - dx / v.sx, b[0] - (width - room) / v.sx, b[2] - room / v.sx), y: clamp(v.y - dy / v.sy, b[1] - (height - room) / v.sy, b[3] - room / v.sy) }
}

/** reveal moves as little as needed to have a box in view, and zooms in where it would be too small to be told. */
export function reveal(v: View, x: number, y: number, w: number, h: number, width: number, height: number, least = 16): View {
  let { sx, sy } = v
  if (h * sy < least) {
    const factor = least / (h * sy)
    sy *= factor
    if (v.sx === v.sy) sx = sy
  }
  const shown = { x: v.x, y: v.y, sx, sy }
  const inX = (x - v.x) * sx >= 0 && (x + Math.min(w, width / sx / 2) - v.x) * sx <= width
  const inY = (y - v.y) * sy >= 0 && (y + Math.min(h, height / sy / 2) - v.y) * sy <= height
  if (sx !== v.sx || !inX) shown.x = x + Math.min(w, width / sx) / 2 - width / sx / 2
  if (sy !== v.sy || !inY) shown.y = y + Math.min(h, height / sy) / 2 - height / sy / 2
  return shown
}

/** formatView and parseView are for addresses. */
export const formatView = (v: View) => [v.x, v.y, v.sx, v.sy].map((n) => Number(n.toPrecision(6))).join(",")
export function parseView(text: string | undefined): View | undefined {
  const n = text?.split(",").map(Number)
  if (n?.length !== 4 || n.some((x) => !Number.isFinite(x)) || n[2]! <= 0 || n[3]! <= 0) return undefined
  return { x: n[0]!, y: n[1]!, sx: n[2]!, sy: n[3]! }
}
