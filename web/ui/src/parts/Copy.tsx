import { useState } from "react"
import { Button } from "./Button"
import { complain } from "./Toasts"

/** Copyable is a text with a button that copies it. */
export function Copyable({ text, label }: { text: string; label: string }) {
  const [done, setDone] = useState(false)
  const copy = () => navigator.clipboard.writeText(text).then(() => setDone(true), complain)
  return (
    <div className="copyable">
      <pre className="code" tabIndex={0} aria-label={label}>{text}</pre>
      <Button onClick={() => void copy()} aria-label={`Copy ${label}`}>{done ? "Copied" : "Copy"}</Button>
    </div>
  )
}
