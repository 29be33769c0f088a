// Durations by start, as places of a picture. Pure.
import type { Execution } from "./query"

export interface Point { id: string; pipeline: string; status: string; at: number; seconds: number; x: number; y: number }
export interface Scatter { points: Point[]; from: number; to: number; least: number; most: number; left: number }

const mostPoints = 2_000

/** scatter places executions that have ended: x by when they were created, y by how long they took, in equal ratios; both from 0 to 1. */
export function scatter(rows: readonly Execution[]): Scatter {
  const ended = rows.flatMap((r) => {
    const [at, start, end] = [r.created_at, r.started_at, r.completed_at].map((t) => Date.parse(t ?? ""))
    return Number.isFinite(at) && Number.isFinite(start) && Number.isFinite(end) ? [{ id: r.execution_id, pipeline: r.pipeline, status: r.status, at: at!, seconds: Math.max(0.001, (end! - start!) / 1000), x: 0.5, y: 0.5 }] : []
  })
  const points = ended.slice(0, mostPoints)
  let [from, to, least, most] = [Infinity, -Infinity, Infinity, 0]
  for (const p of points) {
    from = Math.min(from, p.at)
    to = Math.max(to, p.at)
    least = Math.min(least, p.seconds)
    most = Math.max(most, p.seconds)
  }
  const ratio = Math.log(most / least)
  for (const p of points) {
    if (to > from) p.x = (p.at - from) / (to - from)
    if (ratio > 0) p.y = Math.log(p.seconds / least) / ratio
  }
  return { points, from, to, least, most, left: ended.length - points.length }
}

/** nearest is the point next to a place, within some pixels. */
export function nearest(points: readonly Point[], x: number, y: number, width: number, height: number, within = 14): Point | undefined {
  let found: Point | undefined
  let best = within
  for (const p of points) {
    const d = Math.hypot((p.x - x) * width, (1 - p.y - y) * height)
    if (d <= best) { best = d; found = p }
  }
  return found
}
