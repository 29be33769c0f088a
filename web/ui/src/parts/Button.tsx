import type { ButtonHTMLAttributes, ReactNode } from "react"

interface Props extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "disabled"> {
  kind?: "main" | "danger" | "bare"
  /** Why it cannot be pressed; shown and read out. The button stays reachable by keyboard. */
  refused?: string | false
  busy?: boolean
  children: ReactNode
}

/** Button is a button; one that is refused says why. */
export function Button({ kind, refused, busy, onClick, children, type = "button", ...rest }: Props) {
  const off = Boolean(refused) || busy
  return (
    <button {...rest} type={type} className={`button ${rest.className ?? ""}`} data-kind={kind} aria-disabled={off || undefined} aria-busy={busy || undefined} title={refused || rest.title} onClick={(e) => (off ? e.preventDefault() : onClick?.(e))}>
      {children}
      {refused ? <span className="hidden-text"> ({refused})</span> : null}
    </button>
  )
}
