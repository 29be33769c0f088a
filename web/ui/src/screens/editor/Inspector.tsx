import { useState } from "react"
import type { Schemas } from "../../api/client"
import { dependencies, type Source } from "../../document/edits"
import type { Path } from "../../document/source"
import { Button } from "../../parts/Button"
import type { DraftNode } from "./arrange"
import { FieldInput } from "./FieldInput"
import { TestResult } from "./Testing"

type Field = Schemas["Field"]

// The keys of a step that every step may have (specification budpipeline, docs/semantics.md).
const policy: { path: string[]; field: Field }[] = [
  { path: ["condition"], field: { name: "condition", type: "string", description: "An expression; when it is false the step is skipped." } },
  { path: ["trigger_rule"], field: { name: "trigger_rule", type: "string", options: ["all_success", "all_done", "one_success", "one_failed", "none_failed"], description: "When the step may run, seen from what it depends on." } },
  { path: ["on_failure"], field: { name: "on_failure", type: "string", options: ["fail", "continue", "retry"], description: "What a failure of the step means for the execution." } },
  { path: ["timeout_seconds"], field: { name: "timeout_seconds", type: "number", min: 0, description: "Time limit of one attempt." } },
  { path: ["retry", "max_attempts"], field: { name: "retry.max_attempts", type: "integer", min: 1, max: 100, description: "Attempts in all." } },
  { path: ["retry", "backoff_seconds"], field: { name: "retry.backoff_seconds", type: "number", min: 0, description: "Pause before the second attempt." } },
  { path: ["retry", "backoff_multiplier"], field: { name: "retry.backoff_multiplier", type: "number", min: 1 } },
  { path: ["for_each", "items"], field: { name: "for_each.items", type: "any", description: "A list, or an expression that gives one: the step runs once for each element." } },
  { path: ["for_each", "max_concurrency"], field: { name: "for_each.max_concurrency", type: "integer", min: 1 } },
  { path: ["queue"], field: { name: "queue", type: "string", description: "Queue whose workers take the step." } },
  { path: ["priority"], field: { name: "priority", type: "integer", min: -1000, max: 1000 } },
  { path: ["weight"], field: { name: "weight", type: "number", min: 0, description: "Share of the step in the progress of the execution." } },
  { path: ["idempotent"], field: { name: "idempotent", type: "boolean", description: "Whether the step may run again after its worker died." } },
]

interface Props {
  node: DraftNode
  nodes: DraftNode[]
  source: () => Source | undefined
  action: Schemas["Action"] | undefined
  problems: Schemas["Detail"][]
  refused: string | false
  /** Path is below the step. */
  onSet: (path: Path, value: unknown) => void
  onConnect: (from: string, to: string) => void
  onDisconnect: (from: string, to: string) => void
  onRename: (id: string) => void
  onRemove: () => void
  onReveal: (line: number) => void
  /** The execution of the test that is shown. */
  test?: string
  untestable: string | false
  onTest: () => void
}

const tabs = ["Form", "Depends on", "Policy", "Docs", "Problems", "Result"] as const

/** Inspector edits the selected step as a form: each change is the smallest one of the text. */
export function Inspector(props: Props) {
  const { node, action, problems, refused } = props
  const source = props.source()
  const [tab, setTab] = useState<(typeof tabs)[number]>("Form")
  const place = source?.steps().find((s) => s.key === node.id)
  const value = (path: readonly (string | number)[]): unknown => (place ? path.reduce<any>((at, p) => at?.[p], valueOf(source!, place.path)) : undefined)
  const locked = refused || (!place && "the step is not found in the text")
  const set = (path: Path, v: unknown) => place && props.onSet(path, v)
  const params = node.kind === "stream" ? "config" : "params"
  const extra = action ? Object.keys((value([params]) as object | undefined) ?? {}).filter((k) => !action.params.some((f) => f.name === k)) : Object.keys((value([params]) as object | undefined) ?? {})
  return (
    <aside className="inspector" aria-label={`Step ${node.step_id ?? node.id}`}>
      <header className="row">
        <Renamed key={node.id} id={node.step_id ?? node.id} refused={locked} onRename={props.onRename} />
        <Button kind="bare" onClick={() => props.onReveal(node.line ?? 1)} title="Show it in the text">↵ text</Button>
        {node.kind !== "handler" && <Button kind="bare" refused={props.untestable} onClick={props.onTest} aria-label="Test to here" title="Run the text up to this step">▷ Test</Button>}
        <Button kind="bare" refused={locked} onClick={props.onRemove}>Remove</Button>
      </header>
      <div className="tabs" role="tablist">
        {tabs.filter((t) => t !== "Result" || props.test).map((t) => (
          <button key={t} type="button" role="tab" aria-selected={t === tab} onClick={() => setTab(t)}>
            {t}{t === "Problems" && problems.length > 0 ? ` ${problems.length}` : ""}
          </button>
        ))}
      </div>
      <div className="inspector-body" role="tabpanel">
        {tab === "Form" && (
          <>
            <p className="quiet">{action?.summary ?? (node.kind === "group" || node.kind === "for_each" ? "A group: its steps are inside the frame." : node.pipeline ? "Runs another pipeline with params." : "This server does not know the action.")}</p>
            {action?.params.map((f) => <FieldInput key={f.name} field={f} value={value([params, f.name])} refused={locked} onChange={(v) => set([params, f.name], v)} />)}
            {extra.map((k) => <FieldInput key={k} field={{ name: k, type: "any" }} value={value([params, k])} refused={locked} onChange={(v) => set([params, k], v)} />)}
          </>
        )}
        {tab === "Depends on" && place && <Dependencies {...props} now={dependencies(place)} locked={locked} />}
        {tab === "Policy" && policy.map(({ path, field }) => <FieldInput key={field.name} field={field} value={value(path)} refused={locked} onChange={(v) => set(path, v)} />)}
        {tab === "Result" && props.test && <TestResult execution={props.test} step={node.id} />}
        {tab === "Docs" && <Docs action={action} node={node} />}
        {tab === "Problems" && (problems.length === 0 ? <p className="quiet">No problems.</p> : problems.map((p, i) => (
          <button key={i} type="button" className="problem-line" data-kind={p.warning ? "warning" : "error"} onClick={() => props.onReveal(p.line ?? 1)}>
            {p.line}:{p.column} {p.message}
            {p.hint && <small className="quiet">{p.hint}</small>}
          </button>
        )))}
      </div>
    </aside>
  )
}

function valueOf(source: Source, path: Path): unknown {
  return path.reduce<any>((at, p) => at?.[p], source.value())
}

function Renamed({ id, refused, onRename }: { id: string; refused: string | false; onRename: (id: string) => void }) {
  const [text, setText] = useState(id)
  const take = () => { if (text !== id && text) onRename(text); else setText(id) }
  return <input className="input step-id" aria-label="Id of the step" title={refused || "Rename: templates and dependencies follow"} readOnly={Boolean(refused)} value={text} onChange={(e) => setText(e.target.value)} onBlur={take} onKeyDown={(e) => { if (e.key === "Enter") take(); if (e.key === "Escape") setText(id) }} />
}

function Dependencies({ node, nodes, now, locked, onConnect, onDisconnect }: Props & { now: string[]; locked: string | false }) {
  const beside = nodes.filter((n) => (n.parent ?? "") === (node.parent ?? "") && n.id !== node.id && n.kind !== "handler")
  const implied = node.depends_on.filter((d) => !now.includes(beside.find((n) => n.id === d)?.step_id ?? d))
  return (
    <>
      {beside.length === 0 && <p className="quiet">There is no other step beside it.</p>}
      {beside.map((n) => (
        <label key={n.id} className="row">
          <input type="checkbox" disabled={Boolean(locked)} checked={now.includes(n.step_id ?? n.id)} onChange={(e) => (e.target.checked ? onConnect(n.id, node.id) : onDisconnect(n.id, node.id))} />
          <code>{n.step_id ?? n.id}</code>
          {implied.includes(n.id) && <small className="quiet">waits for it without naming it here</small>}
        </label>
      ))}
    </>
  )
}

function Docs({ action, node }: { action: Schemas["Action"] | undefined; node: DraftNode }) {
  if (!action) return <p className="quiet">There is nothing to tell of {node.action ?? node.kind}.</p>
  return (
    <>
      <h3><code>{action.type}</code></h3>
      <p>{action.summary}</p>
      {action.doc && <pre className="docs">{action.doc}</pre>}
      {action.outputs.length > 0 && (
        <table className="table">
          <thead><tr><th>output</th><th>type</th><th /></tr></thead>
          <tbody>{action.outputs.map((o) => <tr key={o.name}><td><code>{o.name}</code></td><td>{o.type}</td><td>{o.description}</td></tr>)}</tbody>
        </table>
      )}
    </>
  )
}
