import { useEffect, useMemo, useRef, useState } from "react"
import { api, data, Problem, type Schemas } from "../../api/client"
import { formatCount, formatMoment } from "../../format"
import { Skeleton } from "../../parts/Loading"
import { ProblemBox } from "../../parts/Problem"
import { Rows, type Column } from "../../parts/Rows"
import { StateMark } from "../../parts/State"
import { lookOf, looks } from "../../states"
import { fold, quiet, type Entry } from "./history"
import { usePage } from "./page"

type Event = Schemas["HistoryEvent"]

const page = 1000
const most = 20_000

/** Events is what the engine has recorded: in order, each once; usual ones of many steps are folded. */
export function Events() {
  const { search, setSearch, select, step } = usePage()
  const history = useHistory()
  const kinds = useMemo(() => [...new Set(history.events.map((e) => e.event_type))].sort(), [history.events])
  const only = search.of
  const rows = useMemo(() => {
    const wanted = history.events.filter((e) => (!search.type || e.event_type === search.type) && (!only || e.step_id === only))
    return search.fold === "0" || search.type || only ? wanted.map((event, i): Entry => ({ key: `${event.version}.${i}`, event, count: 1 })) : fold(wanted)
  }, [history.events, search.type, search.fold, only])
  const columns: Column<Entry>[] = [
    { title: "Time", width: "104px", show: ({ event: e }) => (e.timestamp ? <time dateTime={e.timestamp} title={e.timestamp}>{formatMoment(e.timestamp, true).slice(11)}</time> : "") },
    { title: "Event", width: "minmax(120px, 200px)", show: ({ event: e, count }) => <span className="state"><Mark type={e.event_type} />{e.event_type.replaceAll("_", " ")}{count > 1 ? <b> × {formatCount(count)}</b> : null}</span> },
    { title: "Step", width: "minmax(100px, 1fr)", show: ({ event: e, last, count }) => <span className="mono">{count > 1 ? `${e.step_id} … ${last?.step_id}` : e.step_id ?? ""}</span> },
    { title: "Detail", width: "minmax(120px, 2fr)", from: 760, show: ({ event: e, count }) => (count > 1 ? <span className="quiet">folded</span> : <span title={e.detail}>{e.detail ?? ""}{e.worker_id ? <span className="quiet"> {e.worker_id}</span> : null}</span>) },
    { title: "Commit", width: "72px", from: 1000, show: ({ event: e }) => <span className="quiet">{e.version}</span> },
  ]
  if (history.problem) return <ProblemBox problem={history.problem} />
  return (
    <div className="x-view">
      <div className="x-tools">
        <select className="input" aria-label="Type of event" value={search.type ?? ""} onChange={(e) => setSearch({ type: e.target.value })}>
          <option value="">all events</option>
          {kinds.map((k) => <option key={k} value={k}>{k.replaceAll("_", " ")}</option>)}
        </select>
        {step && only !== step && <button type="button" className="button" onClick={() => setSearch({ of: step })}>only {step}</button>}
        {only && <button type="button" className="button" onClick={() => setSearch({ of: undefined })}>{only} ✕</button>}
        <button type="button" className="button" aria-pressed={search.fold !== "0"} onClick={() => setSearch({ fold: search.fold === "0" ? undefined : "0" })}>Fold usual events</button>
        <span className="quiet" role="status">{formatCount(history.events.length)} events{history.more ? ", more follow" : ""}</span>
      </div>
      {history.loading && rows.length === 0 ? <Skeleton lines={8} /> : (
        <div className="x-rows"><Rows label="Events" rows={rows} columns={columns} keyOf={(e) => e.key} onOpen={({ event: e }) => { if (e.step_id) select(e.step_id) }} onEnd={history.readOn} rowHeight={28} /></div>
      )}
    </div>
  )
}

function Mark({ type }: { type: string }) {
  const state = Object.keys(looks).find((s) => type.includes(s)) ?? (type.includes("start") ? "running" : quiet(type) ? "pending" : "")
  return state ? <StateMark state={state} /> : <StateMark state={lookOf("waiting").word} />
}

interface Reading { cursor?: string; after: number; count: number; busy?: boolean; again?: boolean }

// useHistory reads the events on from the last one: what comes is behind it, so nothing is lost or there twice.
function useHistory() {
  const { id, live } = usePage()
  const [events, setEvents] = useState<Event[]>([])
  const [state, set] = useState<{ loading: boolean; more: boolean; problem?: Problem }>({ loading: true, more: true })
  const at = useRef<Reading>({ after: 0, count: 0 })
  const read = useRef(() => Promise.resolve())
  read.current = async () => {
    const now = at.current
    if (now.busy) { now.again = true; return } // what has just happened may not be in the answer that is on its way
    if (now.count >= most) return
    now.busy = true
    now.again = false
    try {
      const query = { limit: page, ...(now.cursor ? { cursor: now.cursor } : { after: now.after }) }
      const got = await data(api.GET("/api/v1/executions/{execution_id}/history", { params: { path: { execution_id: id }, query } }))
      if (now !== at.current) return
      now.cursor = got.next_cursor
      now.after = got.events.at(-1)?.version ?? now.after
      now.count += got.events.length
      if (got.events.length > 0) setEvents((list) => list.concat(got.events))
      set({ loading: false, more: got.next_cursor !== undefined })
    } catch (err) {
      if (now === at.current && err instanceof Problem && err.status !== 0) set({ loading: false, more: false, problem: err })
    } finally {
      now.busy = false
    }
    if (now.again && !now.cursor) await read.current()
  }
  useEffect(() => {
    at.current = { after: 0, count: 0 }
    setEvents([])
  }, [id])
  useEffect(() => { if (!at.current.cursor) void read.current() }, [id, live.beat])
  return { events, ...state, readOn: state.more ? () => void read.current() : undefined }
}
