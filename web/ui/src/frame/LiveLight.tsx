import { useLive } from "../api/live"
import { useNow } from "../parts/Time"

/** LiveLight says whether the page shows what happens now, and how long it has not. */
export function LiveLight() {
  const live = useLive()
  const now = useNow()
  if (live.off) return null
  if (live.upgraded) return <button type="button" className="button" onClick={() => window.location.reload()}>Reload: the server is {live.upgraded} now</button>
  const behind = live.connected ? 0 : Math.max(0, Math.round((now - live.since) / 1000))
  return (
    <span className="live" data-on={live.connected} role="status">
      <i aria-hidden="true" />
      {live.connected ? "live" : behind < 2 ? "connecting" : `${behind} s behind`}
    </span>
  )
}
