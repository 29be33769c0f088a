import { useEffect, useMemo, useSyncExternalStore } from "react"
import { formatCount, formatDuration, formatMoment } from "../../format"
import { containersOf } from "../../field/layouts"
import { select as selectSteps } from "../../field/steps"
import { ranIn, triesOf } from "../../field/tries"
import { evaluate } from "../../selection/evaluate"
import { ProblemBox } from "../../parts/Problem"
import { Skeleton } from "../../parts/Loading"
import { Rows, type Column } from "../../parts/Rows"
import { StateWord } from "../../parts/State"
import { ended } from "../../states"
import { usePage } from "./page"
import { useKeys } from "./selection"

const orders = { index: "in order of the pipeline", duration: "longest first", started: "last started first" } as const

/** StepTable is all steps as a list: the same selection as in the pictures. Only what is in view has a name that was asked for. */
export function StepTable() {
  const { id, field, names, selection, search, setSearch, step, selectIndex, tries, time } = usePage()
  const { steps } = field
  useSyncExternalStore(names.onChange, names.revision) // draws again when names have come
  const { mask, waits, problem } = selection
  const { keys } = useKeys(id, steps, search.of !== undefined)
  const sort = search.sort === "duration" || search.sort === "started" ? search.sort : "index"
  const rows = useMemo(() => {
    if (!steps || waits || (search.of && !keys)) return []
    let list = Array.from(selectSteps(steps, () => true))
    if (mask) list = list.filter((i) => mask[i])
    if (search.of) {
      const inside = evaluate({ kind: "match", field: "step", pattern: search.of + "**" }, steps, keys)
      list = list.filter((i) => inside[i])
    }
    if (time) {
      const t = tries.tries ?? triesOf(steps)
      const ran = ranIn(t, steps.n, time.from - t.began, time.to - t.began)
      list = list.filter((i) => ran[i])
    }
    if (sort === "duration") list.sort((a, b) => steps.duration[b]! - steps.duration[a]! || a - b)
    if (sort === "started") list.sort((a, b) => steps.start[b]! - steps.start[a]! || a - b)
    return list
  }, [steps, mask, waits, keys, search.of, sort, time, tries.tries])
  const frames = useMemo(() => new Set(steps ? containersOf(steps) : []), [steps])
  if (!steps) return <Skeleton lines={10} />
  const columns: Column<number>[] = [
    { title: "Step", width: "minmax(140px, 2fr)", show: (i) => <Name index={i} frame={frames.has(i)} /> },
    { title: "State", width: "130px", show: (i) => <StateWord state={steps.states[steps.status[i]!]!} /> },
    { title: "Action", width: "minmax(90px, 1fr)", from: 900, show: (i) => <span className="mono quiet">{names.get(i)?.action ?? ""}</span> },
    { title: "Attempt", width: "64px", from: 900, show: (i) => (steps.attempt[i]! > 0 ? steps.attempt[i] : "") },
    { title: "Started", width: "104px", from: 640, show: (i) => (steps.start[i] ? formatMoment(steps.began + steps.start[i]! - 1, true).slice(11) : "") },
    { title: "Duration", width: "84px", show: (i) => (steps.start[i] && ended(steps.states[steps.status[i]!]!) ? formatDuration(steps.duration[i]! / 1000) : "") },
    { title: "Worker", width: "minmax(80px, 1fr)", from: 1200, show: (i) => <span className="mono quiet">{steps.workers[steps.worker[i]!] ?? ""}</span> },
  ]
  return (
    <div className="x-view">
      <div className="x-tools">
        {search.of && <button type="button" className="button" onClick={() => setSearch({ of: undefined })}>inside {search.of} ✕</button>}
        <select className="input" aria-label="Order" value={sort} onChange={(e) => setSearch({ sort: e.target.value === "index" ? undefined : e.target.value })}>
          {Object.entries(orders).map(([k, word]) => <option key={k} value={k}>{word}</option>)}
        </select>
        <span className="quiet" role="status">{waits ? "" : `${formatCount(rows.length)} ${rows.length === 1 ? "step" : "steps"}`}</span>
      </div>
      <div className="x-rows">
        <Rows label="Steps" rows={rows} columns={columns} keyOf={(i) => String(i)} selected={step === undefined ? undefined : String(names.indexOf(step))} onOpen={selectIndex} rowHeight={28} />
        {rows.length === 0 && (problem ? <ProblemBox problem={problem} /> : !waits && <p className="empty">No step matches.</p>)}
      </div>
    </div>
  )
}

// Name asks for the name of a step that has come into view.
function Name({ index, frame }: { index: number; frame: boolean }) {
  const { names } = usePage()
  const name = names.get(index)?.step_id
  useEffect(() => { if (!name) names.want([index]) }, [index, name, names])
  return name ? <span className="mono" title={name}>{frame ? "▸ " : ""}{name}</span> : <span className="quiet">{formatCount(index)}</span>
}
