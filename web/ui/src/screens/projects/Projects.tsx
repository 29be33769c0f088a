import { useQueryClient } from "@tanstack/react-query"
import { useEffect, useState } from "react"
import { Link, useLocation } from "wouter"
import { address, api, data, Problem, useAsk, useDo, type Schemas } from "../../api/client"
import { usePages } from "../../api/pages"
import { formatCount, shortID } from "../../format"
import { useKeys } from "../../keys"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { Dialog } from "../../parts/Dialog"
import { TextField } from "../../parts/Fields"
import { Loaded } from "../../parts/Loading"
import { Rows, type Column } from "../../parts/Rows"
import { Ago } from "../../parts/Time"
import { useSearchParams } from "../../url"
import { Typed } from "../executions/Filters"

type Project = Schemas["Project"]

/** useProgress is how far a project is; null: it has none (NOT_FOUND). */
export const useProgress = (id: string) => useAsk(["progress", id], async (signal) => {
  try {
    return await data(api.GET("/api/v1/projects/{project_id}/progress", { params: { path: { project_id: id } }, signal }))
  } catch (err) {
    if (err instanceof Problem && err.status === 404) return null
    throw err
  }
})

/** useProgressLive follows the progress of a project. A finish ends it; it goes on where the project has been reset since. */
export function useProgressLive(id: string) {
  const cache = useQueryClient()
  const done = useProgress(id).data?.status === "DONE"
  useEffect(() => {
    if (done) return
    let source: EventSource | undefined
    let timer: ReturnType<typeof setTimeout> | undefined
    let wait = 500
    const open = () => {
      source = new EventSource(address(`api/v1/projects/${encodeURIComponent(id)}/events`))
      source.addEventListener("progress", (e: MessageEvent<string>) => {
        wait = 500
        const p = JSON.parse(e.data) as Schemas["ProjectProgress"]
        cache.setQueryData(["progress", id], p.status === "NOT_FOUND" ? null : p)
      })
      source.onerror = () => { // after every answer that ends: a browser comes back by itself only where none came
        source?.close()
        timer = setTimeout(open, wait)
        wait = Math.min(2 * wait, 10_000)
      }
    }
    open()
    return () => { source?.close(); clearTimeout(timer) }
  }, [id, done, cache])
}

/** StatusOf is the status of a project's progress. */
export function StatusOf({ id }: { id: string }) {
  const p = useProgress(id).data
  return p === undefined ? null : <span className={p ? undefined : "quiet"}>{p?.status ?? "NOT_FOUND"}</span>
}

/** ProgressOf shows a bar, how many are done of all, their share, and the errors. */
export function ProgressOf({ id }: { id: string }) {
  const p = useProgress(id).data
  if (!p) return p === null ? <span className="quiet">–</span> : null
  return (
    <span className="progress">
      <span className="bar" role="img" aria-label={`${p.done} of ${p.total || "an unknown number"} done, ${p.errors} errors`}>
        <i style={{ width: `${Math.max(0, p.percent - (p.total ? (100 * p.errors) / p.total : 0))}%`, background: "var(--state-completed)" }} />
        <i style={{ width: `${p.total ? (100 * p.errors) / p.total : 0}%`, background: "var(--state-failed)" }} />
      </span>
      <span>{formatCount(p.done)}/{p.total ? formatCount(p.total) : "?"}</span>
      <span className="quiet progress-percent">{p.percent.toFixed(p.percent % 1 ? 1 : 0)} %</span>
      {p.errors > 0 && <span className="bad">{formatCount(p.errors)} {p.errors === 1 ? "error" : "errors"}</span>}
    </span>
  )
}

const columns: Column<Project>[] = [
  { title: "Name", width: "minmax(110px, 1.4fr)", show: (p) => <Link href={`/projects/${encodeURIComponent(p.id)}`} onClick={(e) => e.stopPropagation()} tabIndex={-1}>{p.name || p.id}</Link> },
  { title: "Progress", width: "minmax(150px, 2fr)", show: (p) => <ProgressOf id={p.id} /> },
  { title: "Status", width: "116px", from: 560, show: (p) => <StatusOf id={p.id} /> },
  { title: "Tags", width: "minmax(90px, 1fr)", from: 760, show: (p) => p.tags || <span className="quiet">–</span> },
  { title: "Id", width: "minmax(90px, 1fr)", from: 980, show: (p) => <code title={p.id}>{shortID(p.id)}</code> },
  { title: "Changed", width: "96px", from: 560, show: (p) => <Ago time={p.updated_at} /> },
]

export default function Projects() {
  const [search, set] = useSearchParams()
  const [, navigate] = useLocation()
  const [making, setMaking] = useState(false)
  const noEdit = useRefusal("editor")
  const list = usePages(["projects", search.q ?? ""], async (cursor, signal) => {
    const page = await data(api.GET("/api/v1/projects", { params: { query: { word: search.q, cursor, limit: 200 } }, signal }))
    return { rows: page.projects, next: page.next_cursor }
  }, { id: (p) => p.id })
  useKeys([{ keys: "n", does: "New project", act: () => { if (!noEdit) setMaking(true) } }])
  const rows = list.rows ?? []
  return (
    <div className="screen" data-full>
      <header>
        <h1>Projects</h1>
        <Button kind="main" refused={noEdit} onClick={() => setMaking(true)}>New project …</Button>
      </header>
      <div className="row" role="search" aria-label="Filter projects"><Typed label="Text" placeholder="Name or tag" value={search.q ?? ""} onChange={(q) => set({ q })} filter width={240} /></div>
      <Loaded of={list.first} lines={6}>
        {() => rows.length > 0 ? (
          <div className="fill"><Rows label="Projects" rows={rows} columns={columns} keyOf={(p) => p.id} onOpen={(p) => navigate(`/projects/${encodeURIComponent(p.id)}`)} onEnd={list.onEnd} onView={list.onView} /></div>
        ) : (
          <div className="empty">
            <h2>{search.q ? "No project matches" : "There are no projects yet"}</h2>
            <p>A project has lessons, whose files pipelines work through, and counts how far they are.</p>
            {!search.q && <><div className="actions"><Button kind="main" refused={noEdit} onClick={() => setMaking(true)}>New project …</Button></div><pre>stepwell projects create course --name Geography</pre></>}
          </div>
        )}
      </Loaded>
      {making && <NewProject onClose={() => setMaking(false)} onMade={(id) => { setMaking(false); navigate(`/projects/${encodeURIComponent(id)}`) }} />}
    </div>
  )
}

function NewProject({ onClose, onMade }: { onClose: () => void; onMade: (id: string) => void }) {
  const [id, setID] = useState("")
  const [name, setName] = useState("")
  const [tags, setTags] = useState("")
  const make = useDo(() => data(api.POST("/api/v1/projects", { body: { name: name.trim(), tags: tags.trim(), ...(id.trim() ? { id: id.trim() } : {}) } })), [["projects"]])
  return (
    <Dialog title="New project" does="Create" busy={make.isPending} problem={make.error} refused={!name.trim() && "a name is needed"} onClose={onClose} onDo={() => make.mutate(undefined, { onSuccess: (p) => onMade(p.id) })}>
      <TextField label="Name" value={name} onChange={setName} autoFocus required />
      <TextField label="Id" value={id} onChange={setID} hint="left empty: one is chosen" />
      <TextField label="Tags" value={tags} onChange={setTags} hint="with commas between them" />
    </Dialog>
  )
}
