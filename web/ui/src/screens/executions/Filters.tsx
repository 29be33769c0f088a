import { useEffect, useRef, useState } from "react"
import { useKeys } from "../../keys"
import { Button } from "../../parts/Button"
import { StateMark } from "../../parts/State"
import { lookOf } from "../../states"
import { usePipelines } from "../run/names"
import type { Search } from "../../url"
import { rangeNames, statuses } from "./query"

interface Props { search: Search; set: (change: Search) => void }

/** local writes a moment of the address for an input of the reader's zone. */
function local(text: string | undefined): string {
  const at = new Date(text ?? "")
  return Number.isNaN(at.getTime()) ? "" : new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

/** Typed is a field whose value goes to the address once typing pauses. */
export function Typed({ value, onChange, ...rest }: { value: string; onChange: (v: string) => void; label: string; placeholder?: string; list?: string; width?: number; filter?: boolean }) {
  const [text, setText] = useState(value)
  const ref = useRef<HTMLInputElement>(null)
  const sent = useRef(value)
  useEffect(() => { if (value !== sent.current) { sent.current = value; setText(value) } }, [value])
  useEffect(() => {
    if (text === sent.current) return
    const timer = setTimeout(() => { sent.current = text; onChange(text) }, 250)
    return () => clearTimeout(timer)
  }, [text])
  useKeys(rest.filter ? [{ keys: "/", does: "Filter", act: () => ref.current?.focus() }] : [])
  return <input ref={ref} className="input" type="search" style={{ width: rest.width ?? 180 }} aria-label={rest.label} placeholder={rest.placeholder ?? rest.label} list={rest.list} value={text} autoComplete="off" spellCheck={false} onChange={(e) => setText(e.target.value)} onKeyDown={(e) => { if (e.key === "Escape") e.currentTarget.blur() }} />
}

/** Filters are those of executions, in the address. */
export function Filters({ search, set }: Props) {
  const chosen = new Set((search.status ?? "").split(",").filter(Boolean))
  const names = usePipelines()
  const toggle = (s: string) => {
    const next = new Set(chosen)
    if (!next.delete(s)) next.add(s)
    set({ status: statuses.filter((k) => next.has(k)).join(",") })
  }
  const any = Object.keys(search).length > 0
  return (
    <div className="row" role="search" aria-label="Filter executions">
      <div className="chips" role="group" aria-label="States">
        {statuses.map((s) => (
          <button key={s} type="button" className="chip" aria-pressed={chosen.has(s)} onClick={() => toggle(s)}><StateMark state={s} /> {lookOf(s).word}</button>
        ))}
      </div>
      <button type="button" className="chip" aria-pressed={search.warned === "1"} onClick={() => set({ warned: search.warned === "1" ? "" : "1" })}>With warnings</button>
      <Typed label="Pipeline" value={search.pipeline ?? ""} onChange={(pipeline) => set({ pipeline })} list="pipeline-names" width={150} />
      <datalist id="pipeline-names">{names.data?.pipelines.map((p) => <option key={p.pipeline_id} value={p.name} />)}</datalist>
      <select className="input" aria-label="Started" value={search.range ?? (search.from || search.to ? "own" : "")} onChange={(e) => set({ range: e.target.value, ...(e.target.value === "own" ? {} : { from: "", to: "" }) })}>
        {rangeNames.map(([v, word]) => <option key={v} value={v}>{word}</option>)}
      </select>
      {(search.range === "own" || (!search.range && (search.from || search.to))) && (
        <>
          <input className="input" type="datetime-local" aria-label="From" value={local(search.from)} onChange={(e) => set({ from: e.target.value ? new Date(e.target.value).toISOString() : "" })} />
          <input className="input" type="datetime-local" aria-label="To" value={local(search.to)} onChange={(e) => set({ to: e.target.value ? new Date(e.target.value).toISOString() : "" })} />
        </>
      )}
      <Typed label="Text" placeholder="Id, name, trigger …" value={search.q ?? ""} onChange={(q) => set({ q })} filter />
      {any && <Button kind="bare" onClick={() => set(Object.fromEntries(Object.keys(search).map((k) => [k, ""])))}>Clear filters</Button>}
    </div>
  )
}
