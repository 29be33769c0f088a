import { useState } from "react"
import { api, data, useDo } from "../../api/client"
import { formatMoment } from "../../format"
import { Dialog } from "../../parts/Dialog"
import { CheckField, TextField } from "../../parts/Fields"
import { say } from "../../parts/Toasts"
import type { Job } from "./fires"

const inputOf = (at: Date) => new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)

/** Backfill fires a schedule for the times of a range that has passed. */
export function Backfill({ job, onClose }: { job: Job; onClose: () => void }) {
  const [from, setFrom] = useState(() => inputOf(new Date(Date.now() - 86_400_000)))
  const [to, setTo] = useState(() => inputOf(new Date()))
  const [again, setAgain] = useState(false)
  const [a, b] = [new Date(from), new Date(to)]
  const fill = useDo(() => data(api.POST("/api/v1/scheduler/jobs/{job_id}/backfill", { params: { path: { job_id: job.job_id } }, body: { from: a.toISOString(), to: b.toISOString(), again } })), [["schedules"], ["executions"]])
  const refused = Number.isNaN(a.getTime()) || Number.isNaN(b.getTime()) ? "give both moments" : a >= b && "the range ends before it begins"
  const done = (r: { count: number; skipped: number; first: string | null; last: string | null }) => {
    say(r.count ? `${r.count} times are filled, ${formatMoment(r.first!)} to ${formatMoment(r.last!)}${r.skipped ? `; ${r.skipped} had fired before` : ""}.` : `No time is filled${r.skipped ? `: all ${r.skipped} had fired before` : ": the range has none"}.`)
    onClose()
  }
  return (
    <Dialog title={`Backfill ${job.name || job.job_id}`} does="Backfill" busy={fill.isPending} refused={refused} problem={fill.error} onClose={onClose} onDo={() => fill.mutate(undefined, { onSuccess: done })}>
      <p className="quiet">Fires it for the times of a range that has passed, one after another unless it lets executions run at once.</p>
      <div className="two">
        <TextField label="From" type="datetime-local" value={from} onChange={setFrom} />
        <TextField label="To" type="datetime-local" value={to} onChange={setTo} />
      </div>
      <CheckField label="Also times that have fired already" value={again} onChange={setAgain} />
    </Dialog>
  )
}
