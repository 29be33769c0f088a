// The collapsed graph as steps, so that it is arranged and drawn as all steps are. Pure.
import type { Schemas } from "../../api/client"
import { arrangeGraph, type Sizes } from "../../field/compound"
import { containersOf, type Layout } from "../../field/layouts"
import { indexOf, type Boxes } from "../../field/pick"
import type { Steps } from "../../field/steps"
import { byImportance } from "../../states"

export type Node = Schemas["GraphNode"]

export interface GraphScene {
  nodes: Node[]
  states: string[]
  steps: Steps
  layout: Layout
}

export const nodeSize: Sizes = { w: 208, h: 58, head: 46, pad: 14, between: 64, beside: 16, row: 16 }

/** stateOf is the state that a node is shown in: its own, else the worst inside. */
export const stateOf = (n: Node): string => n.status ?? Object.keys(n.states).sort(byImportance)[0] ?? "pending"

/** sceneOf arranges the nodes of a graph. */
export function sceneOf(nodes: Node[]): GraphScene {
  const n = nodes.length
  const at = new Map(nodes.map((node, i) => [node.id, i]))
  const states = [...new Set(nodes.map(stateOf))]
  const first = new Uint32Array(n + 1)
  const edges: number[] = []
  const steps: Steps = {
    version: 0, n, began: 0, states, workers: [], status: new Uint8Array(n), attempt: new Uint8Array(n), layer: new Uint32Array(n), pos: new Uint32Array(n), start: new Uint32Array(n),
    duration: new Uint32Array(n), parent: new Uint32Array(n), worker: new Uint16Array(n), first, edges: new Uint32Array(0),
  }
  nodes.forEach((node, i) => {
    steps.status[i] = states.indexOf(stateOf(node))
    steps.layer[i] = node.layer
    steps.pos[i] = node.pos
    const around = node.parent ? at.get(node.parent) : undefined
    steps.parent[i] = around === undefined || around === i ? 0 : around + 1
    for (const d of node.depends_on) {
      const from = at.get(d)
      if (from !== undefined && from !== i) edges.push(from)
    }
    first[i + 1] = edges.length
  })
  steps.edges = Uint32Array.from(edges)
  const boxes: Boxes = { n, x: new Float32Array(n), y: new Float32Array(n), w: new Float32Array(n), h: new Float32Array(n) }
  arrangeGraph(steps, boxes, nodeSize)
  return { nodes, states, steps, layout: { ...boxes, frames: containersOf(steps), index: indexOf(boxes), gaps: [] } }
}
