import { useId, useRef, type ReactNode } from "react"

export interface Choice {
  label: string
  onPick: () => void
  /** Why it cannot be picked. */
  refused?: string | false
}

/** Menu is a button that opens a list of choices: by pointer, Enter and arrow keys. */
export function Menu({ label, choices, kind, children }: { label: string; choices: Choice[]; kind?: "bare"; children?: ReactNode }) {
  const id = useId()
  const button = useRef<HTMLButtonElement>(null)
  const list = useRef<HTMLDivElement>(null)
  const place = () => {
    const at = button.current!.getBoundingClientRect()
    const el = list.current!
    el.style.top = `${Math.min(at.bottom + 4, window.innerHeight - el.offsetHeight - 8)}px`
    el.style.left = `${Math.max(8, Math.min(at.left, window.innerWidth - el.offsetWidth - 8))}px`
  }
  const move = (by: number) => {
    const items = [...list.current!.querySelectorAll<HTMLElement>("button")]
    const now = items.indexOf(document.activeElement as HTMLElement)
    items[(now + by + items.length) % items.length]?.focus()
  }
  return (
    <>
      <button ref={button} type="button" className="button" data-kind={kind} popoverTarget={id} aria-haspopup="menu" aria-label={children ? label : undefined}>
        {children ?? `${label} ▾`}
      </button>
      <div
        ref={list} id={id} popover="auto" role="menu" aria-label={label} className="menu"
        onToggle={(e) => { if (e.newState === "open") { place(); list.current!.querySelector("button")?.focus() } }}
        onKeyDown={(e) => { if (e.key === "ArrowDown" || e.key === "ArrowUp") { e.preventDefault(); move(e.key === "ArrowDown" ? 1 : -1) } e.stopPropagation() }}
      >
        {choices.map((c) => (
          <button key={c.label} type="button" role="menuitem" aria-disabled={Boolean(c.refused) || undefined} title={c.refused || undefined} onClick={() => { if (!c.refused) { list.current!.hidePopover(); c.onPick() } }}>
            {c.label}
          </button>
        ))}
      </div>
    </>
  )
}
