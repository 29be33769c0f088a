import { useEffect, useId, useState } from "react"
import type { Schemas } from "../../api/client"

type Field = Schemas["Field"]

const isExpression = (v: unknown) => typeof v === "string" && v.includes("{{")

/** shownAs writes a value for a form: texts as they are, all else as JSON. */
export const shownAs = (v: unknown): string => (v === undefined || v === null ? "" : typeof v === "string" ? v : JSON.stringify(v, null, typeof v === "object" ? 2 : 0))

/** readAs reads what was typed as a value of a field, or says what is wrong with it. Nothing typed is undefined; an expression is a text. */
export function readAs(text: string, field: Pick<Field, "type" | "min" | "max">): { value?: unknown; wrong?: string } {
  if (text === "") return {}
  if (isExpression(text)) return { value: text }
  switch (field.type) {
    case "integer":
    case "number": {
      const n = Number(text)
      if (text.trim() === "" || !Number.isFinite(n)) return { wrong: "a number, or an expression in {{ }}" }
      if (field.type === "integer" && !Number.isInteger(n)) return { wrong: "a whole number" }
      if (field.min !== undefined && n < field.min) return { wrong: `at least ${field.min}` }
      if (field.max !== undefined && n > field.max) return { wrong: `at most ${field.max}` }
      return { value: n }
    }
    case "boolean":
      return text === "true" ? { value: true } : text === "false" ? { value: false } : { wrong: "true or false" }
    case "array":
    case "object": {
      try {
        const value = JSON.parse(text)
        if (Array.isArray(value) !== (field.type === "array") || typeof value !== "object" || value === null) return { wrong: field.type === "array" ? "a list: [1, 2]" : 'an object: {"a": 1}' }
        return { value }
      } catch {
        return { wrong: field.type === "array" ? 'a list in JSON: ["a", "b"]' : 'an object in JSON: {"a": 1}' }
      }
    }
    case "any":
      try {
        return { value: JSON.parse(text) }
      } catch {
        return { value: text }
      }
    default:
      return { value: text }
  }
}

/** FieldInput edits one field of an action, a step or a parameter. What is typed is taken over when the input is left or Enter is pressed. */
export function FieldInput({ field, value, refused, onChange }: { field: Field; value: unknown; refused: string | false; onChange: (value: unknown) => void }) {
  const id = useId()
  const [text, setText] = useState(() => shownAs(value))
  const [wrong, setWrong] = useState("")
  useEffect(() => { setText(shownAs(value)); setWrong("") }, [value])
  const take = (typed: string) => {
    const read = readAs(typed, field)
    setWrong(read.wrong ?? "")
    if (!read.wrong && JSON.stringify(read.value) !== JSON.stringify(value)) onChange(read.value)
  }
  const common = { id, className: "input", "aria-invalid": wrong ? true : undefined, "aria-describedby": id + "h", readOnly: Boolean(refused), placeholder: field.default !== undefined ? shownAs(field.default) : undefined } as const
  const choices = field.options ?? (field.type === "boolean" ? ["true", "false"] : undefined)
  const long = field.type === "object" || field.type === "array" || text.includes("\n") || text.length > 60
  return (
    <div className="field-label">
      <label htmlFor={id}>
        <b>{field.name}</b>
        {field.required && <span title="required"> *</span>} <span className="quiet">{field.type}</span>
      </label>
      {choices && !isExpression(text) ? (
        <select {...common} disabled={Boolean(refused)} value={text} onChange={(e) => { setText(e.target.value); take(e.target.value) }}>
          <option value="">{field.default !== undefined ? `default: ${shownAs(field.default)}` : "–"}</option>
          {text !== "" && !choices.includes(text) && <option value={text}>{text}</option>}
          {choices.map((o) => <option key={o}>{o}</option>)}
        </select>
      ) : long ? (
        <textarea {...common} rows={Math.min(12, Math.max(3, text.split("\n").length + 1))} spellCheck={false} value={text} onChange={(e) => setText(e.target.value)} onBlur={() => take(text)} />
      ) : (
        <input {...common} type="text" spellCheck={false} value={text} onChange={(e) => setText(e.target.value)} onBlur={() => take(text)} onKeyDown={(e) => { if (e.key === "Enter") take(text) }} />
      )}
      <small id={id + "h"} role={wrong ? "alert" : undefined}>{wrong || field.description}</small>
    </div>
  )
}
