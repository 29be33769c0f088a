// What happens on the server, for lists: one stream of server-sent events (/stream) that makes cached answers stale, so that nothing
// polls. After a break it resumes where it was.
import { useSyncExternalStore } from "react"
import { address, queries } from "./client"

interface Live { connected: boolean; since: number; off: boolean }

let state: Live = { connected: false, since: Date.now(), off: true }
const listeners = new Set<() => void>()
const set = (next: Live) => { state = next; listeners.forEach((l) => l()) }

/** useLive says whether the page hears of what happens. */
export const useLive = () => useSyncExternalStore((l) => { listeners.add(l); return () => listeners.delete(l) }, () => state)

/** The first parts of cache keys that a message of a kind makes stale. */
const stale: Record<string, string[]> = {
  execution: ["executions", "stats", "pipelines"],
  approval: ["approvals"],
  schedule: ["schedules"],
  queue: ["queue"],
  worker: ["workers"],
}

/** listen follows the server until the returned function is called. */
export function listen(): () => void {
  const source = new EventSource(address("api/v1/stream"))
  source.onopen = () => {
    set({ connected: true, since: Date.now(), off: false })
    void queries.invalidateQueries() // what was missed meanwhile
  }
  source.onerror = () => {
    if (state.connected || state.off) set({ connected: false, since: Date.now(), off: false })
  }
  for (const [kind, keys] of Object.entries(stale)) {
    source.addEventListener(kind, () => { for (const key of keys) void queries.invalidateQueries({ queryKey: [key] }) })
  }
  return () => source.close()
}
