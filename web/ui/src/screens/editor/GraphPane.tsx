import { Background, Controls, Handle, Position, ReactFlow, getViewportForBounds, useReactFlow, useStore, useStoreApi, type Connection, type Edge, type FinalConnectionState, type Node, type NodeChange, type NodeProps } from "@xyflow/react"
import "@xyflow/react/dist/style.css"
import { memo, useDeferredValue, useEffect, useMemo, useRef, type DragEvent } from "react"
import { StateMark } from "../../parts/State"
import { complain } from "../../parts/Toasts"
import { lookOf } from "../../states"
import { useCalls } from "./useCalls"
import { arrange, boundsOf, nodeSize, pathBetween, type DraftNode } from "./arrange"
import "./graph.css"

type Data = { kind: string; name: string; what: string; times?: string; problems: number; state?: string }

const dataOf = (n: DraftNode, problems: number, state?: string): Data => ({
  kind: n.kind, name: n.name || n.step_id || n.id, what: n.action ?? n.pipeline ?? (n.kind === "handler" ? "" : n.kind), problems, state,
  times: n.kind !== "for_each" ? undefined : n.items == null ? "× n" : `× ${n.items.toLocaleString("en-US")}`,
})

function StepNode({ data: { kind, name, what, times, problems, state }, selected }: NodeProps<Node<Data>>) {
  return (
    <div className="draft-node" data-kind={kind} data-selected={selected} data-problems={problems > 0}>
      {kind !== "handler" && <Handle type="target" position={Position.Left} />}
      <div className="draft-name">{state && <StateMark state={state} />} {name}</div>
      <div className="draft-what">
        {what}
        {times && <span className="draft-times">{times}</span>}
      </div>
      {problems > 0 && <span className="draft-problems" title={`${problems} problems`}>{problems}</span>}
      {kind !== "handler" && <Handle type="source" position={Position.Right} />}
    </div>
  )
}

const nodeTypes = { step: memo(StepNode) }
const deleteKeys = ["Delete", "Backspace"]
const options = { hideAttribution: true }
const zoom = { min: 0.1, max: 2 }

/** useSame keeps the elements of a list that say the same as before, and the list where all do, so that only what changed is drawn again. */
function useSame<T extends { id: string }>(list: T[]): T[] {
  const before = useRef(new Map<string, { text: string; item: T }>())
  const kept = useRef<T[]>([])
  return useMemo(() => {
    const now = new Map<string, { text: string; item: T }>()
    for (const item of list) {
      const text = JSON.stringify(item)
      const old = before.current.get(item.id)
      now.set(item.id, old?.text === text ? old : { text, item })
    }
    before.current = now
    const items = Array.from(now.values(), (v) => v.item)
    if (items.length !== kept.current.length || items.some((item, i) => item !== kept.current[i])) kept.current = items
    return kept.current
  }, [list])
}

interface Props {
  nodes: DraftNode[]
  /** How many problems a node has, for those that have some. */
  problems: ReadonlyMap<string, number>
  selected?: string
  /** Of the test that is shown, by node. */
  states: ReadonlyMap<string, string>
  /** The text does not parse: what is shown is older, and cannot be changed. */
  stale: boolean
  readOnly: boolean
  onSelect: (id: string | undefined) => void
  onConnect: (from: string, to: string) => void
  onDisconnect: (from: string, to: string) => void
  onRemove: (id: string) => void
  /** Something of the palette was dropped, behind a node or at the end. */
  onDrop: (what: string, after: string | undefined) => void
}

/** GraphPane is the document as a graph: edges are pulled from port to port, steps dropped from the palette. */
export const GraphPane = memo(function GraphPane({ nodes, problems, selected, states, stale, readOnly, onSelect, onConnect, onDisconnect, onRemove, onDrop }: Props) {
  const flow = useReactFlow()
  const frozen = useDeferredValue(stale) || readOnly // every port is drawn for it: the problem is shown first, and an edit would be refused
  const boxes = useMemo(() => arrange(nodes), [nodes])
  const items = useSame(useMemo<Node<Data>[]>(
    () =>
      nodes.map((node) => {
        const box = boxes.get(node.id) ?? { x: 0, y: 0, ...nodeSize, inside: false }
        return {
          id: node.id, type: "step", position: { x: box.x, y: box.y }, parentId: node.parent || undefined, draggable: false, selected: false,
          width: box.width, height: box.height, deletable: node.kind !== "handler", ariaLabel: `${node.kind} ${node.step_id ?? node.id}${states.has(node.id) ? `, ${lookOf(states.get(node.id)!).word}` : ""}`,
          data: dataOf(node, problems.get(node.id) ?? 0, states.get(node.id)), className: box.inside ? "draft-frame" : undefined,
        }
      }),
    [nodes, boxes, problems, states],
  ))
  const chosen = items.find((n) => n.id === selected)
  const shown = useMemo(() => (chosen ? items.map((n) => (n === chosen ? { ...n, selected: true } : n)) : items), [items, chosen])
  const edges = useSame(useMemo<Edge[]>(
    () =>
      nodes.flatMap((n) =>
        n.depends_on.map((d) => {
          const stream = n.items_from?.includes(d) ?? false
          return { id: `${d}→${n.id}`, source: d, target: n.id, animated: false, className: stream ? "stream-edge" : "task-edge", ariaLabel: `${n.id} depends on ${d}` }
        }),
      ),
    [nodes],
  ))
  const count = nodes.length
  const width = useStore((s) => s.width) // the panel of a selected step takes room
  const store = useStoreApi()
  useEffect(() => { // the library's own fitView waits until all nodes were measured, and draws everything several times more
    const { width, height } = store.getState()
    const bounds = boundsOf(boxes.values())
    if (bounds && width > 0 && height > 0) void flow.setViewport(getViewportForBounds(bounds, width, height, zoom.min, 1, 0.15))
  }, [count, width, flow])
  const parentOf = (id: string) => nodes.find((n) => n.id === id)?.parent ?? ""
  const valid = (c: Connection | Edge) => c.source !== c.target && parentOf(c.source) === parentOf(c.target) && !pathBetween(nodes, c.target, c.source)
  const refuse = (c: { source: string | null; target: string | null }) => {
    if (!c.source || !c.target) return
    const way = pathBetween(nodes, c.target, c.source)
    if (way) complain(`${c.target} cannot depend on ${c.source}: that closes the circle ${[...way, c.target].join(" → ")}`)
    else if (parentOf(c.source) !== parentOf(c.target)) complain("a step depends on steps of its own group only")
  }
  const drop = (e: DragEvent) => {
    const what = e.dataTransfer.getData("application/x-stepwell")
    if (!what || frozen) return
    e.preventDefault()
    const at = flow.screenToFlowPosition({ x: e.clientX, y: e.clientY })
    const top = nodes.filter((n) => !n.parent && n.kind !== "handler")
    const left = top.filter((n) => (boxes.get(n.id)?.x ?? 0) + nodeSize.width / 2 < at.x)
    const near = left.sort((a, b) => Math.abs(boxes.get(a.id)!.y - at.y) + (at.x - boxes.get(a.id)!.x) - Math.abs(boxes.get(b.id)!.y - at.y) - (at.x - boxes.get(b.id)!.x))[0]
    onDrop(what, near?.id)
  }
  const calls = useCalls({
    isValidConnection: valid,
    onConnectEnd: (_: unknown, s: FinalConnectionState) => { if (s.toNode && s.isValid === false && s.fromNode) refuse(s.fromHandle?.type === "target" ? { source: s.toNode.id, target: s.fromNode.id } : { source: s.fromNode.id, target: s.toNode.id }) },
    onConnect: (c: Connection) => onConnect(c.source, c.target),
    onNodeClick: (_: unknown, n: Node) => onSelect(n.id),
    onPaneClick: () => onSelect(undefined),
    onEdgesDelete: (list: Edge[]) => list.forEach((e) => onDisconnect(e.source, e.target)),
    onBeforeDelete: async ({ nodes: gone, edges: cut }: { nodes: Node[]; edges: Edge[] }) => { if (frozen) return false; if (gone.length > 0) { onRemove(gone[0]!.id); return false } return cut.length > 0 },
    onNodesChange: (changes: NodeChange<Node<Data>>[]) => { for (const c of changes) if (c.type === "select" && c.selected) onSelect(c.id) },
  })
  return (
    <div className="graph-pane" data-stale={stale} onDragOver={(e) => { if (!frozen) e.preventDefault() }} onDrop={drop}>
      <ReactFlow
        nodes={shown} edges={edges} nodeTypes={nodeTypes} minZoom={zoom.min} maxZoom={zoom.max} onlyRenderVisibleElements={count > 100}
        nodesDraggable={false} nodesConnectable={!frozen} deleteKeyCode={frozen ? null : deleteKeys} multiSelectionKeyCode={null} proOptions={options} {...calls}
      >
        <Background gap={20} color="var(--line)" />
        <Controls showInteractive={false} />
      </ReactFlow>
      {count === 0 && <div className="empty"><h2>No steps yet</h2><p>Drag an action here, or press Enter on one in the list.</p></div>}
    </div>
  )
})
