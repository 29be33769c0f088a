import { useState } from "react"
import { api, data, useAsk, useDo, type Schemas } from "../../api/client"
import { formatCount } from "../../format"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { Dialog } from "../../parts/Dialog"
import { Loaded } from "../../parts/Loading"
import { Menu } from "../../parts/Menu"
import { complain, say } from "../../parts/Toasts"
import { ended } from "../../states"
import { useLocation } from "wouter"
import { useApprovals } from "./ask"
import { usePage } from "./page"

export type Again = { kind: "retry"; from?: string } | { kind: "restart"; step: string; failed: boolean }

const path = (id: string) => ({ path: { execution_id: id } })
const token = () => [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("")

/** Actions are the buttons of an execution. */
export function Actions() {
  const { id, x, step } = usePage()
  const refused = useRefusal("operator")
  const [asked, ask] = useState<Again | "cancel" | undefined>()
  const stale = [["execution", id]]
  const pause = useDo(() => data(api.POST("/api/v1/executions/{execution_id}/pause", { params: path(id) })), stale)
  const resume = useDo(() => data(api.POST("/api/v1/executions/{execution_id}/resume", { params: path(id) })), stale)
  const over = ended(x.status)
  const topLevel = step?.replace(/[[.].*$/, "")
  const report = { onError: complain }
  return (
    <div className="x-actions">
      <Approvals />
      {x.status === "paused"
        ? <Button refused={refused} busy={resume.isPending} onClick={() => resume.mutate(undefined, report)}>Resume</Button>
        : <Button refused={refused || (over && "it has ended") || (x.status === "cancelling" && "it is being cancelled")} busy={pause.isPending} onClick={() => pause.mutate(undefined, report)}>Pause</Button>}
      <Button refused={refused || (over && "it has ended")} onClick={() => ask("cancel")}>Cancel</Button>
      <Menu label="Retry" choices={[
        { label: "Retry what did not complete…", refused: refused || (!over && "it has not ended"), onPick: () => ask({ kind: "retry" }) },
        { label: topLevel ? `Retry from ${topLevel}…` : "Retry from a step…", refused: refused || (!over && "it has not ended") || (!topLevel && "select a step first"), onPick: () => ask({ kind: "retry", from: topLevel! }) },
        { label: step ? `Restart ${step} here…` : "Restart a step here…", refused: refused || (!step && "select a step first"), onPick: () => ask({ kind: "restart", step: step!, failed: false }) },
        { label: step ? `Restart what failed inside ${step}…` : "Restart what failed inside a step…", refused: refused || (!step && "select a step first"), onPick: () => ask({ kind: "restart", step: step!, failed: true }) },
      ]} />
      {asked === "cancel" && <CancelDialog onClose={() => ask(undefined)} />}
      {asked && asked !== "cancel" && <AgainDialog again={asked} onClose={() => ask(undefined)} />}
    </div>
  )
}

function CancelDialog({ onClose }: { onClose: () => void }) {
  const { id } = usePage()
  const [reason, setReason] = useState("")
  const cancel = useDo(() => data(api.POST("/api/v1/executions/{execution_id}/cancel", { params: path(id), body: reason ? { reason } : {} })), [["execution", id]])
  return (
    <Dialog title="Cancel this execution?" does="Cancel the execution" stays="Keep it running" danger busy={cancel.isPending} problem={cancel.error} onClose={onClose} onDo={() => cancel.mutate(undefined, { onSuccess: () => { say("The execution is being cancelled."); onClose() } })}>
      <p>Steps that run are stopped; what has completed stays. A retry goes on from there later.</p>
      <label className="field-label"><span>Reason</span><input className="input" value={reason} maxLength={500} onChange={(e) => setReason(e.target.value)} /><small>Goes into the record. May be empty.</small></label>
    </Dialog>
  )
}

/** AgainDialog shows what a retry or restart would repeat and keep, and then does it. */
export function AgainDialog({ again, onClose }: { again: Again; onClose: () => void }) {
  const { id, select } = usePage()
  const [, navigate] = useLocation()
  const retry = again.kind === "retry"
  const preview = useAsk(["execution", id, "preview", again], () => data(retry
    ? api.GET("/api/v1/executions/{execution_id}/retry/preview", { params: { ...path(id), query: again.from ? { from_step: again.from } : {} } })
    : api.GET("/api/v1/executions/{execution_id}/restart/preview", { params: { ...path(id), query: { step_id: again.step, failed_only: again.failed } } })), { staleTime: 0, gcTime: 0 })
  const [key] = useState(token)
  const start = useDo<void, Schemas["ExecutionRef"]>(() => data(retry
    ? api.POST("/api/v1/executions/{execution_id}/retry", { params: { ...path(id), header: { "Idempotency-Key": key } }, body: again.from ? { from_step: again.from } : {} })
    : api.POST("/api/v1/executions/{execution_id}/restart", { params: path(id), body: { step_id: again.step, failed_only: again.failed } })), [["execution", id]])
  const done = (ref: Schemas["ExecutionRef"]) => {
    onClose()
    if (retry) {
      say("A new execution retries it.")
      navigate(`/executions/${ref.execution_id}`)
    } else {
      say(`${again.step} runs again.`)
      select(again.step)
    }
  }
  const title = retry ? (again.from ? `Retry from ${again.from}` : "Retry what did not complete") : again.failed ? `Restart what failed inside ${again.step}` : `Restart ${again.step}`
  const nothing = preview.data && preview.data.counts.repeated + preview.data.counts.again + preview.data.counts.items === 0
  return (
    <Dialog title={title} wide does={retry ? "Start the retry" : "Restart"} refused={!preview.data && "the preview is not there yet" || nothing && "nothing would run again"} busy={start.isPending} problem={start.error} onClose={onClose} onDo={() => start.mutate(undefined, { onSuccess: done })}>
      <p className="quiet">{retry ? "A new execution takes over what completed; this one stays as it is." : "The steps run again in this execution."}</p>
      <Loaded of={preview}>{(p) => <Preview of={p} />}</Loaded>
    </Dialog>
  )
}

function Preview({ of: p }: { of: Schemas["PreviewAnswer"] }) {
  const items = Object.entries(p.items)
  return (
    <div className="x-preview">
      <List title="runs again" count={p.counts.repeated} keys={p.repeated} none="Nothing is repeated of its own." />
      <List title="runs again after these" count={p.counts.again} keys={p.again.map((a) => a.step_id + (a.because ? ` · after ${a.because}` : " · at every end"))} none="Nothing follows." />
      <List title="kept" count={p.counts.kept} keys={p.kept} none="Nothing is kept." />
      {items.length > 0 && <List title="items of streams" count={p.counts.items} keys={items.map(([step, n]) => `${step} · ${formatCount(n)} items`)} none="" />}
    </div>
  )
}

function List({ title, count, keys, none }: { title: string; count: number; keys: string[]; none: string }) {
  return (
    <section aria-label={title}>
      <h3>{formatCount(count)} {title}</h3>
      {keys.length === 0 ? <p className="quiet">{none}</p> : (
        <ul className="x-keys mono" tabIndex={0} aria-label={`${title}, the steps`}>
          {keys.slice(0, 200).map((k) => <li key={k}>{k}</li>)}
          {count > 200 && <li className="quiet">and {formatCount(count - Math.min(200, keys.length))} more</li>}
        </ul>
      )}
    </section>
  )
}

/** Approvals are the questions that wait for an answer. */
function Approvals() {
  const { id, x, field } = usePage()
  const waits = !ended(x.status) && (!field.steps || field.steps.status.includes(field.steps.states.indexOf("waiting")))
  const list = useApprovals(id, waits)
  if (!waits || !list.data?.length) return null
  return <>{list.data.slice(0, 3).map((a) => <Approval key={a.approval_id} of={a} />)}</>
}

export function Approval({ of: a }: { of: Schemas["Approval"] }) {
  const { id, select } = usePage()
  const refused = useRefusal("operator")
  const [asked, ask] = useState<"approve" | "reject" | undefined>()
  const [comment, setComment] = useState("")
  const where = { params: { path: { approval_id: a.approval_id } }, body: comment ? { comment } : {} }
  const decide = useDo(() => data<unknown>(asked === "approve" ? api.POST("/api/v1/approvals/{approval_id}/approve", where) : api.POST("/api/v1/approvals/{approval_id}/reject", where)), [["execution", id], ["approvals"]])
  return (
    <span className="x-approval">
      <button type="button" className="button" data-kind="bare" onClick={() => select(a.step_id)} title={a.message}>◆ <span className="clip">{a.step_id}</span></button>
      <Button kind="main" refused={refused} onClick={() => ask("approve")}>Approve</Button>
      <Button kind="danger" refused={refused} onClick={() => ask("reject")}>Reject</Button>
      {asked && (
        <Dialog title={asked === "approve" ? `Approve ${a.step_id}?` : `Reject ${a.step_id}?`} does={asked === "approve" ? "Approve" : "Reject"} danger={asked === "reject"} busy={decide.isPending} problem={decide.error} onClose={() => ask(undefined)} onDo={() => decide.mutate(undefined, { onSuccess: () => { say(asked === "approve" ? "Approved." : "Rejected."); ask(undefined) } })}>
          <p className="x-asked">{a.message}</p>
          {asked === "reject" && <p className="quiet">{a.reject === "continues" ? "The pipeline goes on after a rejection." : "A rejection fails the step."}</p>}
          {a.allow_comment && <label className="field-label"><span>Comment</span><input className="input" value={comment} maxLength={1000} onChange={(e) => setComment(e.target.value)} /></label>}
        </Dialog>
      )}
    </span>
  )
}
