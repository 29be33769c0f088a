import { useState } from "react"
import { api, data, useDo, type Schemas } from "../../api/client"
import { Dialog } from "../../parts/Dialog"
import { PickField, TextField } from "../../parts/Fields"
import { say } from "../../parts/Toasts"
import { callbackOf, noTarget, paramsProblem, TargetFields, targetOf } from "../run/Target"
import { usePreview, type Job } from "./fires"
import { Preview } from "./Preview"
import type { Timing } from "./timing"

const types = [["cron", "cron expression"], ["interval", "interval"], ["one_time", "once"], ["after", "after another schedule"], ["manual", "by hand only"], ["webhook", "webhook"], ["event", "event"]] as const
const overlaps = [["skip", "skip it"], ["queue_one", "queue the newest"], ["queue_all", "queue all"], ["cancel_running", "cancel the running one"], ["allow", "run both"]] as const
const misfires = [["run_once", "run the latest"], ["skip", "skip them"], ["run_all", "run all"]] as const

const hints: Record<string, string> = {
  cron: "five or six fields: minute hour date month day; L, #, @daily …",
  interval: "30m, 90s, 1d",
  one_time: "2026-12-24T09:00, in the timezone",
  event: "a pattern of types, such as model.*",
}

/** zones are the time zones that this browser knows. */
const zones = typeof Intl.supportedValuesOf === "function" ? ["UTC", ...Intl.supportedValuesOf("timeZone")] : ["UTC"]

/** JobForm makes or changes a schedule. */
export function JobForm({ job, etag, onClose, onSaved }: { job?: Job; etag?: string; onClose: () => void; onSaved: (j: Job) => void }) {
  const t = job?.schedule
  const [name, setName] = useState(job?.name ?? "")
  const [type, setType] = useState<Timing["type"]>(t?.type ?? "cron")
  const [expression, setExpression] = useState(t?.expression ?? t?.run_at ?? (job ? "" : "0 2 * * *"))
  const [zone, setZone] = useState(t?.timezone ?? Intl.DateTimeFormat().resolvedOptions().timeZone)
  const [after, setAfter] = useState(t?.after?.job_id ?? "")
  const [on, setOn] = useState<string>(t?.after?.on ?? "success")
  const [overlap, setOverlap] = useState<string>(job?.overlap ?? "skip")
  const [misfire, setMisfire] = useState<string>(job?.misfire ?? "run_once")
  const [target, setTarget] = useState(job ? targetOf(job.callback) : noTarget)
  const timed = type === "cron" || type === "one_time"
  const expressed = type in hints
  const schedule: Timing = { type, ...(expressed ? { expression: expression.trim() } : {}), ...(timed ? { timezone: zone } : {}), ...(type === "after" ? { after: { job_id: after.trim(), on: on as "success" } } : {}) }
  const save = useDo(() => {
    const body = { name: name.trim(), schedule, callback: callbackOf(target), overlap: overlap as Job["overlap"], misfire: misfire as Job["misfire"] }
    return data<Schemas["Job"]>(job
      ? api.PUT("/api/v1/scheduler/jobs/{job_id}", { params: { path: { job_id: job.job_id }, header: etag ? { "If-Match": etag } : {} }, body })
      : api.POST("/api/v1/scheduler/jobs", { body }))
  }, [["schedules"], ["fires"]])
  const preview = usePreview(schedule)
  const refused = !name.trim() ? "a name is needed" : !target.name.trim() ? "say what it starts" : paramsProblem(target) || (expressed && type !== "event" && !expression.trim() && "say when it fires")
  return (
    <Dialog title={job ? `Change ${job.name || job.job_id}` : "New schedule"} does={job ? "Save" : "Create"} wide busy={save.isPending} refused={refused} problem={save.error} onClose={onClose} onDo={() => save.mutate(undefined, { onSuccess: (j) => { say(`${job ? "Saved" : "Created"} ${j.name}.${j.warnings?.length ? ` ${j.warnings[0]!.message}` : ""}`); onSaved(j) } })}>
      <TextField label="Name" value={name} onChange={setName} autoFocus={!job} required maxLength={255} />
      <div className="two">
        <PickField label="Fires" value={type} onChange={(v) => setType(v as Timing["type"])} choices={types} />
        {expressed && <TextField label={type === "cron" ? "Cron expression" : type === "event" ? "Event type" : type === "interval" ? "Every" : "At"} value={expression} onChange={setExpression} hint={hints[type]} className="input mono" />}
        {timed && <TextField label="Timezone" value={zone} onChange={setZone} choices={zones} />}
        {type === "after" && <TextField label="Schedule" value={after} onChange={setAfter} hint="id of the schedule whose executions end before" />}
        {type === "after" && <PickField label="When it" value={on} onChange={setOn} choices={[["success", "succeeded"], ["failure", "failed"], ["any", "ended in any way"]]} />}
      </div>
      {(type === "cron" || type === "interval" || type === "one_time") && <Preview of={preview.data} />}
      <TargetFields value={target} onChange={setTarget} />
      <div className="two">
        <PickField label="While one still runs" value={overlap} onChange={setOverlap} choices={overlaps} />
        <PickField label="After downtime, of what was missed" value={misfire} onChange={setMisfire} choices={misfires} />
      </div>
    </Dialog>
  )
}
