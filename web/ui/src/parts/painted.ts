// Work that waits until the page has been painted.
import { startTransition, useEffect, useState } from "react"

const unseen = 100 // ms after which it goes on where nothing is painted, as in a tab that is not in front

/** afterPaint does something once what is drawn now has been painted; what it gives takes it back. */
export function afterPaint(act: () => void): () => void {
  const go = () => { stop(); act() }
  const timer = setTimeout(go, unseen)
  let frame = requestAnimationFrame(() => { frame = requestAnimationFrame(go) }) // the next one begins when this one has been painted
  const stop = () => {
    clearTimeout(timer)
    cancelAnimationFrame(frame)
  }
  return stop
}

/** useBehind is a value as it was until the frame that is drawn when it changes has been painted: what only follows from it does not
 * keep that frame waiting. */
export function useBehind<T>(now: T): T {
  const [shown, set] = useState(now)
  useEffect(() => (shown === now ? undefined : afterPaint(() => startTransition(() => set(() => now)))), [now, shown])
  return shown
}
