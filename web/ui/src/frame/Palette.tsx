import { useId, useState } from "react"
import { useLocation } from "wouter"
import { api, data, useAsk } from "../api/client"
import { shortID } from "../format"
import { useRefusal } from "../me"
import { useModal } from "../parts/Dialog"
import { lookOf } from "../states"
import { screens } from "../screens/screens"
import { usePipelines } from "../screens/run/names"
import { RunDialog } from "../screens/run/RunDialog"

interface Found { kind: string; label: string; note?: string; refused?: string | false; go: () => void }

const most = 30

/** fits says whether the letters of a text stand in another in their order, all words of it. */
export const fits = (text: string, wanted: string) => wanted.toLowerCase().split(/\s+/).every((w) => text.toLowerCase().includes(w))

/** Palette finds screens, commands, pipelines, and executions by the beginning of their id or by a text. */
export function Palette({ onClose }: { onClose: () => void }) {
  const [run, setRun] = useState<string | null>()
  return run === undefined ? <Search onClose={onClose} onRun={setRun} /> : <RunDialog pipeline={run ?? undefined} onClose={onClose} />
}

function Search({ onClose, onRun }: { onClose: () => void; onRun: (pipeline: string | null) => void }) {
  const [text, setText] = useState("")
  const [at, setAt] = useState(0)
  const [, navigate] = useLocation()
  const noRun = useRefusal("operator")
  const ref = useModal()
  const id = useId()
  const pipelines = usePipelines().data?.pipelines ?? []
  const wanted = text.trim()
  const asID = /^[0-9a-f-]{3,36}$/i.test(wanted) ? wanted.toLowerCase() : ""
  const executions = useAsk(["executions", "ids"], (signal) => data(api.GET("/api/v1/executions", { params: { query: { limit: 500 } }, signal })), { enabled: asID !== "" })
  const to = (path: string) => () => { onClose(); navigate(path) }
  const found: Found[] = [
    ...screens.filter((s) => s.rail).map((s): Found => ({ kind: "Go to", label: s.title, go: to(s.path) })),
    { kind: "Do", label: "Run a pipeline …", refused: noRun, go: () => onRun(null) },
    { kind: "Do", label: "Show failed executions of the last 24 hours", go: to("/executions?range=24h&status=failed,timed_out,completed_with_failures") },
    { kind: "Do", label: "Show the calendar of schedules", go: to("/schedules?tab=calendar") },
    ...pipelines.map((p): Found => ({ kind: "Pipeline", label: p.name, note: p.description, go: to(`/pipelines/${p.pipeline_id}`) })),
    ...pipelines.map((p): Found => ({ kind: "Run", label: `Run ${p.name} …`, refused: noRun || (p.archived && "it is archived"), go: () => onRun(p.pipeline_id) })),
  ].filter((f) => !wanted || fits(`${f.kind} ${f.label}`, wanted)).slice(0, most)
  if (asID.length === 36) found.unshift({ kind: "Execution", label: asID, go: to(`/executions/${asID}`) })
  else if (asID) for (const x of (executions.data?.executions ?? []).filter((x) => x.execution_id.startsWith(asID)).slice(0, 10)) found.unshift({ kind: "Execution", label: `${x.pipeline} ${shortID(x.execution_id)}`, note: lookOf(x.status).word, go: to(`/executions/${x.execution_id}`) })
  if (wanted && asID.length !== 36) found.push({ kind: "Show", label: `Executions with “${wanted}”`, go: to(`/executions?q=${encodeURIComponent(wanted)}`) })
  const here = Math.min(at, found.length - 1)
  const pick = (f: Found | undefined) => { if (f && !f.refused) f.go() }
  return (
    <dialog
      ref={ref} className="dialog palette" aria-label="Search and commands" onCancel={(e) => { e.preventDefault(); onClose() }} onClick={(e) => { if (e.target === ref.current) onClose() }}
      onKeyDown={(e) => {
        e.stopPropagation()
        if (e.key === "ArrowDown" || e.key === "ArrowUp") { e.preventDefault(); setAt((here + (e.key === "ArrowDown" ? 1 : -1) + found.length) % Math.max(1, found.length)) }
        else if (e.key === "Enter") { e.preventDefault(); pick(found[here]) }
        else if (e.key === "k" && (e.ctrlKey || e.metaKey)) { e.preventDefault(); onClose() }
      }}
    >
      <div>
        <input className="input" role="combobox" aria-expanded="true" aria-controls={id} aria-activedescendant={found[here] ? `${id}-${here}` : undefined} aria-label="Search" placeholder="A screen, pipeline, command, or the beginning of an execution's id" autoFocus autoComplete="off" spellCheck={false} value={text} onChange={(e) => { setText(e.target.value); setAt(0) }} />
        <ul id={id} role="listbox" aria-label="Found">
          {found.map((f, i) => (
            <li key={f.kind + f.label + i} id={`${id}-${i}`} role="option" aria-selected={i === here} aria-disabled={Boolean(f.refused) || undefined} title={f.refused || undefined} ref={i === here ? (el) => el?.scrollIntoView({ block: "nearest" }) : undefined} onMouseMove={() => setAt(i)} onClick={() => pick(f)}>
              <span className="kind">{f.kind}</span><span className="clip">{f.label}</span><span className="note-text clip">{f.refused || f.note}</span>
            </li>
          ))}
        </ul>
      </div>
    </dialog>
  )
}
