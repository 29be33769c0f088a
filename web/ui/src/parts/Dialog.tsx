import { useId, useLayoutEffect, useRef, type FormEvent, type ReactNode } from "react"
import type { Problem } from "../api/client"
import { Button } from "./Button"
import { ProblemBox } from "./Problem"

interface Props {
  title: string
  /** The word on the button that does it. */
  does?: string
  /** The word on the button that leaves things as they are; Cancel unless that is what the dialog is about. */
  stays?: string
  danger?: boolean
  busy?: boolean
  refused?: string | false
  problem?: Problem | null
  wide?: boolean
  onClose: () => void
  onDo?: () => void
  children?: ReactNode
}

/** useModal opens a dialog, and closes it while it is still in the page: only so the focus returns to where it was. */
export function useModal() {
  const ref = useRef<HTMLDialogElement>(null)
  useLayoutEffect(() => {
    const dialog = ref.current
    dialog?.showModal()
    // A dialog that is only read has the focus on its title: on the button at its end, it would be scrolled down.
    if (dialog?.querySelector(".ends")?.contains(document.activeElement) && dialog.scrollHeight > dialog.clientHeight) dialog.querySelector("h2")?.focus()
    return () => dialog?.close()
  }, [])
  return ref
}

/** Dialog asks for something, or for a confirmation. Escape closes it; focus stays inside and returns to where it was. */
export function Dialog({ title, does, stays = "Cancel", danger, busy, refused, problem, wide, onClose, onDo, children }: Props) {
  const ref = useModal()
  const id = useId()
  const submit = (e: FormEvent) => {
    e.preventDefault()
    if (!busy && !refused) onDo?.()
  }
  return (
    <dialog ref={ref} className="dialog" style={wide ? { width: "min(960px, calc(100vw - 24px))" } : undefined} aria-labelledby={id} onCancel={(e) => { e.preventDefault(); onClose() }} onKeyDown={(e) => e.stopPropagation()}>
      <form onSubmit={submit}>
        <h2 id={id} tabIndex={-1}>{title}</h2>
        {children}
        {problem && <ProblemBox problem={problem} />}
        <div className="ends">
          <Button onClick={onClose}>{does ? stays : "Close"}</Button>
          {does && <Button type="submit" kind={danger ? "danger" : "main"} busy={busy} refused={refused}>{does}</Button>}
        </div>
      </form>
    </dialog>
  )
}
