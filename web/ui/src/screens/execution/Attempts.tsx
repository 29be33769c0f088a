import { api, data, useAsk, type Schemas } from "../../api/client"
import type { Named } from "../../field/names"
import { formatCount, formatDuration } from "../../format"
import { Loaded } from "../../parts/Loading"
import { StateWord } from "../../parts/State"
import { Moment, Took } from "../../parts/Time"
import { LogView } from "../../log/LogView"
import { latest } from "../../log/time"
import { ended } from "../../states"
import { usePage } from "./page"

/** Attempts are when each was queued, began and ended, where, and how. */
export function Attempts({ of: s }: { of: Named }) {
  const { id, search, setSearch } = usePage()
  const list = useAttempts(id, s.step_id)
  return (
    <Loaded of={list}>
      {({ attempts, next_cursor: more }) => (
        <>
          {attempts.length > 0 && (
            <table className="table x-attempts">
              <thead><tr><th>#</th><th>Outcome</th><th>Queued</th><th>Waited</th><th>Ran</th><th>Worker</th></tr></thead>
              <tbody>{attempts.map((a, i) => <AttemptRow key={i} of={a} before={attempts[i - 1]} chosen={search.attempt === nameOf(attempts, i)} onChoose={() => setSearch({ attempt: search.attempt === nameOf(attempts, i) ? undefined : nameOf(attempts, i), line: undefined })} />)}</tbody>
            </table>
          )}
          {attempts.length === 0 && <p className="quiet">It has not been queued. The events say what else has happened to it.</p>}
          {more && <p className="quiet">The first {formatCount(attempts.length)} attempts are shown.</p>}
        </>
      )}
    </Loaded>
  )
}

type Attempt = Schemas["Attempt"]

const useAttempts = (id: string, step: string) => useAsk(["execution", id, "live", "attempts", step], () => data(api.GET("/api/v1/executions/{execution_id}/attempts", { params: { path: { execution_id: id }, query: { step, limit: 1000 } } })))

// nameOf is the name of an attempt in addresses: one that waits and goes on has several parts.
function nameOf(attempts: Attempt[], i: number): string {
  const part = attempts.slice(0, i + 1).filter((a) => a.attempt === attempts[i]!.attempt).length
  return part > 1 ? `${attempts[i]!.attempt}.${part}` : `${attempts[i]!.attempt}`
}

const oneOf = (attempts: Attempt[], of: { number: number; part: number }) => attempts.filter((o) => o.attempt === of.number)[of.part - 1]

/** LogOfAttempt is what a step has logged while an attempt ran. The lines' own numbers are others where attempts did not count, or the step
 * was restarted. */
export function LogOfAttempt({ step, attempt, version }: { step: string; attempt: { number: number; part: number }; version: number }) {
  const { id, x } = usePage()
  const list = useAttempts(id, step)
  return (
    <Loaded of={list} lines={2}>
      {({ attempts }) => {
        const a = oneOf(attempts, attempt)
        if (!a?.started_at) return <p className="quiet">It has not begun: there are no lines.</p>
        const from = Math.floor(Date.parse(a.started_at))
        return <LogView execution={id} step={step} during={{ from, to: a.ended_at ? Math.floor(Date.parse(a.ended_at)) + 1 : latest }} live={!ended(x.status)} version={version} started={x.started_at} />
      }}
    </Loaded>
  )
}

/** AttemptFacts are how the attempt that is chosen went. */
export function AttemptFacts({ step, attempt }: { step: string; attempt: { number: number; part: number } }) {
  const { id, setSearch } = usePage()
  const list = useAttempts(id, step)
  const all = () => setSearch({ attempt: undefined, line: undefined })
  return (
    <section className="x-attempt" aria-label={`Attempt ${attempt.number}`}>
      <Loaded of={list} lines={2}>
        {({ attempts }) => {
          const a = oneOf(attempts, attempt)
          if (!a) return <p className="quiet">There is no attempt {attempt.number}{attempt.part > 1 ? `, part ${attempt.part}` : ""} of it. <button type="button" className="button" onClick={all}>All attempts</button></p>
          return (
            <>
              <div className="row">
                <b>Attempt {a.attempt}{attempt.part > 1 ? `, part ${attempt.part}` : ""}</b>
                <StateWord state={a.outcome ?? (a.started_at ? "running" : "queued")} />
                <button type="button" className="button" onClick={all}>All attempts ✕</button>
              </div>
              <dl className="x-facts">
                <dt>queued</dt><dd><Moment time={a.queued_at} ms />{a.started_at && <span className="quiet"> for {lasted(a.queued_at, a.started_at)}</span>}</dd>
                {a.started_at && <><dt>ran from</dt><dd><Moment time={a.started_at} ms />{a.ended_at && <span className="quiet"> for {lasted(a.started_at, a.ended_at)}</span>}</dd></>}
                {a.worker_id && <><dt>worker</dt><dd className="mono">{a.worker_id}</dd></>}
                {a.queue && <><dt>queue</dt><dd className="mono">{a.queue}</dd></>}
                {a.until && <><dt>goes on</dt><dd><Moment time={a.until} /></dd></>}
              </dl>
              {a.detail && <p className="x-detail">{a.detail}</p>}
            </>
          )
        }}
      </Loaded>
    </section>
  )
}

const lasted = (from: string | null, to: string | null) => (from && to ? formatDuration((Date.parse(to) - Date.parse(from)) / 1000) : "")

function AttemptRow({ of: a, before, chosen, onChoose }: { of: Attempt; before: Attempt | undefined; chosen: boolean; onChoose: () => void }) {
  const paused = before?.ended_at && a.queued_at ? Date.parse(a.queued_at) - Date.parse(before.ended_at) : 0
  return (
    <>
      <tr aria-current={chosen || undefined}>
        <td><button type="button" className="button" aria-pressed={chosen} aria-label={`Attempt ${a.attempt}`} onClick={onChoose}>{a.attempt}</button></td>
        <td>{a.outcome === "lost" ? <span className="x-bad">lost</span> : <StateWord state={a.outcome ?? (a.started_at ? "running" : "queued")} />}{paused >= 1 && <span className="quiet"> {formatDuration(paused / 1000)} after the one before</span>}</td>
        <td><Moment time={a.queued_at} ms /></td>
        <td>{lasted(a.queued_at, a.started_at)}</td>
        <td>{a.started_at && !a.ended_at ? <Took from={a.started_at} to={null} /> : lasted(a.started_at, a.ended_at)}</td>
        <td className="mono">{a.worker_id ?? ""}{a.queue ? <span className="quiet"> {a.queue}</span> : null}</td>
      </tr>
      {(a.detail || a.until) && <tr><td /><td colSpan={5} className="quiet x-detail">{a.detail}{a.until && <> Goes on at <Moment time={a.until} />.</>}</td></tr>}
    </>
  )
}
