// Where the nodes of a draft are drawn: the server gives layer and position, this gives pixels, with frames around what is inside a
// group. Pure.
import type { Schemas } from "../../api/client"

export type DraftNode = Schemas["DraftNode"]

/** Box is where a node is, relative to its parent. */
export interface Box { x: number; y: number; width: number; height: number; inside: boolean }

export const nodeSize = { width: 196, height: 54 }
const gap = { x: 56, y: 18 }
const frame = { top: 34, side: 14 }

function listed<T>(lists: Map<string, T[]>, key: string, item: T): void {
  const list = lists.get(key)
  if (list) list.push(item)
  else lists.set(key, [item])
}

/** arrange places every node. */
export function arrange(nodes: readonly DraftNode[]): Map<string, Box> {
  const children = new Map<string, DraftNode[]>()
  for (const n of nodes) listed(children, n.parent ?? "", n)
  const boxes = new Map<string, Box>()
  const place = (parent: string, depth: number): { width: number; height: number } => {
    const layers: DraftNode[][] = []
    for (const n of children.get(parent) ?? []) (layers[n.layer] ??= []).push(n)
    let x = parent ? frame.side : 0
    let bottom = 0
    for (const layer of layers) {
      if (!layer) continue
      let y = parent ? frame.top : 0
      let width = 0
      for (const n of layer.sort((a, b) => a.pos - b.pos)) {
        const inside = depth < 20 && children.has(n.id)
        const size = inside ? place(n.id, depth + 1) : nodeSize
        boxes.set(n.id, { x, y, ...size, inside })
        y += size.height + gap.y
        width = Math.max(width, size.width)
      }
      bottom = Math.max(bottom, y - gap.y)
      x += width + gap.x
    }
    return { width: Math.max(nodeSize.width, x - gap.x + frame.side), height: bottom + frame.side }
  }
  place("", 0)
  return boxes
}

/** boundsOf is the smallest rectangle around all boxes, undefined if there are none. Those inside of others count with them: the first
 * node is at the origin. */
export function boundsOf(boxes: Iterable<Box>): { x: number; y: number; width: number; height: number } | undefined {
  let bounds: { x: number; y: number; width: number; height: number } | undefined
  for (const b of boxes) {
    bounds ??= { x: 0, y: 0, width: 0, height: 0 }
    bounds.width = Math.max(bounds.width, b.x + b.width)
    bounds.height = Math.max(bounds.height, b.y + b.height)
  }
  return bounds
}

/** pathBetween is a way along dependencies from one node to another, both included, or undefined: what an edge would close to a cycle. */
export function pathBetween(nodes: readonly DraftNode[], from: string, to: string): string[] | undefined {
  const next = new Map<string, string[]>()
  for (const n of nodes) for (const d of n.depends_on) listed(next, d, n.id)
  const came = new Map<string, string>([[from, ""]])
  const queue = [from]
  for (let i = 0; i < queue.length; i++) {
    const at = queue[i]!
    if (at === to) {
      const way = [to]
      for (let back = came.get(to)!; back; back = came.get(back)!) way.push(back)
      return way.reverse()
    }
    for (const n of next.get(at) ?? []) {
      if (!came.has(n)) {
        came.set(n, at)
        queue.push(n)
      }
    }
  }
  return undefined
}
