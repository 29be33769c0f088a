import { useEffect, useId, useRef, type FormEvent, type ReactNode } from "react"
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

/** Dialog asks for something, or for a confirmation. Escape closes it; focus stays inside and returns to where it was. */
export function Dialog({ title, does, stays = "Cancel", danger, busy, refused, problem, wide, onClose, onDo, children }: Props) {
  const ref = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    const dialog = ref.current
    dialog?.showModal()
    return () => dialog?.close()
  }, [])
  const submit = (e: FormEvent) => {
    e.preventDefault()
    if (!busy && !refused) onDo?.()
  }
  return (
    <dialog ref={ref} className="dialog" style={wide ? { width: "min(960px, calc(100vw - 24px))" } : undefined} aria-labelledby={id} onCancel={(e) => { e.preventDefault(); onClose() }} onKeyDown={(e) => e.stopPropagation()}>
      <form onSubmit={submit}>
        <h2 id={id}>{title}</h2>
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
