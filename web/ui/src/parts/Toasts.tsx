import { useSyncExternalStore, type ReactNode } from "react"
import { Problem } from "../api/client"

interface Toast { id: number; problem: boolean; body: ReactNode }

let toasts: Toast[] = []
let next = 1
const listeners = new Set<() => void>()
const set = (list: Toast[]) => { toasts = list; listeners.forEach((l) => l()) }
const drop = (id: number) => set(toasts.filter((t) => t.id !== id))

/** say tells what was done, for some seconds. */
export function say(body: ReactNode) {
  const id = next++
  set([...toasts.slice(-4), { id, problem: false, body }])
  setTimeout(() => drop(id), 6_000)
}

/** complain tells what failed, until it is closed. */
export function complain(err: unknown) {
  const p = err instanceof Problem ? err : new Problem(0, "internal", String(err))
  set([...toasts.slice(-4), { id: next++, problem: true, body: <><strong>{p.message}</strong>{p.hint && <div>{p.hint}</div>}{p.request && <small className="quiet">request {p.request}</small>}</> }])
}

/** Toasts shows them. */
export function Toasts() {
  const list = useSyncExternalStore((l) => { listeners.add(l); return () => listeners.delete(l) }, () => toasts)
  return (
    <div className="toasts" aria-live="polite" role="status">
      {list.map((t) => (
        <div key={t.id} className="toast" data-kind={t.problem ? "problem" : undefined}>
          <div>{t.body}</div>
          <button type="button" className="button" data-kind="bare" aria-label="Close" onClick={() => drop(t.id)}>✕</button>
        </div>
      ))}
    </div>
  )
}
