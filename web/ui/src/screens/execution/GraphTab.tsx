import { useEffect, useMemo, useSyncExternalStore, type CSSProperties } from "react"
import { formatCount, formatDuration } from "../../format"
import type { Spec } from "../../field/layouts"
import { FieldView } from "../../field/overlay"
import { usePaint } from "../../field/paint"
import { Loaded } from "../../parts/Loading"
import { StateBar, StateMark } from "../../parts/State"
import { byImportance, ended, lookOf } from "../../states"
import { useGraph } from "./ask"
import { AllSteps } from "./FieldTabs"
import { usePage } from "./page"
import { sceneOf, stateOf, type Node } from "./pseudo"
import { around } from "./selection"

/** What has steps of its own inside. The iterations of one action are shown as a fan; that action the step says. */
const inside = (n: Node, action: string | undefined) => n.kind === "group" || n.kind === "pipeline" || (n.kind === "for_each" && action === "")

const wholeGraph: Spec = { kind: "graph" }

/** GraphTab is the plan with how it stands: every group is one node with counts until it is expanded. */
export function GraphTab() {
  const { id, x, at, search, setSearch, field, step, select, selectIndex, names, goTo } = usePage()
  const expand = useMemo(() => search.x?.split(",").filter(Boolean) ?? [], [search.x])
  const graph = useGraph(id, expand, at)
  const all = search.all === "1"
  const toggle = (node: string) => setSearch({ x: (expand.includes(node) ? expand.filter((e) => e !== node && !e.startsWith(node + ".")) : [...expand, node]).join(",") })
  const open = (node: Node) => {
    const known = names.get(node.index)?.step_id
    if (node.index < 0) {
      if (node.kind === "cluster") setSearch({ all: "1" }, { push: true })
      else goTo("table", { of: node.id, z: undefined })
    } else if (known) select(known)
    else if (!node.parent) select(node.id)
    else selectIndex(node.index)
  }
  return (
    <div className="x-view">
      <div className="x-tools">
        <div className="row" role="group" aria-label="What the graph shows">
          <button type="button" className="button" aria-pressed={!all} onClick={() => setSearch({ all: undefined, z: undefined })}>Groups</button>
          <button type="button" className="button" aria-pressed={all} onClick={() => setSearch({ all: "1", z: undefined })}>All steps</button>
        </div>
        {!all && graph.data?.truncated && <span className="quiet">Too many steps for a node each: neighbouring ones are merged. “All steps” shows each of them.</span>}
        {field.cut && <span className="quiet">The first 1,000,000 of {formatCount(field.cut)} steps are shown.</span>}
      </div>
      {all ? <AllSteps spec={wholeGraph} label="Graph of all steps" /> : (
        <Loaded of={graph} lines={8}>
          {(g) => <Graph key={x.execution_id} nodes={g.nodes} now={g.as_of && Date.parse(g.as_of.at!)} expanded={expand} chosen={step} onToggle={toggle} onOpen={open} onFan={(node) => goTo("fan", { of: node.id })} />}
        </Loaded>
      )}
    </div>
  )
}

interface Props {
  nodes: Node[]
  /** The moment that they show; undefined: now. */
  now: number | undefined
  expanded: string[]
  chosen: string | undefined
  onToggle: (node: string) => void
  onOpen: (node: Node) => void
  onFan: (node: Node) => void
}

function Graph({ nodes, now, expanded, chosen, onToggle, onOpen, onFan }: Props) {
  const { names, selection, field } = usePage()
  const scene = useMemo(() => sceneOf(nodes), [nodes])
  const paint = usePaint(scene.states)
  useSyncExternalStore(names.onChange, names.revision)
  useEffect(() => names.want(nodes.filter((n) => n.kind === "for_each" && n.index >= 0).map((n) => n.index)), [nodes, names])
  const actionOf = (n: Node) => { const s = names.get(n.index); return s && (s.action ?? "") }
  const at = nodes.findIndex((n) => n.id === chosen || (chosen !== undefined && names.get(n.index)?.step_id === chosen))
  const { mask, states } = selection
  const near = useMemo(() => (mask && field.steps ? around(mask, field.steps) : undefined), [mask, field.steps])
  // A node without a step is dimmed by its states; so are all nodes until the steps have been read.
  const dim = useMemo(() => (near || states ? Uint8Array.from(nodes, (n) => ((near && n.index >= 0 ? near[n.index] : !states || states.some((s) => n.states[s] || n.status === s)) ? 0 : 1)) : undefined), [nodes, near, states?.join()])
  const drawn = useMemo(() => ({ layout: scene.layout, status: scene.steps.status, first: scene.steps.first, edges: scene.steps.edges, dim }), [scene, dim])
  const frames = useMemo(() => new Set(scene.layout.frames), [scene])
  const named = useMemo(() => ({ ...silent, get: (i: number) => nodes[i] && { step_id: nameOf(nodes[i]) } }), [nodes])
  return (
    <FieldView
      label="Graph of the execution" scene={drawn} paint={paint} states={scene.states} names={named} selected={at} cards
      onSelect={(i) => { if (i >= 0) onOpen(nodes[i]!) }} tip={(i) => <Tip node={nodes[i]!} now={now} />}
      layer={(visible) => visible.map((i) => {
        const n = nodes[i]!
        const box: CSSProperties = { left: scene.layout.x[i], top: scene.layout.y[i], width: scene.layout.w[i], height: scene.layout.h[i] }
        return (
          <GraphNode key={n.id} node={n} now={now} style={box} frame={frames.has(i)} expanded={expanded.includes(n.id)} chosen={i === at} faint={dim?.[i] === 1}
            onOpen={() => onOpen(n)} onToggle={inside(n, actionOf(n)) ? () => onToggle(n.id) : undefined} onFan={n.kind === "for_each" && !n.parent ? () => onFan(n) : undefined} />
        )
      })}
    />
  )
}

// The nodes have their names: none are asked for.
const silent = { want: () => undefined, onChange: () => () => undefined, revision: () => 0 }

const took = (n: Node, now = Date.now()) => {
  if (!n.first_started) return ""
  const over = Object.keys(n.states).every(ended)
  const end = over && n.last_ended ? Date.parse(n.last_ended) : now
  return formatDuration((end - Date.parse(n.first_started)) / 1000)
}

const nameOf = (n: Node) => (n.parent && n.id.startsWith(n.parent + ".") ? n.id.slice(n.parent.length + 1) : n.id)
const kinds: Record<string, string> = { for_each: "for each", group: "group", pipeline: "pipeline", spawned: "spawned", stream: "stream", cluster: "several steps" }

interface NodeProps { node: Node; now: number | undefined; style: CSSProperties; frame: boolean; expanded: boolean; chosen: boolean; faint: boolean; onOpen: () => void; onToggle?: () => void; onFan?: () => void }

function GraphNode({ node: n, now, style, frame, expanded, chosen, faint, onOpen, onToggle, onFan }: NodeProps) {
  const state = stateOf(n)
  const many = n.count > 1 || n.kind !== "step"
  const bad = (n.states.failed ?? 0) + (n.states.timed_out ?? 0)
  const counts = Object.entries(n.states).sort(([a], [b]) => byImportance(b, a))
  const said = `${nameOf(n)}, ${lookOf(state).word}${many ? `, ${formatCount(n.count)} steps${bad ? `, ${formatCount(bad)} failed` : ""}` : ""}`
  return (
    <div className="x-node" style={style} data-frame={frame || undefined} data-chosen={chosen || undefined} data-faint={faint || undefined} data-bad={state === "failed" || state === "timed_out" || undefined}>
      <i className="x-strip" style={{ background: `var(${lookOf(state).token})` }} aria-hidden="true" />
      <button type="button" className="x-node-open" aria-label={said} aria-pressed={chosen} title={n.action ? `${n.id} · ${n.action}` : n.id} onClick={onOpen}>
        <span className="x-node-head"><StateMark state={state} /><b className="clip">{nameOf(n)}</b><span className="quiet">{took(n, now)}</span></span>
        {!frame && (many ? (
          <span className="x-node-body">
            <StateBar counts={Object.fromEntries(counts)} label={counts.map(([s, k]) => `${k} ${lookOf(s).word}`).join(", ")} />
            <span className="x-node-counts"><span className="quiet">{kinds[n.kind] ?? n.kind} · {formatCount(n.count)}</span>{bad > 0 && <span className="x-bad">{formatCount(bad)} ✕</span>}</span>
          </span>
        ) : <span className="x-node-action quiet clip">{n.action ?? ""}</span>)}
      </button>
      {onFan && !frame && <button type="button" className="x-node-button" aria-label={`All iterations of ${nameOf(n)}`} title="All iterations" onClick={onFan}>▦</button>}
      {onToggle && <button type="button" className="x-node-button" aria-expanded={expanded} aria-label={`${expanded ? "Collapse" : "Expand"} ${nameOf(n)}`} title={expanded ? "Collapse" : "Expand"} onClick={onToggle}>{expanded ? "−" : "+"}</button>}
    </div>
  )
}

function Tip({ node: n, now }: { node: Node; now: number | undefined }) {
  return (
    <>
      <b>{n.id}</b>
      {Object.entries(n.states).sort(([a], [b]) => byImportance(a, b)).map(([s, k]) => <div key={s}>{formatCount(k)} {lookOf(s).word}</div>)}
      {n.first_started && <div>{took(n, now)}</div>}
    </>
  )
}
