import { Background, Controls, Handle, Position, ReactFlow, useReactFlow, type Connection, type Edge, type Node, type NodeProps } from "@xyflow/react"
import "@xyflow/react/dist/style.css"
import { useEffect, useMemo, useRef, type DragEvent } from "react"
import { StateMark } from "../../parts/State"
import { complain } from "../../parts/Toasts"
import { lookOf } from "../../states"
import { arrange, nodeSize, pathBetween, type DraftNode } from "./arrange"
import "./graph.css"

type Data = { node: DraftNode; problems: number; stale: boolean; state?: string }

function StepNode({ data, selected }: NodeProps<Node<Data>>) {
  const { node, problems, state } = data
  const what = node.action ?? node.pipeline ?? (node.kind === "handler" ? "" : node.kind)
  return (
    <div className="draft-node" data-kind={node.kind} data-selected={selected} data-problems={problems > 0}>
      {node.kind !== "handler" && <Handle type="target" position={Position.Left} />}
      <div className="draft-name">{state && <StateMark state={state} />} {node.name || node.step_id || node.id}</div>
      <div className="draft-what">
        {what}
        {node.kind === "for_each" && <span className="draft-times">{node.items == null ? "× n" : `× ${node.items.toLocaleString("en-US")}`}</span>}
      </div>
      {problems > 0 && <span className="draft-problems" title={`${problems} problems`}>{problems}</span>}
      {node.kind !== "handler" && <Handle type="source" position={Position.Right} />}
    </div>
  )
}

const nodeTypes = { step: StepNode }

interface Props {
  nodes: DraftNode[]
  /** Problems by line of the document. */
  problemsOf: (n: DraftNode) => number
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
export function GraphPane({ nodes, problemsOf, selected, states, stale, readOnly, onSelect, onConnect, onDisconnect, onRemove, onDrop }: Props) {
  const flow = useReactFlow()
  const frozen = stale || readOnly
  const boxes = useMemo(() => arrange(nodes), [nodes])
  const shown = useMemo<Node<Data>[]>(
    () =>
      nodes.map((node) => {
        const box = boxes.get(node.id) ?? { x: 0, y: 0, ...nodeSize, inside: false }
        return {
          id: node.id, type: "step", position: { x: box.x, y: box.y }, parentId: node.parent || undefined, draggable: false, selected: node.id === selected,
          width: box.width, height: box.height, deletable: !frozen && node.kind !== "handler", ariaLabel: `${node.kind} ${node.step_id ?? node.id}${states.has(node.id) ? `, ${lookOf(states.get(node.id)!).word}` : ""}`,
          data: { node, problems: problemsOf(node), stale, state: states.get(node.id) }, className: box.inside ? "draft-frame" : undefined,
        }
      }),
    [nodes, boxes, selected, stale, frozen, problemsOf, states],
  )
  const edges = useMemo<Edge[]>(
    () =>
      nodes.flatMap((n) =>
        n.depends_on.map((d) => {
          const stream = n.items_from?.includes(d) ?? false
          return { id: `${d}→${n.id}`, source: d, target: n.id, animated: false, className: stream ? "stream-edge" : "task-edge", deletable: !frozen, ariaLabel: `${n.id} depends on ${d}` }
        }),
      ),
    [nodes, frozen],
  )
  const count = nodes.length
  const pane = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const whole = () => void flow.fitView({ padding: 0.15, maxZoom: 1, duration: 0 })
    whole()
    const el = pane.current
    if (!el) return // nothing is drawn yet
    let width = el.clientWidth
    const watch = new ResizeObserver(() => { // the panel of a selected step takes room
      if (el.clientWidth === width) return
      width = el.clientWidth
      requestAnimationFrame(whole)
    })
    watch.observe(el)
    return () => watch.disconnect()
  }, [count, flow])
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
  return (
    <div ref={pane} className="graph-pane" data-stale={stale} onDragOver={(e) => { if (!frozen) e.preventDefault() }} onDrop={drop}>
      <ReactFlow
        nodes={shown} edges={edges} nodeTypes={nodeTypes} fitView minZoom={0.1} maxZoom={2} onlyRenderVisibleElements={count > 100}
        nodesDraggable={false} nodesConnectable={!frozen} deleteKeyCode={frozen ? null : ["Delete", "Backspace"]} multiSelectionKeyCode={null}
        isValidConnection={valid} onConnectEnd={(_, s) => { if (s.toNode && s.isValid === false && s.fromNode) refuse(s.fromHandle?.type === "target" ? { source: s.toNode.id, target: s.fromNode.id } : { source: s.fromNode.id, target: s.toNode.id }) }}
        onConnect={(c) => onConnect(c.source, c.target)}
        onNodeClick={(_, n) => onSelect(n.id)} onPaneClick={() => onSelect(undefined)}
        onEdgesDelete={(list) => list.forEach((e) => onDisconnect(e.source, e.target))}
        onBeforeDelete={async ({ nodes: gone, edges: cut }) => { if (gone.length > 0) { onRemove(gone[0]!.id); return false } return cut.length > 0 }}
        onNodesChange={(changes) => { for (const c of changes) if (c.type === "select" && c.selected) onSelect(c.id) }}
        proOptions={{ hideAttribution: true }}
      >
        <Background gap={20} color="var(--line)" />
        <Controls showInteractive={false} />
      </ReactFlow>
      {count === 0 && <div className="empty"><h2>No steps yet</h2><p>Drag an action here, or press Enter on one in the list.</p></div>}
    </div>
  )
}
