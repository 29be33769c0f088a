import { useLive } from "../api/live"
import { useNow } from "../parts/Time"

/** LiveLight says whether the page shows what happens now, and how long it has not. */
export function LiveLight() {
  const live = useLive()
  const now = useNow()
  if (live.off) return null
  const behind = live.connected ? 0 : Math.max(0, Math.round((now - live.since) / 1000))
  return (
    <span className="live" data-on={live.connected} role="status">
      <i aria-hidden="true" />
      {live.connected ? "live" : behind < 2 ? "connecting" : `${behind} s behind`}
    </span>
  )
}
