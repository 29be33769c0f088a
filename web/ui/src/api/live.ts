// What happens on the server, for lists: cached answers become stale when it says that something changed.
import { useSyncExternalStore } from "react"
import { queries } from "./client"

interface Live { connected: boolean; since: number; off: boolean }

const state: Live = { connected: false, since: Date.now(), off: true }
const listeners = new Set<() => void>()

/** useLive says whether the page hears of what happens. */
export const useLive = () => useSyncExternalStore((l) => { listeners.add(l); return () => listeners.delete(l) }, () => state)

// The first parts of cache keys of what changes by itself.
const live = ["executions", "stats", "approvals", "schedules", "fires", "queue", "workers", "runs", "progress"]

/** listen follows the server until the returned function is called. Servers have no stream for lists yet: what is on the page is asked again. */
export function listen(): () => void {
  const timer = setInterval(() => {
    if (document.hidden) return
    for (const key of live) void queries.invalidateQueries({ queryKey: [key] }, { cancelRefetch: false })
  }, 5_000)
  return () => clearInterval(timer)
}
