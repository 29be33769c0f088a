// Where the nodes of a draft are drawn: the server gives layer and position, this gives pixels, with frames around what is inside a
// group. Pure.
import type { Schemas } from "../../api/client"

export type DraftNode = Schemas["DraftNode"]

/** Box is where a node is, relative to its parent. */
export interface Box { x: number; y: number; width: number; height: number; inside: boolean }

export const nodeSize = { width: 196, height: 54 }
const gap = { x: 56, y: 18 }
const frame = { top: 34, side: 14 }

/** arrange places every node. */
export function arrange(nodes: readonly DraftNode[]): Map<string, Box> {
  const children = new Map<string, DraftNode[]>()
  for (const n of nodes) children.set(n.parent ?? "", [...(children.get(n.parent ?? "") ?? []), n])
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

/** pathBetween is a way along dependencies from one node to another, both included, or undefined: what an edge would close to a cycle. */
export function pathBetween(nodes: readonly DraftNode[], from: string, to: string): string[] | undefined {
  const next = new Map<string, string[]>()
  for (const n of nodes) for (const d of n.depends_on) next.set(d, [...(next.get(d) ?? []), n.id])
  const came = new Map<string, string>([[from, ""]])
  const queue = [from]
  for (let i = 0; i < queue.length; i++) {
    const at = queue[i]!
    if (at === to) {
      const way = [to]
      for (let back = came.get(to)!; back; back = came.get(back)!) way.unshift(back)
      return way
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
