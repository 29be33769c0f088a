import { startTransition, useEffect, useRef, useState } from "react"

/** useCalls gives functions that stay the same ones, and do what those of the last drawing do: who is handed them is not drawn again. For
 * handlers; not to be called while drawing. */
export function useCalls<T extends Record<string, (...args: any[]) => unknown>>(calls: T): T {
  const latest = useRef(calls)
  latest.current = calls
  return useState(() => Object.fromEntries(Object.keys(calls).map((name) => [name, (...args: unknown[]) => latest.current[name]!(...args)])) as T)[0]
}

/** afterPaint does something once what is drawn now has been painted; what it gives takes it back. */
export function afterPaint(act: () => void): () => void {
  let timer: ReturnType<typeof setTimeout>
  // The frame after the next one begins when the next one was painted.
  let frame = requestAnimationFrame(() => { frame = requestAnimationFrame(() => { timer = setTimeout(act) }) })
  return () => {
    cancelAnimationFrame(frame)
    clearTimeout(timer)
  }
}

/** usePainted is a value once what else was drawn with it has been painted: for what takes long to draw and may come a moment later. */
export function usePainted<T>(value: T): T {
  const [shown, setShown] = useState(value)
  useEffect(() => (value === shown ? undefined : afterPaint(() => startTransition(() => setShown(value)))), [value, shown])
  return shown
}
