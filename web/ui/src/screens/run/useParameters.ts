import { useEffect, useState } from "react"
import { parametersOf, type Parameter } from "../../document/params"

/** useParameters reads the parameters of a document, a pause after it has changed; unread says why it cannot be read. */
export function useParameters(text: string, pause = 0): { params: Parameter[]; unread: string } {
  const [found, set] = useState<{ params: Parameter[]; unread: string }>({ params: [], unread: "" })
  useEffect(() => {
    let current = true
    const timer = setTimeout(() => {
      parametersOf(text).then((params) => { if (current) set({ params, unread: "" }) }, (err: unknown) => { if (current) set({ params: [], unread: err instanceof Error ? err.message.split("\n")[0]! : String(err) }) })
    }, pause)
    return () => { current = false; clearTimeout(timer) }
  }, [text, pause])
  return found
}
