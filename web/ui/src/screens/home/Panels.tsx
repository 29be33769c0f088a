import { useMemo, useState } from "react"
import { Link, useLocation } from "wouter"
import { api, data, useAsk } from "../../api/client"
import { Button } from "../../parts/Button"
import { Loaded } from "../../parts/Loading"
import { Rows } from "../../parts/Rows"
import { StateMark } from "../../parts/State"
import { Ago, Moment } from "../../parts/Time"
import { lookOf } from "../../states"
import { Decide, useApprovals, useMayDecide, type Deciding } from "../approvals/decide"
import { columns } from "../executions/columns"
import type { Execution } from "../executions/query"

const shown = 6

/** NeedsYou is what waits for a person: decisions, and what failed within a day. */
export function NeedsYou() {
  const approvals = useApprovals()
  const [deciding, setDeciding] = useState<Deciding>()
  const may = useMayDecide()
  const failed = useAsk(["executions", "failed"], (signal) => data(api.GET("/api/v1/executions", {
    params: { query: { status: ["failed", "timed_out", "completed_with_failures"], limit: shown, from: new Date(Date.now() - 86_400_000).toISOString() } }, signal,
  })))
  return (
    <section className="card" aria-labelledby="needs-you">
      <header><h2 id="needs-you">Needs you</h2><Link href="/approvals">All approvals</Link></header>
      <Loaded of={approvals} lines={2}>
        {(a) => (
          <Loaded of={failed} lines={2}>
            {(f) => a.approvals.length + f.executions.length === 0 ? <p className="body quiet">Nothing: no decision is waited for, and nothing failed within 24 hours.</p> : (
              <ul className="lines">
                {a.approvals.slice(0, shown).map((it) => (
                  <li key={it.approval_id}>
                    <StateMark state="waiting" />
                    <span className="grow" title={it.message}>{it.message} <span className="quiet"><Ago time={it.asked_at} /></span></span>
                    <Button refused={may(it)} aria-label={`Approve ${it.message}`} onClick={() => setDeciding({ approval: it, approve: true })}>✓</Button>
                    <Button kind="danger" refused={may(it)} aria-label={`Reject ${it.message}`} onClick={() => setDeciding({ approval: it, approve: false })}>✕</Button>
                  </li>
                ))}
                {f.executions.map((x) => (
                  <li key={x.execution_id}>
                    <StateMark state={x.status} />
                    <span className="grow">{x.pipeline} {lookOf(x.status).word} <span className="quiet"><Ago time={x.completed_at} />{x.breached && ` · past its ${x.breached} time`}</span></span>
                    <Link href={`/executions/${x.execution_id}`} aria-label={`Why ${x.pipeline} ${lookOf(x.status).word}`}>why</Link>
                  </li>
                ))}
              </ul>
            )}
          </Loaded>
        )}
      </Loaded>
      {deciding && <Decide of={deciding} onClose={() => setDeciding(undefined)} />}
    </section>
  )
}

/** NextFires are the schedules that fire next. */
export function NextFires() {
  const jobs = useAsk(["schedules", "next"], (signal) => data(api.GET("/api/v1/scheduler/jobs", { params: { query: { status: "active", limit: 500 } }, signal })))
  const next = useMemo(() => (jobs.data?.jobs ?? []).filter((j) => j.next_run_at && j.enabled).sort((a, b) => a.next_run_at!.localeCompare(b.next_run_at!)).slice(0, shown), [jobs.data])
  return (
    <section className="card" aria-labelledby="next-fires">
      <header><h2 id="next-fires">Next fires</h2><Link href="/schedules">All schedules</Link></header>
      <Loaded of={jobs} lines={3}>
        {() => next.length === 0 ? <p className="body quiet">No schedule is due. <Link href="/schedules">Make one</Link></p> : (
          <ul className="lines">
            {next.map((j) => (
              <li key={j.job_id}>
                <Moment time={j.next_run_at} />
                <Link className="grow" href={`/schedules/${encodeURIComponent(j.job_id)}`}>{j.name || j.job_id}</Link>
                <span className="quiet"><Ago time={j.next_run_at} /></span>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </section>
  )
}

/** Recent are the newest executions. */
export function Recent({ executions }: { executions: Execution[] }) {
  const [, navigate] = useLocation()
  return (
    <section className="card" aria-labelledby="recent">
      <header><h2 id="recent">Recent executions</h2><Link href="/executions">All executions</Link></header>
      <Rows label="Recent executions" rows={executions} columns={columns} keyOf={(x) => x.execution_id} onOpen={(x) => navigate(`/executions/${x.execution_id}`)} fit={480} />
    </section>
  )
}
