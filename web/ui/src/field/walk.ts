// Which step lies beside another one: for arrow keys. Pure.
import { inside } from "./pick"
import type { Scene } from "./raster"

/** neighbour is the step that an arrow key leads to: along an edge to the left and right if there is one, else the nearest in that
 * direction; the first one if none is selected. −1: there is none. */
export function neighbour(scene: Scene, from: number, dx: number, dy: number): number {
  const { layout, first, edges } = scene
  if (from < 0 || !layout.w[from]) return layout.w.findIndex((w) => w > 0)
  if (dx !== 0 && first && edges) {
    const along = dx < 0 ? (first[from]! < first[from + 1]! ? edges[first[from]!]! : -1) : user(first, edges, from)
    if (along >= 0 && layout.w[along]) return along
  }
  const [cx, cy] = [layout.x[from]! + layout.w[from]! / 2, layout.y[from]! + layout.h[from]! / 2]
  const b = layout.index.bounds
  // A corridor in that direction, wider and wider.
  for (const wide of [1, 4, 16, 1e6]) {
    const side = dx !== 0 ? layout.h[from]! * wide : layout.w[from]! * wide
    const long = dx !== 0 ? layout.w[from]! * 4 * wide : layout.h[from]! * 4 * wide
    const x = dx === 0 ? [cx - side, cx + side] : dx > 0 ? [cx, cx + long] : [cx - long, cx]
    const y = dy === 0 ? [cy - side, cy + side] : dy > 0 ? [cy, cy + long] : [cy - long, cy]
    let best = -1
    let far = Infinity
    for (const i of inside(layout, layout.index, Math.max(x[0]!, b[0]), Math.max(y[0]!, b[1]), Math.min(x[1]!, b[2]), Math.min(y[1]!, b[3]))) {
      const [ox, oy] = [layout.x[i]! + layout.w[i]! / 2 - cx, layout.y[i]! + layout.h[i]! / 2 - cy]
      const ahead = ox * dx + oy * dy
      if (i === from || ahead <= 0.01) continue
      const distance = ahead + 2 * Math.abs(dx !== 0 ? oy : ox)
      if (distance < far) [best, far] = [i, distance]
    }
    if (best >= 0) return best
  }
  return -1
}

function user(first: Uint32Array, edges: Uint32Array, of: number): number {
  const k = edges.indexOf(of)
  if (k < 0) return -1
  let [low, high] = [0, first.length - 1] // the last step whose edges begin at or before k
  while (low < high) {
    const mid = (low + high + 1) >> 1
    if (first[mid]! <= k) low = mid
    else high = mid - 1
  }
  return low
}
