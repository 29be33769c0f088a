import { useEffect, useMemo, useState } from "react"
import { formatCount, formatDuration } from "../../format"
import { momentOf, placeOf, type Spec } from "../../field/layouts"
import { usePaint } from "../../field/paint"
import { FieldView } from "../../field/overlay"
import { parseView } from "../../field/view"
import type { Naming } from "../../field/names"
import type { View } from "../../field/raster"
import { findTry, nameTry } from "../../field/tries"
import { rowKinds, tryStates, type Lane, type Rows } from "../../field/waterfall"
import { searchOf } from "../../log/time"
import { Skeleton } from "../../parts/Loading"
import { ProblemBox } from "../../parts/Problem"
import { StateMark } from "../../parts/State"
import { ended, lookOf } from "../../states"
import { useLayout } from "./field"
import { useChosen, usePage } from "./page"
import { Ruler } from "./Ruler"

const words: Record<Rows, string> = { step: "A row a step", worker: "By worker", queue: "By queue", packed: "Packed" }

/** WaterfallTab is what was queued, ran and waited when: attempt by attempt. */
export function WaterfallTab() {
  const { field, search, setSearch, live, x, tries } = usePage()
  const few = (field.steps?.n ?? 0) <= 300
  const rows = rowKinds.find((r) => r === search.rows) ?? (few ? "step" : "packed")
  const [now, setNow] = useState(Date.now)
  useEffect(() => { setNow(Date.now()) }, [live.beat])
  const over = ended(x.status)
  const then = field.steps?.at
  const end = over ? Date.parse(x.completed_at ?? x.created_at ?? "") || now : now
  const spec = useMemo<Spec>(() => ({ kind: "waterfall", rows, now: then ?? end, past: then !== undefined }), [rows, end, then])
  const waits = rows === "step" || rows === "queue"
  return (
    <div className="x-view">
      <div className="x-tools">
        <div className="row" role="group" aria-label="Rows of the waterfall">
          {rowKinds.map((r) => <button key={r} type="button" className="button" aria-pressed={rows === r} onClick={() => setSearch({ rows: r, z: undefined })}>{words[r]}</button>)}
        </div>
        <Legend waits={waits} />
        {tries.problem && <span className="note" data-kind="warn">Only the last attempt of each step is shown: {tries.problem.message}</span>}
      </div>
      <Attempts key={rows} spec={spec} rows={rows} />
    </div>
  )
}

function Legend({ waits }: { waits: boolean }) {
  return (
    <ul className="x-legend" aria-label="Legend">
      {waits && <li><svg width="26" height="12" aria-hidden="true"><path d="M1 2v8M1 6h25" stroke="var(--state-queued)" strokeWidth="2" /></svg> queued</li>}
      <li><svg width="26" height="12" aria-hidden="true"><rect width="26" height="12" fill="var(--state-running)" /></svg> running</li>
      {waits && <li><svg width="26" height="12" aria-hidden="true"><path d="M0 6h26" stroke="var(--state-retrying)" strokeWidth="4" strokeDasharray="4 4" /></svg> backoff</li>}
      {waits && <li><svg width="26" height="12" aria-hidden="true"><path d="M0 3h25v6H0" fill="none" stroke="var(--state-waiting)" strokeWidth="2" /></svg> waiting</li>}
      <li className="x-wide"><StateMark state="completed" /> <StateMark state="failed" /> how it ended</li>
    </ul>
  )
}

function Attempts({ spec, rows }: { spec: Spec; rows: Rows }) {
  const { field, names, select, selectIndex, selection, search, setSearch, tries: { tries, problem }, time } = usePage()
  const { index, attempt, pending } = useChosen()
  const { steps } = field
  const layout = useLayout(field, spec, tries)
  const paint = usePaint(tryStates)
  const spans = layout?.spans
  const known = spans?.known ? tries : undefined
  const { mask } = selection
  const dim = useMemo(() => mask && spans && spans.step.map((i) => (mask[i] ? 0 : 1)), [mask, spans])
  const scene = useMemo(() => layout && spans && { layout, status: spans.state, dim: dim && Uint8Array.from(dim), beside: rows === "step" }, [layout, spans, dim, rows])
  const named = useMemo<Naming>(() => ({
    get: (box) => {
      const s = spans && names.get(spans.step[box]!)
      const row = spans?.row[box] ?? 0
      return s && known && row > 0 && known.attempt[row - 1]! > 1 ? { ...s, step_id: `${s.step_id}, attempt ${known.attempt[row - 1]}` } : s
    },
    want: (boxes) => names.want(spans ? [...boxes].map((b) => spans.step[b]!) : []),
    onChange: names.onChange, revision: names.revision,
  }), [names, spans, known])
  // The attempt of the address, else the last one of the step.
  const chosen = useMemo(() => {
    if (!spans || index < 0) return -1
    const row = known ? findTry(known, index, attempt) + 1 : 0
    return row > 0 ? spans.row.indexOf(row) : spans.step.findLastIndex((s, k) => s === index && layout.w[k]! > 0)
  }, [spans, known, index, attempt, layout])
  if (field.problem && !steps) return <ProblemBox problem={field.problem} />
  if (!steps || !scene || !spans) return <Skeleton lines={8} />
  if (!scene.layout.w.some((w) => w > 0)) return <p className="empty">{rows === "step" || rows === "queue" ? "No step has been queued yet." : "No step has started yet."}</p>
  const { gaps } = scene.layout
  const brush = (from: number, to: number) => setSearch(searchOf({ from: steps.began + momentOf(gaps, from), to: steps.began + momentOf(gaps, to) }))
  const inView = () => {
    const v = parseView(search.z)
    const width = document.querySelector(".field-host")?.clientWidth ?? 0
    const [x0, x1] = v ? [v.x, v.x + width / v.sx] : [scene.layout.index.bounds[0], scene.layout.index.bounds[2]]
    brush(Math.max(scene.layout.index.bounds[0], x0), Math.min(scene.layout.index.bounds[2], x1))
  }
  const tip = (box: number) => {
    const at = spans.step[box]!
    const row = spans.row[box]! - 1
    const state = tryStates[spans.state[box]!] ?? ""
    const t = known
    const said = (from: number, to: number) => formatDuration(Math.max(0, to - from) / 1000)
    return (
      <>
        <b>{names.get(at)?.step_id ?? `step ${formatCount(at)}`}</b>
        <div>{lookOf(state).word}{t && row >= 0 ? `, attempt ${nameTry(t, row)}` : ""}</div>
        {t && row >= 0 && t.started[row]! > 0 && <div>queued {said(t.queued[row] || t.started[row]!, t.started[row]!)}{t.ended[row] ? `, ran ${said(t.started[row]!, t.ended[row]!)}` : ""}{t.backoff[row] ? `, then ${formatDuration(t.backoff[row]! / 1000)} of ${state === "waiting" ? "waiting" : "backoff"}` : ""}</div>}
        {t && row >= 0 && t.worker[row]! > 0 && <div className="mono">{t.workers[t.worker[row]!]}</div>}
      </>
    )
  }
  return (
    <>
      <FieldView
        label="Waterfall" help="Arrow keys move between attempts" scene={scene} paint={paint} states={tryStates} names={named} selected={known || problem ? chosen : -1} pending={pending || (index >= 0 && !known && !problem)} timeline
        onSelect={(box) => {
          if (box < 0) return select(undefined)
          const row = spans.row[box]!
          selectIndex(spans.step[box]!, known && row > 0 ? nameTry(known, row - 1) : undefined)
        }}
        above={(view, width) => <Ruler view={view} width={width} gaps={gaps} onBrush={brush} />}
        over={(view, width, height) => <>
          {time && <Shades from={placeOf(gaps, time.from - steps.began)} to={placeOf(gaps, time.to - steps.began)} view={view} width={width} />}
          <Lanes lanes={spans.lanes} view={view} height={height} />
        </>}
        tip={tip}
      />
      <div className="x-tools x-below">
        <button type="button" className="button" onClick={inView}>Only the time in view</button>
        <span className="quiet x-wide">Drag on the ruler to choose a time: log and table show that alone. {rows === "step" ? "The wheel scrolls, with Ctrl it zooms time." : "The wheel zooms time, with Ctrl both directions."} Long idle times are drawn short.</span>
      </div>
    </>
  )
}

const lanesInView = 60
const leastLane = 14 // pixels between two names

function Lanes({ lanes, view, height }: { lanes: Lane[]; view: View; height: number }) {
  const shown: { name: string; y: number; h: number }[] = []
  for (const l of lanes) {
    const [y, h] = [(l.y - view.y) * view.sy, l.h * view.sy]
    if (y > height || shown.length === lanesInView) break
    const top = Math.max(0, y)
    if (y + h < leastLane || (shown.length > 0 && top - shown.at(-1)!.y < leastLane)) continue
    shown.push({ name: l.name, y: top, h })
  }
  return <div className="x-lanes">{shown.map((l) => <span key={l.name} className="mono clip" style={{ top: l.y }}>{l.name}</span>)}</div>
}

function Shades({ from, to, view, width }: { from: number; to: number; view: View; width: number }) {
  const [a, b] = [Math.max(0, Math.min(width, (from - view.x) * view.sx)), Math.max(0, Math.min(width, (to - view.x) * view.sx))]
  return <><i className="x-shade" style={{ left: 0, width: a }} /><i className="x-shade" style={{ left: b, width: width - b }} /></>
}
