import { useEffect, useMemo, useState, useSyncExternalStore } from "react"
import { send } from "../../api/client"
import { formatCount, formatDuration, formatMoment } from "../../format"
import { containersOf } from "../../field/layouts"
import type { Named } from "../../field/names"
import { select as selectSteps } from "../../field/steps"
import { Skeleton } from "../../parts/Loading"
import { Rows, type Column } from "../../parts/Rows"
import { StateWord } from "../../parts/State"
import { complain } from "../../parts/Toasts"
import { ended } from "../../states"
import { usePage } from "./page"

const orders = { index: "in order of the pipeline", duration: "longest first", started: "last started first" } as const

/** StepTable is all steps as a list: the same selection as in the pictures. Only what is in view has a name that was asked for. */
export function StepTable() {
  const { field, names, states, search, setSearch, step, selectIndex, marks } = usePage()
  const { steps } = field
  useSyncExternalStore(names.onChange, names.revision) // draws again when names have come
  const found = useFound(search.t ?? "", search.of)
  const sort = search.sort === "duration" || search.sort === "started" ? search.sort : "index"
  const filter = states.join()
  const rows = useMemo(() => {
    if (!steps) return []
    const wanted = filter ? filter.split(",") : undefined
    let list = Array.from(selectSteps(steps, (s) => !wanted || wanted.includes(s)))
    if (marks) list = list.filter((i) => marks[i])
    if (found) list = list.filter((i) => found.has(i))
    if (sort === "duration") list.sort((a, b) => steps.duration[b]! - steps.duration[a]! || a - b)
    if (sort === "started") list.sort((a, b) => steps.start[b]! - steps.start[a]! || a - b)
    return list
  }, [steps, filter, found, sort, marks])
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
        <Find />
        {search.of && <button type="button" className="button" onClick={() => setSearch({ of: undefined })}>inside {search.of} ✕</button>}
        <select className="input" aria-label="Order" value={sort} onChange={(e) => setSearch({ sort: e.target.value === "index" ? undefined : e.target.value })}>
          {Object.entries(orders).map(([k, word]) => <option key={k} value={k}>{word}</option>)}
        </select>
        <span className="quiet" role="status">{formatCount(rows.length)} {rows.length === 1 ? "step" : "steps"}{found?.size === maxFound ? ", more match: narrow the search" : ""}</span>
      </div>
      <div className="x-rows">
        <Rows label="Steps" rows={rows} columns={columns} keyOf={(i) => String(i)} selected={step === undefined ? undefined : String(names.indexOf(step))} onOpen={selectIndex} rowHeight={28} />
        {rows.length === 0 && <p className="empty">No step matches.</p>}
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

function Find() {
  const { search, setSearch } = usePage()
  const [text, setText] = useState(search.t ?? "")
  useEffect(() => {
    if (text === (search.t ?? "")) return
    const timer = setTimeout(() => setSearch({ t: text }), 300)
    return () => clearTimeout(timer)
  }, [text, search.t, setSearch])
  return <input className="input" type="search" placeholder="Find a step or action" aria-label="Find a step or action" value={text} maxLength={200} onChange={(e) => setText(e.target.value)} />
}

const maxFound = 5000

// useFound asks which steps have a text or are inside another one; undefined: all.
function useFound(text: string, parent: string | undefined): Set<number> | undefined {
  const { id, names, field } = usePage()
  const [found, set] = useState<Set<number>>()
  useEffect(() => {
    const stop = new AbortController()
    if (!text && !parent) {
      set(undefined)
      return
    }
    const read = async () => {
      const all: Named[] = []
      let cursor = ""
      do {
        const query = new URLSearchParams({ limit: "1000", ...(text ? { q: text } : {}), ...(parent ? { prefix: parent } : {}), ...(cursor ? { cursor } : {}) })
        const got = (await (await send(`api/v1/executions/${encodeURIComponent(id)}/steps?${query}`, { signal: stop.signal })).json()) as { steps: Named[]; next_cursor?: string }
        all.push(...got.steps)
        cursor = got.next_cursor ?? ""
      } while (cursor && all.length < maxFound)
      names.keep(all)
      set(new Set(all.slice(0, maxFound).map((s) => s.index)))
    }
    read().catch((err: unknown) => { if (!stop.signal.aborted) complain(err) })
    return () => stop.abort()
  }, [text, parent, id, names, field.steps?.n])
  return found
}
