import { useState } from "react"
import { api, data, useAsk, useDo, type Question, type Schemas } from "../../api/client"
import { useMe, useRefusal } from "../../me"
import { Dialog } from "../../parts/Dialog"
import { AreaField } from "../../parts/Fields"
import { say } from "../../parts/Toasts"

export type Approval = Schemas["Approval"]

export const approvals: Question<Schemas["ApprovalList"]> = { key: ["approvals"], ask: (signal) => data(api.GET("/api/v1/approvals", { params: { query: { limit: 200 } }, signal })) }

/** useApprovals are the decisions that steps wait for, at most 200. */
export const useApprovals = () => useAsk(approvals.key, approvals.ask)

/** useMayDecide says why somebody may not decide about an approval, or false. */
export function useMayDecide(): (a: Approval) => string | false {
  const refusal = useRefusal("operator")
  const me = useMe().data
  return (a) => refusal || (a.approvers.length > 0 && me !== undefined && ![me.name, me.user].some((n) => n && a.approvers.includes(n)) && `only ${a.approvers.join(", ")} may decide`)
}

export interface Deciding { approval: Approval; approve: boolean }

/** Decide asks for a comment and the confirmation of a decision. */
export function Decide({ of: { approval: a, approve }, onClose }: { of: Deciding; onClose: () => void }) {
  const [comment, setComment] = useState("")
  const decide = useDo(() => {
    const request = { params: { path: { approval_id: a.approval_id } }, body: comment.trim() ? { comment: comment.trim() } : {} }
    return data(approve ? api.POST("/api/v1/approvals/{approval_id}/approve", request) : api.POST("/api/v1/approvals/{approval_id}/reject", request))
  }, [["approvals"], ["executions"]])
  const word = approve ? "Approve" : "Reject"
  return (
    <Dialog title={`${word}: ${a.message}`} does={word} danger={!approve} busy={decide.isPending} problem={decide.error} onClose={onClose} onDo={() => decide.mutate(undefined, { onSuccess: () => { say(`${approve ? "Approved" : "Rejected"}: ${a.message}`); onClose() } })}>
      <p className="quiet">{a.pipeline}, step {a.step_id}. {approve ? "The execution goes on." : a.reject === "continues" ? "The step completes with approved: false." : "The step fails."}</p>
      {a.allow_comment && <AreaField label="Comment" value={comment} onChange={setComment} rows={3} maxLength={10_000} />}
    </Dialog>
  )
}
