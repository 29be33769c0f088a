import { useEffect, useRef } from "react"
import { useMe } from "../me"
import { useApprovals } from "../screens/approvals/decide"

/** useBadges counts what waits, by the path of its screen, for the rail and the title; it tells the desktop of new ones where that is allowed. */
export function useBadges(): Record<string, number> {
  const me = useMe()
  const list = useApprovals()
  const known = useRef<Set<string> | null>(null)
  const approvals = me.data ? list.data?.approvals : undefined
  useEffect(() => {
    if (!approvals) return
    const before = known.current
    known.current = new Set(approvals.map((a) => a.approval_id))
    if (!before || !("Notification" in window) || Notification.permission !== "granted") return
    for (const a of approvals.filter((a) => !before.has(a.approval_id)).slice(0, 3)) new Notification(a.message, { body: `${a.pipeline} waits for a decision`, tag: a.approval_id })
  }, [approvals])
  return { "/approvals": approvals?.length ?? 0 }
}
