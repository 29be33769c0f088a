import { useSyncExternalStore } from "react"
import { formatAgo, formatDuration, formatMoment } from "../format"

// One clock for all: a hundred rows share a timer.
let now = Date.now()
const listeners = new Set<() => void>()
let timer: ReturnType<typeof setInterval> | undefined
function subscribe(l: () => void) {
  listeners.add(l)
  timer ??= setInterval(() => { now = Date.now(); listeners.forEach((f) => f()) }, 1000)
  return () => {
    listeners.delete(l)
    if (listeners.size === 0) { clearInterval(timer); timer = undefined }
  }
}

/** useNow is the time, moving once a second. */
export const useNow = () => useSyncExternalStore(subscribe, () => now)

/** Ago says how long ago a moment is; the moment itself on hover. */
export function Ago({ time }: { time: string | null | undefined }) {
  const at = useNow()
  if (!time) return <span className="quiet">–</span>
  return <time dateTime={time} title={formatMoment(time, true)}>{formatAgo(Date.parse(time), at)}</time>
}

/** Moment writes a moment. */
export function Moment({ time, ms }: { time: string | null | undefined; ms?: boolean }) {
  if (!time) return <span className="quiet">–</span>
  return <time dateTime={time} title={time}>{formatMoment(time, ms)}</time>
}

/** Took is how long something took, or has taken until now. */
export function Took({ from, to }: { from: string | null | undefined; to: string | null | undefined }) {
  const at = useNow()
  if (!from) return <span className="quiet">–</span>
  return <>{formatDuration(((to ? Date.parse(to) : at) - Date.parse(from)) / 1000)}</>
}
