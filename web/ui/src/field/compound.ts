// The layout of all steps as one graph: every step that has others inside is as large as they need. Pure.
import type { Boxes } from "./pick"
import { codeOf, type Steps } from "./steps"

/** Sizes of boxes and of the room between them: in and between the columns of a layer, and between layers. */
export interface Sizes { w: number; h: number; head: number; pad: number; between: number; beside: number; row: number }

export const stepSize: Sizes = { w: 144, h: 30, head: 24, pad: 10, between: 56, beside: 10, row: 10 }

/** A layer is folded into several columns only if it has more boxes than this. */
const tall = 16
const aspect = 1.7

/** arrangeGraph places boxes by layer and position within the step around them. Steps around each other in a circle are left out. */
export function arrangeGraph(steps: Steps, b: Boxes, size: Sizes = stepSize) {
  const { first, items } = children(steps)
  const order: number[] = [0] // of parents, as the column has them: the step's index plus 1, the outermost 0
  for (let at = 0; at < order.length; at++) {
    const p = order[at]!
    for (let k = first[p]!; k < first[p + 1]!; k++) if (first[items[k]! + 1]! < first[items[k]! + 2]!) order.push(items[k]! + 1)
  }
  for (let at = order.length - 1; at >= 0; at--) {
    const p = order[at]!
    const inner = place(steps, b, items.subarray(first[p]!, first[p + 1]!), (i) => first[i + 1]! < first[i + 2]!, size)
    if (p > 0) {
      b.w[p - 1] = Math.max(size.w, inner.w + 2 * size.pad)
      b.h[p - 1] = inner.h + size.head + size.pad
    }
  }
  for (const p of order) {
    if (p === 0) continue
    const [x, y] = [b.x[p - 1]! + size.pad, b.y[p - 1]! + size.head]
    for (let k = first[p]!; k < first[p + 1]!; k++) {
      b.x[items[k]!]! += x
      b.y[items[k]!]! += y
    }
  }
}

// children lists the steps by the one around them: those of p are items[first[p]] … items[first[p + 1] - 1], by layer and position.
function children(steps: Steps) {
  const absent = codeOf(steps, "absent")
  const first = new Uint32Array(steps.n + 2)
  for (let i = 0; i < steps.n; i++) if (steps.status[i] !== absent) first[steps.parent[i]! + 1]!++
  for (let p = 0; p <= steps.n; p++) first[p + 1]! += first[p]!
  const next = first.slice(0, steps.n + 1)
  const items = new Uint32Array(first[steps.n + 1]!)
  for (let i = 0; i < steps.n; i++) if (steps.status[i] !== absent) items[next[steps.parent[i]!]!++] = i
  const after = (p: number, q: number) => steps.layer[p]! - steps.layer[q]! || steps.pos[p]! - steps.pos[q]! || p - q
  for (let p = 0; p <= steps.n; p++) {
    const own = items.subarray(first[p]!, first[p + 1]!)
    for (let k = 1; k < own.length; k++) {
      if (after(own[k - 1]!, own[k]!) > 0) {
        own.sort(after)
        break
      }
    }
  }
  return { first, items }
}

// place arranges the steps inside one, in columns from the left: their places are relative to it. It gives the size that they take.
function place(steps: Steps, b: Boxes, kids: Uint32Array, has: (i: number) => boolean, size: Sizes): { w: number; h: number } {
  for (const i of kids) if (!has(i)) [b.w[i], b.h[i]] = [size.w, size.h]
  const most = heightFor(steps, b, kids, size)
  const layers: { from: number; to: number; h: number }[] = []
  let [x, y, w, h, from] = [0, 0, 0, 0, 0]
  for (let k = 0; k < kids.length; k++) {
    const i = kids[k]!
    const newLayer = k > 0 && steps.layer[i] !== steps.layer[kids[k - 1]!]
    if (newLayer) {
      layers.push({ from, to: k, h })
      ;[h, from] = [0, k]
    }
    if (y > 0 && (newLayer || y + b.h[i]! > most)) {
      x += w + (newLayer ? size.between : size.beside)
      ;[y, w] = [0, 0]
    }
    b.x[i] = x
    b.y[i] = y
    y += b.h[i]! + size.row
    w = Math.max(w, b.w[i]!)
    h = Math.max(h, y - size.row)
  }
  layers.push({ from, to: kids.length, h })
  const high = layers.reduce((most, l) => Math.max(most, l.h), 0)
  for (const l of layers) for (let k = l.from; k < l.to; k++) b.y[kids[k]!]! += (high - l.h) / 2
  return { w: Math.max(size.w, x + w), h: high }
}

// heightFor is how high a column may become, so that the whole is about as wide as a screen.
function heightFor(steps: Steps, b: Boxes, kids: Uint32Array, size: Sizes): number {
  let [low, high] = [tall * (size.h + size.row), 0]
  let y = 0
  for (let k = 0; k < kids.length; k++) {
    if (k > 0 && steps.layer[kids[k]!] !== steps.layer[kids[k - 1]!]) y = 0
    y += b.h[kids[k]!]! + size.row
    high = Math.max(high, y)
  }
  if (high <= low) return Infinity
  for (let round = 0; round < 16 && high - low > size.h; round++) {
    const mid = (low + high) / 2
    if (widthAt(steps, b, kids, mid, size) > mid * aspect) low = mid
    else high = mid
  }
  return high
}

function widthAt(steps: Steps, b: Boxes, kids: Uint32Array, most: number, size: Sizes): number {
  let [x, y, w] = [0, 0, 0]
  for (let k = 0; k < kids.length; k++) {
    const i = kids[k]!
    const newLayer = k > 0 && steps.layer[i] !== steps.layer[kids[k - 1]!]
    if (y > 0 && (newLayer || y + b.h[i]! > most)) {
      x += w + (newLayer ? size.between : size.beside)
      ;[y, w] = [0, 0]
    }
    y += b.h[i]! + size.row
    w = Math.max(w, b.w[i]!)
  }
  return x + w
}
