// Writes into the boxes what their steps are: a shape for the state, and the name.
import { lookOf } from "../states"
import { shapes } from "../parts/shapes"
import type { Naming } from "./names"
import { inkOn } from "./paint"
import type { Paint, Scene, View } from "./raster"

const paths = new Map<string, Path2D>()

export interface Look {
  states: string[]
  /** Cards: boxes are drawn as cards with a strip of colour. Else the name stands on the colour. */
  cards: boolean
}

/** drawLabels writes the names that are known, and asks for the others. */
export function drawLabels(ctx: CanvasRenderingContext2D, scene: Scene, view: View, paint: Paint, ratio: number, boxes: number[], look: Look, names: Naming) {
  const frames = new Set(scene.layout.frames)
  const last = boxes[boxes.length - 1] ?? 0
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0)
  ctx.textBaseline = "middle"
  const size = Math.max(9, Math.min(12, scene.layout.h[last]! * view.sy * 0.55))
  ctx.font = `${size}px ${paint.font}`
  const wide = ctx.measureText("0").width
  const edge = ctx.canvas.width / ratio
  names.want(boxes)
  for (const i of boxes) {
    const spans = scene.layout.spans // the name stands in what ran of an attempt, or behind all of it
    const [left, wideAs] = spans && !frames.has(i) ? [spans.run[i]!, spans.rest[i]! - spans.run[i]!] : [scene.layout.x[i]!, scene.layout.w[i]!]
    const box = { x: (left - view.x) * view.sx, y: (scene.layout.y[i]! - view.y) * view.sy, w: wideAs * view.sx, h: scene.layout.h[i]! * view.sy }
    if (spans && !spans.last[i] && scene.beside) continue // the name stands behind the last attempt
    if (scene.dim) ctx.globalAlpha = scene.dim[i] ? 0.3 : 1
    const fill = paint.fill[scene.status[i]!] ?? paint.line
    const frame = frames.has(i)
    if (look.cards && !frame) drawCard(ctx, box, fill, paint)
    const x = Math.max(box.x, 0)
    const row = frame ? Math.min(box.h, 22 * view.sy) : box.h
    const room = (spans ? Math.min(box.x + box.w, edge) : box.x + box.w) - x - 8
    const mark = look.cards ? Math.min(12, row * 0.6) : 0
    if (mark >= 6 && room > mark + 4) drawMark(ctx, look.states[scene.status[i]!] ?? "", fill, x + 8, box.y + row / 2 - mark / 2, mark)
    const name = look.cards ? short(names.get(i)) : names.get(i)?.step_id
    if (scene.beside && !frame && name && room < name.length * wide) {
      const end = spans ? (scene.layout.x[i]! + scene.layout.w[i]! - view.x) * view.sx : box.x + box.w
      const behind = Math.max(end, box.x + 3) + 6
      writeBeside(ctx, name, wide, edge, behind, (scene.layout.x[i]! - view.x) * view.sx - 6, box.y + row / 2 + 0.5, size, paint)
      continue
    }
    const text = clip(name, Math.floor((room - (mark ? mark + 8 : 0)) / wide))
    if (!text || (frame && row < 9)) continue
    ctx.fillStyle = look.cards || frame ? paint.text : inkOn(fill)
    ctx.fillText(text, x + (mark ? mark + 14 : 4), box.y + row / 2 + 0.5)
  }
  ctx.globalAlpha = 1
}

// writeBeside writes a name behind its box; where that would be cut off at the right edge, before it, or as far right as there is room:
// on the ground, as other attempts may lie there.
function writeBeside(ctx: CanvasRenderingContext2D, name: string, wide: number, edge: number, behind: number, before: number, y: number, size: number, paint: Paint) {
  const text = clip(name, Math.max(2, Math.floor((edge - 8) / wide)))
  const long = text.length * wide
  let x = behind
  if (behind + long > edge - 2) {
    x = before - long >= 2 ? Math.min(before, edge - 4) - long : edge - 4 - long
    ctx.fillStyle = paint.ground
    ctx.fillRect(x - 2, y - size * 0.7, long + 4, size * 1.4)
  }
  ctx.fillStyle = paint.text
  ctx.fillText(text, x, y)
}

// short is the name without that of the step around it, in whose frame it stands.
function short(s: { step_id: string; parent?: string } | undefined): string | undefined {
  if (!s?.parent || !s.step_id.startsWith(s.parent)) return s?.step_id
  return s.step_id.slice(s.parent.length).replace(/^\./, "")
}

interface Box { x: number; y: number; w: number; h: number }

function drawCard(ctx: CanvasRenderingContext2D, b: Box, fill: string, paint: Paint) {
  ctx.fillStyle = paint.ground
  ctx.fillRect(b.x, b.y, b.w, b.h)
  ctx.strokeStyle = paint.line
  ctx.lineWidth = 1
  ctx.strokeRect(Math.round(b.x) + 0.5, Math.round(b.y) + 0.5, Math.round(b.w) - 1, Math.round(b.h) - 1)
  ctx.fillStyle = fill
  ctx.fillRect(b.x, b.y, 4, b.h)
}

function drawMark(ctx: CanvasRenderingContext2D, state: string, colour: string, x: number, y: number, size: number) {
  const shape = shapes[lookOf(state).shape]!
  let path = paths.get(shape.path)
  if (!path) paths.set(shape.path, (path = new Path2D(shape.path)))
  ctx.save()
  ctx.translate(x, y)
  ctx.scale(size / 12, size / 12)
  ctx.strokeStyle = ctx.fillStyle = colour
  ctx.lineCap = ctx.lineJoin = "round"
  if (shape.fill) {
    ctx.globalAlpha *= shape.fill
    ctx.fill(path)
    ctx.globalAlpha /= shape.fill
  }
  if (shape.line) {
    ctx.lineWidth = shape.line
    ctx.stroke(path)
  }
  ctx.restore()
}

/** clip cuts a text in its middle, so that the number at its end stays. */
export function clip(text: string | undefined, most: number): string {
  if (!text || most < 2) return ""
  if (text.length <= most) return text
  const end = Math.min(Math.floor(most / 2), 8)
  return text.slice(0, most - end - 1) + "…" + text.slice(text.length - end)
}

/** drawChosen frames the step that is selected. */
export function drawChosen(ctx: CanvasRenderingContext2D, scene: Scene, view: View, paint: Paint, ratio: number, i: number) {
  if (i < 0 || !scene.layout.w[i]) return
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0)
  const [w, h] = [Math.max(6, scene.layout.w[i]! * view.sx), Math.max(6, scene.layout.h[i]! * view.sy)]
  const [x, y] = [(scene.layout.x[i]! - view.x) * view.sx, (scene.layout.y[i]! - view.y) * view.sy]
  ctx.lineWidth = 3
  ctx.strokeStyle = paint.ground
  ctx.strokeRect(x - 2, y - 2, w + 4, h + 4)
  ctx.lineWidth = 2
  ctx.strokeStyle = paint.accent
  ctx.strokeRect(x - 2, y - 2, w + 4, h + 4)
}
