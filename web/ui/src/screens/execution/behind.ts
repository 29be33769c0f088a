// What waits for the picture.
import { startTransition, useEffect, useState } from "react"

const unseen = 100 // ms after which it goes on where nothing is painted, as in a tab that is not in front

/** useBehind is a value as it was until the frame that is drawn when it changes has been painted: what only follows from it does not
 * keep that frame waiting. */
export function useBehind<T>(now: T): T {
  const [shown, set] = useState(now)
  useEffect(() => {
    if (shown === now) return
    const go = () => startTransition(() => set(now))
    const timer = setTimeout(go, unseen)
    let frame = requestAnimationFrame(() => { // the next one begins when this one has been painted
      frame = requestAnimationFrame(() => {
        clearTimeout(timer)
        go()
      })
    })
    return () => {
      clearTimeout(timer)
      cancelAnimationFrame(frame)
    }
  }, [now, shown])
  return shown
}
