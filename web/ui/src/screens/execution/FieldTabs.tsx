import { useEffect, useMemo, useState } from "react"
import { formatCount, formatDuration } from "../../format"
import { histogram, insideOf, type Spec } from "../../field/layouts"
import { FieldView } from "../../field/overlay"
import { usePaint } from "../../field/paint"
import { Skeleton } from "../../parts/Loading"
import { ProblemBox } from "../../parts/Problem"
import { ended, lookOf } from "../../states"
import { useGraph } from "./ask"
import { useLayout } from "./field"
import { colours, type ColourBy } from "./colours"
import { useChosen, usePage } from "./page"

/** AllSteps is the field in one of its layouts, with what is selected and filtered. */
export function AllSteps({ spec, label, by = "state" }: { spec: Spec; label: string; by?: ColourBy }) {
  const { field, names, selectIndex, select, selection } = usePage()
  const { index, pending } = useChosen()
  const { steps } = field
  const layout = useLayout(field, spec)
  const statePaint = usePaint(steps?.states ?? [])
  const { mask } = selection
  const dim = useMemo(() => mask?.map((v) => 1 - v), [mask])
  const coloured = useMemo(() => (steps && by !== "state" ? colours(steps, by, statePaint) : undefined), [steps, by, statePaint])
  const scene = useMemo(() => steps && layout && { layout, status: coloured?.values ?? steps.status, dim, ...(spec.kind === "graph" ? { first: steps.first, edges: steps.edges } : {}) }, [steps, layout, coloured, dim, spec])
  if (field.problem && !steps) return <ProblemBox problem={field.problem} />
  if (!steps || !scene) return <Skeleton lines={8} />
  if (!scene.layout.w.some((w) => w > 0)) return <p className="empty">There are no steps here yet.</p>
  return (
    <FieldView
      key={spec.kind} label={label} scene={scene} paint={coloured?.paint ?? statePaint} states={steps.states} names={names} selected={index} pending={pending} cards={spec.kind === "graph"} largest={spec.kind === "fan" ? 2 : 1} clear={spec.kind === "fan" ? 40 : 0}
      onSelect={(i) => (i < 0 ? select(undefined) : selectIndex(i))}
      tip={(i) => <StepTip index={i} />}
    />
  )
}

function StepTip({ index: i }: { index: number }) {
  const { field, names } = usePage()
  const steps = field.steps!
  const state = steps.states[steps.status[i]!] ?? ""
  return (
    <>
      <b>{names.get(i)?.step_id ?? `step ${formatCount(i)}`}</b>
      <div>{lookOf(state).word}{steps.attempt[i]! > 1 ? `, attempt ${steps.attempt[i]}` : ""}</div>
      {steps.start[i]! > 0 && <div>{ended(state) ? formatDuration(steps.duration[i]! / 1000) : `since ${formatDuration(((steps.at ?? Date.now()) - steps.began - steps.start[i]!) / 1000)}`}</div>}
    </>
  )
}

/** FanTab is the iterations of a for_each as a grid. */
export function FanTab() {
  const { id, field, search, setSearch, names } = usePage()
  const graph = useGraph(id, [])
  const fans = useMemo(() => (graph.data?.nodes ?? []).filter((n) => n.kind === "for_each" && n.index >= 0), [graph.data])
  const [found, setFound] = useState<{ key: string; index: number }>()
  const of = search.of ?? fans[0]?.id ?? ""
  const known = fans.find((n) => n.id === of)?.index
  useEffect(() => {
    if (!of || known !== undefined) return
    let stale = false
    names.locate(of).then((index) => { if (!stale) setFound({ key: of, index }) }, () => { if (!stale) setFound({ key: of, index: -1 }) })
    return () => { stale = true }
  }, [of, known, names])
  const index = known ?? (found?.key === of ? found.index : -1)
  const by = (["duration", "attempt", "worker"] as const).find((b) => b === search.by) ?? "state"
  const spec = useMemo<Spec>(() => ({ kind: "fan", parent: index }), [index])
  const shown = useMemo(() => (field.steps ? insideOf(field.steps, index) : []), [field.steps, index])
  return (
    <div className="x-view">
      <div className="x-tools">
        <label className="row">of
          <select className="input" value={index < 0 ? "" : of} onChange={(e) => setSearch({ of: e.target.value || undefined, z: undefined })}>
            {index < 0 && <option value="">all steps</option>}
            {fans.map((n) => <option key={n.id} value={n.id}>{n.id}</option>)}
            {index >= 0 && !fans.some((n) => n.id === of) && <option value={of}>{of}</option>}
          </select>
        </label>
        <label className="row">coloured by
          <select className="input" value={by} onChange={(e) => setSearch({ by: e.target.value === "state" ? undefined : e.target.value })}>
            {["state", "duration", "attempt", "worker"].map((b) => <option key={b}>{b}</option>)}
          </select>
        </label>
        <span className="quiet">{formatCount(shown.length)} steps in the order of the input</span>
      </div>
      <AllSteps key={index} spec={spec} label={`Iterations of ${of || "all steps"}`} by={by} />
      <Durations shown={shown} />
    </div>
  )
}

function Durations({ shown }: { shown: number[] }) {
  const { field } = usePage()
  const h = useMemo(() => (field.steps ? histogram(field.steps, shown) : { counts: [], least: 0, most: 0 }), [field.steps, shown])
  if (h.counts.length === 0) return null
  const most = Math.max(...h.counts)
  return (
    <figure className="x-histogram">
      <svg viewBox={`0 0 ${h.counts.length} 40`} preserveAspectRatio="none" role="img" aria-label={`Durations from ${formatDuration(h.least / 1000)} to ${formatDuration(h.most / 1000)}`}>
        {h.counts.map((c, i) => <rect key={i} x={i + 0.08} width={0.84} y={40 - (38 * c) / most} height={(38 * c) / most} fill="var(--accent)"><title>{formatCount(c)} steps</title></rect>)}
      </svg>
      <figcaption className="quiet"><span>{formatDuration(h.least / 1000)}</span><span>durations, in steps of equal ratio</span><span>{formatDuration(h.most / 1000)}</span></figcaption>
    </figure>
  )
}
