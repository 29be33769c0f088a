import { useState } from "react"
import { Link, useLocation } from "wouter"
import { api, data, queries, useAsk, useDo } from "../../api/client"
import { usePages } from "../../api/pages"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { Dialog } from "../../parts/Dialog"
import { Loaded } from "../../parts/Loading"
import { Rows, type Column } from "../../parts/Rows"
import { Ago, Moment } from "../../parts/Time"
import { complain, say } from "../../parts/Toasts"
import { useTargetWords } from "../run/names"
import { Backfill } from "./Backfill"
import { JobForm } from "./JobForm"
import { usePreview, type Job } from "./fires"
import "./schedules.css"
import { timingWords, zone } from "./timing"

type Firing = Awaited<ReturnType<typeof firingsOf>>["rows"][number]

const firingsOf = async (id: string, cursor: string | undefined, signal: AbortSignal) => {
  const page = await data(api.GET("/api/v1/scheduler/jobs/{job_id}/firings", { params: { path: { job_id: id }, query: { cursor, limit: 100 } }, signal }))
  return { rows: page.firings, next: page.next_cursor }
}

const words: Record<string, string> = { ran: "✓ ran", caught_up: "✓ caught up", dropped: "– dropped", refused: "✕ refused", waiting: "◆ waiting" }
const columns: Column<Firing>[] = [
  { title: "Time", width: "150px", show: (f) => <Moment time={f.scheduled_at} /> },
  { title: "What became of it", width: "minmax(110px, 1fr)", show: (f) => <span className={f.status === "refused" ? "bad" : undefined}>{words[f.status]}{f.backfill ? " (backfill)" : ""}{f.count > 1 ? ` × ${f.count}` : ""}</span> },
  { title: "Execution", width: "120px", from: 560, show: (f) => (f.execution_id ? <Link href={`/executions/${f.execution_id}`} onClick={(e) => e.stopPropagation()}>open</Link> : <span className="quiet">–</span>) },
  { title: "Why", width: "minmax(100px, 2fr)", from: 760, show: (f) => <span title={f.error ?? f.reason ?? ""}>{f.error ?? f.reason ?? ""}</span> },
]

export default function Schedule({ params }: { params: Record<string, string | undefined> }) {
  const id = decodeURIComponent(params.id ?? "")
  const job = useAsk(["schedules", id], async (signal) => {
    const answer = await api.GET("/api/v1/scheduler/jobs/{job_id}", { params: { path: { job_id: id } }, signal })
    return { job: answer.data!, etag: answer.response.headers.get("ETag") ?? undefined }
  })
  return <div className="screen"><Loaded of={job} lines={8}>{(it) => <Shown {...it} />}</Loaded></div>
}

function Shown({ job, etag }: { job: Job; etag?: string }) {
  const [, navigate] = useLocation()
  const [open, setOpen] = useState<"edit" | "delete" | "backfill">()
  const noRun = useRefusal("operator")
  const noEdit = useRefusal("editor")
  const starts = useTargetWords()
  const words = usePreview(job.schedule).data?.words
  const path = { params: { path: { job_id: job.job_id } } }
  const stale = [["schedules"], ["fires"]]
  const next = useAsk(["schedules", job.job_id, "next", etag], () => data(api.GET("/api/v1/scheduler/jobs/{job_id}/next-runs", { params: { path: { job_id: job.job_id }, query: { count: 10 } } })))
  const firings = usePages(["schedules", job.job_id, "firings"], (cursor, signal) => firingsOf(job.job_id, cursor, signal), { id: (f) => `${f.scheduled_at} ${f.decided_at} ${f.execution_id}` })
  const toggle = useDo(() => data(job.enabled ? api.POST("/api/v1/scheduler/jobs/{job_id}/pause", path) : api.POST("/api/v1/scheduler/jobs/{job_id}/resume", path)), stale)
  const start = useDo(() => data(api.POST("/api/v1/scheduler/jobs/{job_id}/trigger", { params: { path: { job_id: job.job_id }, header: { "Idempotency-Key": crypto.randomUUID() } }, body: {} })), [...stale, ["executions"]])
  const remove = useDo(() => data(api.DELETE("/api/v1/scheduler/jobs/{job_id}", { params: { path: { job_id: job.job_id }, header: etag ? { "If-Match": etag } : {} } })))
  const ended = job.status === "expired" || job.status === "completed"
  return (
    <>
      <header>
        <h1><Link href="/schedules">Schedules</Link> / {job.name || job.job_id}</h1>
        <span>{job.status}</span>
        <Button kind="main" busy={start.isPending} refused={noRun} onClick={() => start.mutate(undefined, { onSuccess: (x) => say(<>Started. <Link href={`/executions/${x.execution_id}`}>Open the execution</Link></>), onError: complain })}>Run now</Button>
        <Button busy={toggle.isPending} refused={noRun || (ended && `it is ${job.status}`)} onClick={() => toggle.mutate(undefined, { onError: complain })}>{job.enabled ? "Pause" : "Resume"}</Button>
        <Button refused={noRun || (!["cron", "interval"].includes(job.schedule.type) && "only cron and interval schedules have times to fill")} onClick={() => setOpen("backfill")}>Backfill …</Button>
        <Button refused={noEdit} onClick={() => setOpen("edit")}>Edit …</Button>
        <Button kind="danger" refused={noEdit} onClick={() => setOpen("delete")}>Delete …</Button>
      </header>
      {job.last_error && <p className="note" data-kind="warn">{job.last_error}</p>}
      <div className="cards">
        <section className="card" aria-label="Settings"><div className="body">
          <dl className="facts">
            <dt>Fires</dt><dd>{words || timingWords(job.schedule)}{words && job.schedule.expression && <> · <code>{job.schedule.expression}</code></>}{job.schedule.timezone && ` · ${job.schedule.timezone}`}</dd>
            <dt>Starts</dt><dd>{starts(job.callback)}</dd>
            {job.callback.params && Object.keys(job.callback.params).length > 0 && <><dt>Parameters</dt><dd><pre>{JSON.stringify(job.callback.params, null, 1)}</pre></dd></>}
            <dt>While one runs</dt><dd>{(job.overlap ?? "skip").replaceAll("_", " ")}</dd>
            <dt>After downtime</dt><dd>{(job.misfire ?? "run_once").replaceAll("_", " ")}</dd>
            <dt>Fired</dt><dd>{job.run_count === 1 ? "once" : `${job.run_count.toLocaleString("en-US")} times`}{job.dropped_count > 0 && `, ${job.dropped_count.toLocaleString("en-US")} dropped`}</dd>
            <dt>Last</dt><dd>{job.last_execution_id ? <Link href={`/executions/${job.last_execution_id}`}><Ago time={job.last_run_at} /></Link> : "never"}</dd>
            <dt>Id</dt><dd><code>{job.job_id}</code></dd>
            <dt>Made</dt><dd><Moment time={job.created_at} />{job.created_by && ` by ${job.created_by}`}</dd>
          </dl>
        </div></section>
        <section className="card" aria-labelledby="next-runs">
          <header><h2 id="next-runs">Next ten fires</h2><span className="quiet">times in {zone}</span></header>
          <Loaded of={next} lines={5}>
            {({ next_runs }) => next_runs.length === 0 ? <p className="body quiet">{job.enabled ? "It fires at no time by itself." : "It is paused."}</p> : (
              <ul className="lines">{next_runs.map((at) => <li key={at}><Moment time={at} /><span className="grow" /><span className="quiet"><Ago time={at} /></span></li>)}</ul>
            )}
          </Loaded>
        </section>
      </div>
      <section className="card" aria-labelledby="firings">
        <header><h2 id="firings">Firings</h2></header>
        <Loaded of={firings.first} lines={4}>
          {() => (firings.rows?.length ?? 0) === 0 ? <p className="body quiet">It has not fired yet.</p> : <Rows label="Firings" rows={firings.rows!} columns={columns} keyOf={(f) => `${f.scheduled_at} ${f.decided_at} ${f.execution_id}`} onOpen={(f) => { if (f.execution_id) navigate(`/executions/${f.execution_id}`) }} onEnd={firings.onEnd} onView={firings.onView} fit={420} />}
        </Loaded>
      </section>
      {open === "edit" && <JobForm job={job} etag={etag} onClose={() => setOpen(undefined)} onSaved={() => setOpen(undefined)} />}
      {open === "backfill" && <Backfill job={job} onClose={() => setOpen(undefined)} />}
      {open === "delete" && (
        <Dialog title={`Delete ${job.name || job.job_id}?`} does="Delete" danger busy={remove.isPending} problem={remove.error} onClose={() => setOpen(undefined)} onDo={() => remove.mutate(undefined, { onSuccess: () => { say(`Deleted ${job.name || job.job_id}.`); navigate("/schedules"); void queries.invalidateQueries({ queryKey: ["schedules", "list"] }); void queries.invalidateQueries({ queryKey: ["fires"] }) } })}>
          <p>It fires no more. Its executions stay.</p>
        </Dialog>
      )}
    </>
  )
}
