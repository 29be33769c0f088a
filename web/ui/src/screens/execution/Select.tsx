import { useEffect, useId, useMemo, useRef, useState } from "react"
import { countStates } from "../../field/steps"
import { formatCount } from "../../format"
import { useKeys as useHotkeys } from "../../keys"
import { TimeChip } from "../../log/TimeChip"
import { maxText, parse } from "../../selection/parse"
import { usePage } from "./page"
import { selectText } from "./selection"

const pause = 300 // ms in which somebody types on

const examples: [string, string][] = [
  ["convert", "the step convert and all inside of it; if there is none, steps with that text in their name or action"],
  ["convert[*] & failed", "iterations of convert that have failed: * is any part of a name, ** any text"],
  ["failed | timed_out", "either of them; states are pending, queued, running, waiting, retrying, completed, failed, skipped, cancelled, timed_out"],
  ["+deploy+", "deploy with what it depends on and what depends on it; one + alone is one direction"],
  ["action:util.http & !(queue:default | worker:w1)", "by action, queue or worker, without some"],
  ["critical", "the critical path"],
  ['step:"a name" | state:failed', "exactly that step, exactly that state; quotes for names with blanks or signs"],
]

/** Select is where one writes what to select, with what is wrong with it, and help. */
export function Select() {
  const { selection, field, setSearch } = usePage()
  const [text, setText] = useState(selection.text)
  const [help, setHelp] = useState(false)
  const input = useRef<HTMLInputElement>(null)
  const id = useId()
  useHotkeys([{ keys: "/", does: "Select steps", act: () => input.current?.focus() }])
  const sent = useRef(text) // what comes back from the address does not overwrite what has been typed since
  useEffect(() => {
    if (selection.text === sent.current) return
    sent.current = selection.text
    setText(selection.text)
  }, [selection.text])
  const go = (to: string) => {
    sent.current = to
    setSearch(selectText(to))
  }
  useEffect(() => {
    if (text.trim() === sent.current) return
    const timer = setTimeout(() => go(text.trim()), pause)
    return () => clearTimeout(timer)
  }, [text])
  const { fault } = parse(text)
  const { mask } = selection
  const count = useMemo(() => mask?.reduce((sum, v) => sum + v, 0), [mask])
  const total = useMemo(() => (field.steps && mask ? Object.values(countStates(field.steps)).reduce((a, b) => a + b, 0) : 0), [field.steps, mask])
  return (
    <>
      <div className="x-select" role="search" aria-label="Selection of steps">
        <input
          ref={input} className="input" type="search" placeholder="Select steps: convert[*] & failed" aria-label="Select steps" value={text} maxLength={maxText} spellCheck={false} autoComplete="off"
          aria-invalid={fault !== undefined} aria-describedby={fault ? id : undefined}
          onChange={(e) => setText(e.target.value)} onKeyDown={(e) => {
            if (e.key === "Enter") go(text.trim())
            if (e.key === "Escape") input.current?.blur()
          }}
        />
        <button type="button" className="button" aria-label="What can be selected" title="What can be selected" aria-expanded={help} onClick={() => setHelp(!help)}>?</button>
        <TimeChip />
        <span className="quiet" role="status" data-count={selection.waits || fault ? undefined : count}>{selection.waits ? "looking" : count === undefined || fault ? "" : `${formatCount(count)} of ${formatCount(total)} selected`}</span>
      </div>
      {fault && (
        <p id={id} className="note x-fault" data-kind="bad" role="alert">
          At {fault.at + 1}: {fault.message}. <span className="quiet">{fault.hint}.</span>{" "}
          <code className="x-place">{text.slice(Math.max(0, fault.at - 20), fault.at)}<mark>{text.slice(fault.at, fault.at + fault.length) || " "}</mark>{text.slice(fault.at + fault.length, fault.at + fault.length + 20)}</code>{" "}
          <button type="button" className="button" onClick={() => { input.current?.focus(); input.current?.setSelectionRange(fault.at, fault.at + fault.length) }}>Show the place</button>
        </p>
      )}
      {selection.problem && <p className="note x-fault" data-kind="bad" role="alert">{selection.problem.message}</p>}
      {help && (
        <section className="x-select-help" aria-label="What can be selected">
          <dl>{examples.map(([e, says]) => (
            <div key={e}><dt><button type="button" className="x-step-link mono" onClick={() => { setText(e); go(e) }}>{e}</button></dt><dd>{says}</dd></div>
          ))}</dl>
        </section>
      )}
    </>
  )
}
