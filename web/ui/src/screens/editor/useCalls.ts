import { useRef, useState } from "react"

/** useCalls gives functions that stay the same ones, and do what those of the last drawing do: who is handed them is not drawn again. For
 * handlers; not to be called while drawing. */
export function useCalls<T extends Record<string, (...args: any[]) => unknown>>(calls: T): T {
  const latest = useRef(calls)
  latest.current = calls
  return useState(() => Object.fromEntries(Object.keys(calls).map((name) => [name, (...args: unknown[]) => latest.current[name]!(...args)])) as T)[0]
}
