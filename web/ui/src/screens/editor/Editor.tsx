import { ReactFlowProvider } from "@xyflow/react"
import { useCallback, useEffect, useMemo, useRef, useState } from "react"
import { Link, useLocation } from "wouter"
import { api, data, Problem, queries, send, useAsk, type Schemas } from "../../api/client"
import { addDependency, addStep, removeDependency, removeStep, renameStep, setKey, Source } from "../../document/edits"
import { merged } from "../../document/merge"
import { useKeys } from "../../keys"
import { useRefusal } from "../../me"
import { useBehind } from "../../parts/painted"
import { Button } from "../../parts/Button"
import { ProblemBox } from "../../parts/Problem"
import { Skeleton } from "../../parts/Loading"
import { complain, say } from "../../parts/Toasts"
import { useSearchParams } from "../../url"
import type { DraftNode } from "./arrange"
import type { Known } from "./complete"
import { dropDraft, findDraft, keepDraft } from "./drafts"
import "./editor.css"
import { GraphPane } from "./GraphPane"
import { Inspector } from "./Inspector"
import { PlanDialog } from "./PlanDialog"
import { Palette, piecesOf, type Piece } from "./Palette"
import { MergeDialog, SaveDialog } from "./SaveDialog"
import { TestBar, TestDialog, topOf } from "./Testing"
import { TextPane, type Text } from "./TextPane"
import { useCalls } from "./useCalls"
import { offsetOf, useEdits, usePlan } from "./useDraft"

const blank = "name: my-pipeline\n\nsteps:\n  - id: hello\n    action: util.log\n    params: {message: hello}\n"

const none: Schemas["Detail"][] = []

/** Opened is a text with the state of the store that it was made of. */
interface Opened { text: string; base: string; etag: string; recovered: boolean }

/** Editor opens a stored pipeline, or a new one, and finds again what was not saved. */
export default function Editor({ params }: { params: Record<string, string | undefined> }) {
  const id = params.id
  const [opened, setOpened] = useState<Opened>()
  const [problem, setProblem] = useState<Problem | null>(null)
  useEffect(() => {
    let gone = false
    const load = async () => {
      const stored = id ? await read(id) : { text: sessionStorage.getItem("stepwell.new") ?? blank, etag: "" }
      sessionStorage.removeItem("stepwell.new")
      const kept = await findDraft(id ?? "new")
      const recovered = kept !== undefined && kept.text !== stored.text
      if (!gone) setOpened({ ...stored, base: id ? stored.text : "", text: recovered ? kept.text : stored.text, recovered })
    }
    load().catch((err) => setProblem(err))
    return () => { gone = true }
  }, [id])
  if (problem) return <div className="screen"><ProblemBox problem={problem} /></div>
  if (!opened) return <Skeleton lines={8} />
  return <ReactFlowProvider><Workbench key={id} id={id} opened={opened} /></ReactFlowProvider>
}

async function read(id: string): Promise<{ text: string; etag: string }> {
  const { data: pipeline, response } = await api.GET("/api/v1/pipelines/{pipeline_id}", { params: { path: { pipeline_id: id } } })
  return { text: pipeline!.document ?? "", etag: response.headers.get("ETag") ?? "" }
}

function Workbench({ id, opened }: { id: string | undefined; opened: Opened }) {
  const [, navigate] = useLocation()
  const [search, setSearch] = useSearchParams()
  const refused = useRefusal("editor")
  const pane = useRef<Text>(null)
  const [text, setText] = useState(opened.text)
  const [stored, setStored] = useState({ base: opened.base, etag: opened.etag })
  const [saving, setSaving] = useState(false)
  const [busy, setBusy] = useState(false)
  const [problem, setProblem] = useState<Problem | null>(null)
  const [planning, setPlanning] = useState(false)
  const [testing, setTesting] = useState<string>() // the step up to which; "" is the end
  const [tested, setTested] = useState<string>() // the text of the test that is shown
  const [states, setStates] = useState<ReadonlyMap<string, string>>(new Map())
  const [conflict, setConflict] = useState<{ text: string; etag: string }>()
  const changed = useRef(0)
  const { plan, graph, planned, problem: unplanned, ahead, stale } = usePlan(text, changed)
  const { source, edit } = useEdits(text, pane, ahead)
  const actions = useAsk(["actions"], () => data(api.GET("/api/v1/actions")), { staleTime: 300_000 })
  const modules = useAsk(["modules"], () => data(api.GET("/api/v1/modules")), { staleTime: 300_000 })
  const pipelines = useAsk(["pipelines", "names"], () => data(api.GET("/api/v1/pipelines", { params: { query: { limit: 100 } } })), { staleTime: 60_000 })
  const schema = useAsk<any>(["schema"], () => fetchSchema(), { staleTime: Infinity, retry: false })
  const view = search.view ?? (window.innerWidth < 1000 ? "graph" : "both")
  const nodes = useMemo(() => graph?.nodes ?? [], [graph])
  const node = nodes.find((n) => n.id === search.step)
  const form = useBehind(useMemo(() => ({ node, source }), [node, source])) // a form beside text and graph may be a moment behind them
  const formOf = form.node
  const dirty = text !== stored.base
  const catalogue = useMemo(() => [...(actions.data?.actions ?? []), ...(modules.data?.modules ?? [])], [actions.data, modules.data])
  const pieces = useMemo(() => piecesOf(actions.data?.actions ?? [], modules.data?.modules ?? [], pipelines.data?.pipelines ?? []), [actions.data, modules.data, pipelines.data])

  // The draft is stored 300 ms after the last key, and at once when the page is left.
  const keeping = useRef<() => void>(undefined)
  useEffect(() => {
    const keep = () => {
      keeping.current = undefined
      void (dirty && id !== undefined || dirty && text !== blank ? keepDraft(id ?? "new", text, stored.base) : dropDraft(id ?? "new"))
    }
    keeping.current = keep
    const timer = setTimeout(keep, 300)
    return () => clearTimeout(timer)
  }, [text, dirty, id, stored.base])
  useEffect(() => {
    const now = () => keeping.current?.()
    window.addEventListener("pagehide", now)
    return () => { window.removeEventListener("pagehide", now); now() }
  }, [id])
  useEffect(() => {
    if (!dirty) return
    const warn = (e: BeforeUnloadEvent) => e.preventDefault()
    window.addEventListener("beforeunload", warn)
    return () => window.removeEventListener("beforeunload", warn)
  }, [dirty])

  const select = useCallback((step: string | undefined) => setSearch({ step }), [setSearch])
  const lines = useMemo(() => nodes.filter((n) => n.line).sort((a, b) => a.line! - b.line!), [nodes])
  const nodeAt = useCallback((line: number) => lines.findLast((n) => n.line! <= line), [lines])
  const problems = plan?.problems ?? none
  const faults = useMemo(() => {
    const found = new Map<string, number>()
    for (const p of problems) {
      const at = p.line && !p.warning ? nodeAt(p.line)?.id : undefined
      if (at !== undefined) found.set(at, (found.get(at) ?? 0) + 1)
    }
    return found
  }, [problems, nodeAt])
  const known = (): Known => ({
    schema: schema.data, actions: actions.data?.actions ?? [], modules: modules.data?.modules ?? [], pipelines: (pipelines.data?.pipelines ?? []).map((p) => p.name),
    steps: nodes.filter((n) => n.step_id).map((n) => ({ id: n.step_id!, outputs: (n.outputs ?? []).map((o) => o.name) })), params: Object.values<any>((source()?.value() as any)?.parameters ?? []).map((p) => p?.name).filter(Boolean),
  })
  const stepOf = (nodeID: string) => nodes.find((n) => n.id === nodeID)?.step_id ?? nodeID
  const add = (piece: Piece | undefined, after?: string) => {
    if (!piece) return
    const taken = new Set(nodes.map((n) => n.step_id))
    if (planned !== text) for (const s of source()?.steps() ?? []) taken.add(s.id) // the graph has not all of them yet
    const stem = piece.title.split(".").pop()!.replace(/[^A-Za-z0-9_-]/g, "-")
    let name = stem
    for (let i = 2; taken.has(name); i++) name = `${stem}-${i}`
    const at = after ?? node?.id
    const beside = at && source()?.steps().some((s) => s.key === at) ? at : undefined
    const parent = beside?.includes(".") ? beside.slice(0, beside.lastIndexOf(".") + 1) : ""
    if (edit((t) => addStep(t, beside ? { after: beside } : { list: ["steps"] }, { id: name, ...(beside ? { depends_on: [stepOf(beside)] } : {}), ...piece.step }))) select(parent + name)
  }
  const rename = (node: DraftNode, to: string) => {
    if (!plan || planned !== text) return complain("wait until the server has read the text")
    const uses = plan.references[node.step_id!]
    if (uses?.unmapped?.length) return complain(new Problem(0, "invalid", `${node.step_id} is also named at line ${uses.unmapped[0]!.line}, where the text cannot be changed exactly`, "rename it by hand"))
    const places = (uses?.ranges ?? []).map((r) => ({ from: offsetOf(text, r.line, r.column), to: offsetOf(text, r.line, r.end_column) }))
    if (edit((t) => renameStep(t, node.id, to, places))) select(node.id.slice(0, node.id.length - node.step_id!.length) + to)
  }
  const connect = (from: string, to: string) => edit((t) => addDependency(t, to, stepOf(from)))
  const disconnect = (from: string, to: string) => edit((t) => removeDependency(t, to, stepOf(from)))
  const remove = (nodeID: string) => { if (edit((t) => removeStep(t, nodeID))) select(undefined) }
  const drawn = useCalls({ onConnect: connect, onDisconnect: disconnect, onRemove: remove, onDrop: (what: string, after: string | undefined) => add(pieces.find((p) => p.id === what), after) })
  const picked = useCalls({ onAdd: (p: Piece) => add(p) })
  const reveal = (line: number) => { if (view === "graph") setSearch({ view: "both" }); setTimeout(() => pane.current?.reveal(offsetOf(text, line, 1)), 0) }

  const save = async (note: string) => {
    setBusy(true)
    setProblem(null)
    try {
      if (!id) {
        const made = await data(api.POST("/api/v1/pipelines", { body: { document: text, note: note || undefined, draft: errors > 0 } }))
        await dropDraft("new")
        setStored({ base: text, etag: "" })
        await queries.invalidateQueries({ queryKey: ["pipelines"] })
        navigate(`/pipelines/${made!.pipeline_id}/edit`, { replace: true })
        return
      }
      const { data: now, response } = await api.PUT("/api/v1/pipelines/{pipeline_id}", { params: { path: { pipeline_id: id }, header: { "If-Match": stored.etag } }, body: { document: text, note: note || undefined, draft: errors > 0 } })
      setStored({ base: text, etag: response.headers.get("ETag") ?? "" })
      setSaving(false)
      queries.removeQueries({ queryKey: ["pipelines", id], exact: true }) // its page must not act on the version before
      say(`Version ${now!.version} is stored${now!.draft ? " as a draft" : ""}.`)
      await queries.invalidateQueries({ queryKey: ["pipelines"] })
    } catch (err) {
      const p = err as Problem
      if (p.status !== 412) return setProblem(p)
      const theirs = await read(id!)
      const both = merged(stored.base, theirs.text, text)
      setSaving(false)
      if (both === undefined) return setConflict(theirs)
      pane.current?.replace(both)
      setStored({ base: theirs.text, etag: theirs.etag })
      say("Somebody else stored a version meanwhile. Their changes are in your text now: look at them, and save again.")
    } finally {
      setBusy(false)
    }
  }

  useKeys([
    { keys: "1", does: "Show the graph", act: () => setSearch({ view: "graph" }) },
    { keys: "2", does: "Show graph and text", act: () => setSearch({ view: "both" }) },
    { keys: "3", does: "Show the text", act: () => setSearch({ view: "text" }) },
    { keys: "ctrl+s", does: "Save", act: () => { if (!refused && dirty) setSaving(true) } },
    { keys: "ctrl+z", does: "Undo", act: () => pane.current?.undo() },
    { keys: "ctrl+y", does: "Redo", act: () => pane.current?.redo() },
  ])
  const errors = problems.filter((p) => !p.warning).length
  const warnings = problems.length - errors
  const untestable = refused || (stale || !graph ? "the text does not parse" : errors > 0 && "the text has errors")
  return (
    <div className="editor" data-view={view}>
      <header className="editor-bar">
        <h1 className="clip">{id ? <Link href={`/pipelines/${id}`}>{plan?.name || "pipeline"}</Link> : plan?.name || "New pipeline"}</h1>
        {!id && <Link className="button" href="/pipelines/templates">Templates</Link>}
        {dirty && <span className="quiet">not saved</span>}
        {opened.recovered && dirty && <Button kind="bare" onClick={() => pane.current?.replace(stored.base || blank)} title="The text is the one that was not saved here">Drop what was recovered</Button>}
        <span className="grow" />
        <span role="status" className={errors > 0 ? "editor-errors" : "quiet"}>{unplanned ? unplanned.message : plan ? `${errors} ${errors === 1 ? "error" : "errors"}, ${warnings} ${warnings === 1 ? "warning" : "warnings"}` : "reading"}{stale ? " · the graph is of before" : ""}</span>
        {plan?.estimate?.seconds != null && <span className="quiet">about {Math.round(plan.estimate.seconds)} s</span>}
        <span role="group" aria-label="View" className="row">
          {(["graph", "both", "text"] as const).map((v) => <Button key={v} aria-pressed={v === view} onClick={() => setSearch({ view: v })}>{v}</Button>)}
        </span>
        <Button refused={!graph && "the text does not parse"} onClick={() => setPlanning(true)}>Plan</Button>
        <Button refused={untestable} onClick={() => setTesting(topOf(nodes, search.step))}>Test …</Button>
        <Button kind="main" refused={refused || (!dirty && "nothing has changed")} onClick={() => { setProblem(null); setSaving(true) }}>Save</Button>
      </header>
      {search.test && <TestBar execution={search.test} nodes={nodes} older={tested !== undefined && tested !== text} onStates={setStates} onClose={() => setSearch({ test: undefined })} />}
      <div className="editor-body">
        {view !== "text" && <Palette pieces={pieces} refused={refused || (stale && "the text does not parse")} onAdd={picked.onAdd} />}
        {view !== "text" && (
          <GraphPane nodes={nodes} states={states} problems={faults} selected={search.step} stale={stale} readOnly={Boolean(refused)} onSelect={select} {...drawn} />
        )}
        {view !== "text" && formOf && (
          <Inspector key={formOf.id} node={formOf} nodes={nodes} source={form.source} action={catalogue.find((a) => a.type === formOf.action || a.aliases?.includes(formOf.action ?? ""))} problems={problems.filter((p) => p.line && nodeAt(p.line)?.id === formOf.id)} refused={refused || (stale && "the text does not parse")} onSet={(path, value) => edit((t) => setKey(t, [...Source.of(t).step(formOf.id).path, ...path], value))} onConnect={connect} onDisconnect={disconnect} onRename={(to) => rename(formOf, to)} onRemove={() => remove(formOf.id)} onReveal={reveal} test={search.test} untestable={untestable} onTest={() => setTesting(topOf(nodes, formOf.id))} />
        )}
        <div className="editor-text" hidden={view === "graph"}>
          <TextPane ref={pane} initial={opened.text} readOnly={Boolean(refused)} problems={problems} known={known} onChange={(t, at) => { changed.current = at; setText(t) }} onPlace={(offset) => { const n = nodeAt(text.slice(0, offset).split("\n").length); if (n && n.id !== search.step) select(n.id) }} />
        </div>
      </div>
      {planning && <PlanDialog text={text} onClose={() => setPlanning(false)} />}
      {testing !== undefined && <TestDialog text={text} name={plan?.name ?? ""} nodes={nodes} until={testing} onClose={() => setTesting(undefined)} onStarted={(test) => { setTesting(undefined); setTested(text); setSearch({ test }) }} />}
      {saving && <SaveDialog before={stored.base} after={text} draft={errors > 0} busy={busy} problem={problem} onSave={(note) => void save(note)} onClose={() => setSaving(false)} />}
      {conflict && <MergeDialog base={stored.base} theirs={conflict.text} mine={text} onClose={() => setConflict(undefined)} onKeep={(kept) => { pane.current?.replace(kept); setStored({ base: conflict.text, etag: conflict.etag }); setConflict(undefined) }} />}
    </div>
  )
}

// The schema of documents; a server that does not give it only costs completion of keys.
async function fetchSchema(): Promise<unknown> {
  return (await send("api/v1/schema")).json()
}
