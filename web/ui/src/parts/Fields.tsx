import { useId, type InputHTMLAttributes, type ReactNode, type TextareaHTMLAttributes } from "react"

interface Labelled {
  label: string
  hint?: ReactNode
  problem?: string | false
}

function Frame({ id, label, hint, problem, children }: Labelled & { id: string; children: ReactNode }) {
  return (
    <div className="field-label">
      <label htmlFor={id}>{label}</label>
      {children}
      {problem ? <small role="alert" id={`${id}-hint`}>{problem}</small> : hint ? <small id={`${id}-hint`}>{hint}</small> : null}
    </div>
  )
}

const aria = (id: string, { hint, problem }: Labelled) => ({ id, "aria-invalid": problem ? true : undefined, "aria-describedby": hint || problem ? `${id}-hint` : undefined })

type TextProps = Labelled & Omit<InputHTMLAttributes<HTMLInputElement>, "value" | "onChange"> & { value: string; onChange: (value: string) => void; choices?: string[] }

/** TextField is one line of text, with proposals if it has choices. */
export function TextField({ label, hint, problem, onChange, choices, ...rest }: TextProps) {
  const id = useId()
  return (
    <Frame {...{ id, label, hint, problem }}>
      <input className="input" autoComplete="off" spellCheck={false} {...aria(id, { label, hint, problem })} {...rest} list={choices ? `${id}-list` : undefined} onChange={(e) => onChange(e.target.value)} />
      {choices && <datalist id={`${id}-list`}>{choices.map((c) => <option key={c} value={c} />)}</datalist>}
    </Frame>
  )
}

type AreaProps = Labelled & Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, "value" | "onChange"> & { value: string; onChange: (value: string) => void }

/** AreaField is text of several lines. */
export function AreaField({ label, hint, problem, onChange, ...rest }: AreaProps) {
  const id = useId()
  return (
    <Frame {...{ id, label, hint, problem }}>
      <textarea className="input mono" spellCheck={false} rows={4} {...aria(id, { label, hint, problem })} {...rest} onChange={(e) => onChange(e.target.value)} />
    </Frame>
  )
}

interface PickProps extends Labelled {
  value: string
  onChange: (value: string) => void
  /** Values, or values with the words shown for them. */
  choices: readonly (string | readonly [string, string])[]
}

/** PickField is one of few choices. */
export function PickField({ label, hint, problem, value, onChange, choices }: PickProps) {
  const id = useId()
  return (
    <Frame {...{ id, label, hint, problem }}>
      <select className="input" {...aria(id, { label, hint, problem })} value={value} onChange={(e) => onChange(e.target.value)}>
        {choices.map((c) => {
          const [v, word] = typeof c === "string" ? [c, c] : c
          return <option key={v} value={v}>{word}</option>
        })}
      </select>
    </Frame>
  )
}

/** CheckField is on or off. */
export function CheckField({ label, hint, value, onChange }: { label: string; hint?: ReactNode; value: boolean; onChange: (value: boolean) => void }) {
  const id = useId()
  return (
    <div className="field-label">
      <label htmlFor={id} className="row" style={{ minHeight: 24 }}>
        <input id={id} type="checkbox" checked={value} aria-describedby={hint ? `${id}-hint` : undefined} onChange={(e) => onChange(e.target.checked)} />
        {label}
      </label>
      {hint && <small id={`${id}-hint`}>{hint}</small>}
    </div>
  )
}
