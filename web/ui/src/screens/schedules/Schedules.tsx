import { useMemo, useState } from "react"
import { Link, useLocation } from "wouter"
import { api, data } from "../../api/client"
import { usePages } from "../../api/pages"
import { useKeys } from "../../keys"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { Loaded } from "../../parts/Loading"
import { Rows, type Column } from "../../parts/Rows"
import { Ago, Moment } from "../../parts/Time"
import { useSearchParams } from "../../url"
import { useTargetWords } from "../run/names"
import { Calendar } from "./Calendar"
import { JobForm } from "./JobForm"
import type { Job } from "./fires"
import "./schedules.css"
import { timingWords, zone } from "./timing"

const marks: Record<Job["status"], string> = { active: "▶", paused: "❙❙", expired: "⌛", completed: "✓" }

function Starts({ of }: { of: Job }) {
  return <>{useTargetWords()(of.callback)}</>
}

const columns: Column<Job>[] = [
  { title: "Name", width: "minmax(110px, 1.8fr)", show: (j) => <Link href={`/schedules/${encodeURIComponent(j.job_id)}`} onClick={(e) => e.stopPropagation()} tabIndex={-1}>{j.name || j.job_id}</Link> },
  { title: "State", width: "84px", show: (j) => <><span aria-hidden="true" className="quiet">{marks[j.status]}</span> {j.status}</> },
  { title: "Fires", width: "minmax(120px, 1.8fr)", from: 560, show: (j) => <span title={`${j.schedule.expression ?? ""} ${j.schedule.timezone ?? ""}`}>{timingWords(j.schedule)}{j.schedule.timezone && <span className="quiet"> {j.schedule.timezone}</span>}</span> },
  { title: "Next", width: "minmax(72px, 0.7fr)", show: (j) => (j.enabled && j.next_run_at ? <Ago time={j.next_run_at} /> : <span className="quiet">–</span>) },
  { title: `At, ${zone}`, width: "140px", from: 1180, show: (j) => <Moment time={j.enabled ? j.next_run_at : null} /> },
  { title: "Starts", width: "minmax(150px, 1.6fr)", from: 900, show: (j) => <Starts of={j} /> },
  { title: "Last", width: "76px", from: 760, show: (j) => (j.last_execution_id ? <Link href={`/executions/${j.last_execution_id}`} onClick={(e) => e.stopPropagation()}><Ago time={j.last_run_at} /></Link> : <span className="quiet">never</span>) },
  { title: "Runs", width: "48px", from: 1340, show: (j) => j.run_count.toLocaleString("en-US") },
  { title: "Trouble", width: "minmax(64px, 1fr)", from: 1180, show: (j) => (j.last_error ? <span className="bad" title={j.last_error}>{j.last_error}</span> : <span className="quiet">–</span>) },
]

// The schedule that fires next comes first; schedules that do not fire again come last.
const bySoonest = (a: Job, b: Job) => soon(a).localeCompare(soon(b)) || a.name.localeCompare(b.name)
const soon = (j: Job) => (j.enabled && j.next_run_at) || "~"

export default function Schedules() {
  const [search, set] = useSearchParams()
  const [, navigate] = useLocation()
  const [making, setMaking] = useState(false)
  const noEdit = useRefusal("editor")
  const calendar = search.tab === "calendar"
  const status = (["active", "paused", "expired", "completed"] as const).find((s) => s === search.status)
  const list = usePages(["schedules", "list", status ?? ""], async (cursor, signal) => {
    const page = await data(api.GET("/api/v1/scheduler/jobs", { params: { query: { status, cursor, limit: 200 } }, signal }))
    return { rows: page.jobs, next: page.next_cursor }
  }, { id: (j) => j.job_id, enabled: !calendar })
  useKeys([{ keys: "n", does: "New schedule", act: () => { if (!noEdit) setMaking(true) } }])
  const rows = useMemo(() => [...(list.rows ?? [])].sort(bySoonest), [list.rows])
  return (
    <div className="screen" data-full={!calendar || undefined}>
      <header>
        <h1>Schedules</h1>
        <nav className="tabs" aria-label="Schedules as">
          <Link href="/schedules" aria-current={calendar ? undefined : "page"}>List</Link>
          <Link href="/schedules?tab=calendar" aria-current={calendar ? "page" : undefined}>Calendar</Link>
        </nav>
        <Button kind="main" refused={noEdit} onClick={() => setMaking(true)}>New schedule …</Button>
      </header>
      {calendar ? <Calendar /> : (
        <>
          <div className="chips" role="group" aria-label="States">
            {(["active", "paused", "expired", "completed"] as const).map((s) => <button key={s} type="button" className="chip" aria-pressed={status === s} onClick={() => set({ status: status === s ? "" : s })}>{s}</button>)}
          </div>
          <Loaded of={list.first} lines={8}>
            {() => rows.length > 0 ? (
              <div className="fill"><Rows label="Schedules" rows={rows} columns={columns} keyOf={(j) => j.job_id} onOpen={(j) => navigate(`/schedules/${encodeURIComponent(j.job_id)}`)} onEnd={list.onEnd} onView={list.onView} /></div>
            ) : (
              <div className="empty">
                <h2>{status ? `No schedule is ${status}` : "There are no schedules yet"}</h2>
                <p>A schedule starts a stored pipeline or an action at times: cron, intervals, once, or after another.</p>
                {!status && <div className="actions"><Button kind="main" refused={noEdit} onClick={() => setMaking(true)}>New schedule …</Button></div>}
              </div>
            )}
          </Loaded>
        </>
      )}
      {making && <JobForm onClose={() => setMaking(false)} onSaved={(j) => { setMaking(false); navigate(`/schedules/${encodeURIComponent(j.job_id)}`) }} />}
    </div>
  )
}
