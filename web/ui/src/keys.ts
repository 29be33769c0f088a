// Keys that work everywhere on a page. A screen adds its own while it is shown; the newest wins.
import { useLayoutEffect, useRef } from "react"

export interface Key {
  /** "j", "Escape", "]", "?", "Space", "ctrl+k", or two in a row: "g e". */
  keys: string
  does: string
  act: () => void
}

let active: Key[] = []
let pending = ""
let pendingUntil = 0

/** activeKeys are those that work now, for the help. */
export const activeKeys = () => active

/** useKeys has keys work while a component is shown. */
export function useKeys(keys: Key[]) {
  const latest = useRef(keys)
  latest.current = keys
  const signature = keys.map((k) => k.keys).join("|")
  // Before the page is shown: a key must work as soon as what it acts on is seen.
  useLayoutEffect(() => {
    const mine = latest.current.map((k) => ({ ...k, act: () => latest.current.find((now) => now.keys === k.keys)?.act() }))
    active = [...mine, ...active]
    return () => { active = active.filter((k) => !mine.includes(k)) }
  }, [signature])
}

/** nameOf writes a key event as in Key.keys. */
export function nameOf(e: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey">): string {
  const key = e.key === " " ? "Space" : e.key.length === 1 ? e.key.toLowerCase() : e.key
  return (e.ctrlKey || e.metaKey ? "ctrl+" : "") + (e.altKey ? "alt+" : "") + key
}

/** press finds the key of an event, with the key before it within a second. It reports whether something was done. */
export function press(e: KeyboardEvent, now: number): boolean {
  const target = e.target as HTMLElement | null
  const typing = target?.closest("input, textarea, select, [contenteditable=true]")
  const name = nameOf(e)
  if (typing && !name.startsWith("ctrl+")) return false
  if (name === "Space" && target?.closest("button, a, summary, [role=button], [role=checkbox]")) return false // which it presses
  const both = now < pendingUntil ? `${pending} ${name}` : ""
  const found = active.find((k) => both && k.keys === both) ?? active.find((k) => k.keys === name)
  if (!found) {
    pending = name
    pendingUntil = active.some((k) => k.keys.startsWith(name + " ")) ? now + 1000 : 0
    return false
  }
  pendingUntil = 0
  e.preventDefault()
  found.act()
  return true
}
