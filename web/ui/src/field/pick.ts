// Which boxes are where: a grid of 64 × 64 buckets over all of them. Pure.

export interface Boxes {
  n: number
  x: Float32Array
  y: Float32Array
  w: Float32Array
  h: Float32Array
}

export type Bounds = [x0: number, y0: number, x1: number, y1: number]

export interface Index {
  bounds: Bounds
  first: Uint32Array
  items: Uint32Array
  /** Boxes that lie over many buckets, which are looked at each time. */
  large: Uint32Array
}

const side = 64
const many = 16

/** boundsOf is what all boxes lie in. A box of no width is nowhere. */
export function boundsOf(b: Boxes): Bounds {
  let [x0, y0, x1, y1] = [Infinity, Infinity, -Infinity, -Infinity]
  for (let i = 0; i < b.n; i++) {
    if (b.w[i] === 0) continue
    const x = b.x[i]!
    const y = b.y[i]!
    if (x < x0) x0 = x
    if (y < y0) y0 = y
    if (x + b.w[i]! > x1) x1 = x + b.w[i]!
    if (y + b.h[i]! > y1) y1 = y + b.h[i]!
  }
  return x0 > x1 ? [0, 0, 1, 1] : [x0, y0, x1, y1]
}

interface Span { c0: number; c1: number; r0: number; r1: number }

function spanOf(bounds: Bounds, x0: number, y0: number, x1: number, y1: number, into: Span) {
  const sx = side / Math.max(1e-9, bounds[2] - bounds[0])
  const sy = side / Math.max(1e-9, bounds[3] - bounds[1])
  const clamp = (v: number) => Math.max(0, Math.min(side - 1, Math.floor(v)))
  into.c0 = clamp((x0 - bounds[0]) * sx)
  into.c1 = clamp((x1 - bounds[0]) * sx)
  into.r0 = clamp((y0 - bounds[1]) * sy)
  into.r1 = clamp((y1 - bounds[1]) * sy)
}

/** indexOf builds the buckets: two passes over the boxes, one to count and one to fill. */
export function indexOf(b: Boxes, bounds = boundsOf(b)): Index {
  const first = new Uint32Array(side * side + 1)
  const large: number[] = []
  const s: Span = { c0: 0, c1: 0, r0: 0, r1: 0 }
  const each = (act: (i: number, bucket: number) => void, wide?: (i: number) => void) => {
    for (let i = 0; i < b.n; i++) {
      if (b.w[i] === 0) continue
      spanOf(bounds, b.x[i]!, b.y[i]!, b.x[i]! + b.w[i]!, b.y[i]! + b.h[i]!, s)
      if ((s.c1 - s.c0 + 1) * (s.r1 - s.r0 + 1) > many) {
        wide?.(i)
        continue
      }
      for (let r = s.r0; r <= s.r1; r++) for (let c = s.c0; c <= s.c1; c++) act(i, r * side + c)
    }
  }
  each((_, bucket) => { first[bucket + 1]!++ }, (i) => large.push(i))
  for (let k = 0; k < side * side; k++) first[k + 1]! += first[k]!
  const next = first.slice(0, side * side)
  const items = new Uint32Array(first[side * side]!)
  each((i, bucket) => { items[next[bucket]!++] = i })
  return { bounds, first, items, large: Uint32Array.from(large) }
}

/** inside lists the boxes that touch a rectangle, each once: large ones first, else in order of their buckets. At most `most`. It is
 * quick when it runs for the first time too, before it is compiled: the picture that a key asks for waits for it. */
export function inside(b: Boxes, index: Index, x0: number, y0: number, x1: number, y1: number, most = Infinity): number[] {
  const found: number[] = []
  const { x, y, w, h } = b
  const { bounds, first, items } = index
  for (const i of index.large) if (x[i]! <= x1 && x[i]! + w[i]! >= x0 && y[i]! <= y1 && y[i]! + h[i]! >= y0) found.push(i)
  const s: Span = { c0: 0, c1: 0, r0: 0, r1: 0 }
  spanOf(bounds, x0, y0, x1, y1, s)
  const [sx, sy] = [side / Math.max(1e-9, bounds[2] - bounds[0]), side / Math.max(1e-9, bounds[3] - bounds[1])]
  for (let r = s.r0; r <= s.r1; r++) {
    for (let c = s.c0; c <= s.c1; c++) {
      const end = first[r * side + c + 1]!
      for (let k = first[r * side + c]!; k < end; k++) {
        const i = items[k]!
        const left = x[i]!
        if (left > x1 || left + w[i]! < x0) continue
        const top = y[i]!
        if (top > y1 || top + h[i]! < y0) continue
        // A box of several buckets counts in the first of them that is looked at: where it begins, or where looking begins.
        if ((c > s.c0 && (left - bounds[0]) * sx < c) || (r > s.r0 && (top - bounds[1]) * sy < r)) continue
        found.push(i)
        if (found.length >= most) return found
      }
    }
  }
  return found
}

/** at finds the smallest box under a point, with some room around it; -1: there is none. */
export function at(b: Boxes, index: Index, x: number, y: number, roomX: number, roomY: number): number {
  let best = -1
  let size = Infinity
  for (const i of inside(b, index, x - roomX, y - roomY, x + roomX, y + roomY)) {
    const off = Math.max(0, b.x[i]! - x, x - b.x[i]! - b.w[i]!) / (roomX || 1) + Math.max(0, b.y[i]! - y, y - b.y[i]! - b.h[i]!) / (roomY || 1)
    const area = b.w[i]! * b.h[i]! * (1 + off)
    if (area < size) [best, size] = [i, area]
  }
  return best
}
