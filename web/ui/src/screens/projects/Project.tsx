import { useEffect, useState } from "react"
import { Link } from "wouter"
import { api, data, queries, useAsk, useDo, type Schemas } from "../../api/client"
import { watch } from "../../api/live"
import { usePages } from "../../api/pages"
import { formatBytes, formatDuration, shortID } from "../../format"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { Dialog } from "../../parts/Dialog"
import { TextField } from "../../parts/Fields"
import { Loaded } from "../../parts/Loading"
import { Rows, type Column } from "../../parts/Rows"
import { StateBar, StateWord } from "../../parts/State"
import { Ago } from "../../parts/Time"
import { useSearchParams } from "../../url"
import { runColumns } from "../queue/RunsQueue"
import { LessonPanel } from "./LessonPanel"
import { ProgressOf, StatusOf, useProgress, useProgressLive } from "./Projects"
import "./projects.css"
import { RunPanel } from "./RunPanel"
import { StartRuns } from "./StartRuns"

type Lesson = Schemas["Lesson"]

const lessonColumns = (onRun: (l: Lesson) => void, refusal: string | false): Column<Lesson>[] => [
  { title: "Lesson", width: "minmax(110px, 1.6fr)", show: (l) => l.name || l.id },
  { title: "Latest", width: "minmax(104px, 1.2fr)", show: (l) => l.latest ? <Link href={`/executions/${l.latest.execution_id}`} tabIndex={-1} onClick={(e) => e.stopPropagation()} title={`${l.latest.pipeline}: ${l.latest.completed} of ${l.latest.total} steps completed`}><StateWord state={l.latest.status} /></Link> : <span className="quiet">not run</span> },
  { title: "Steps", width: "110px", from: 980, show: (l) => l.latest ? <span className="progress"><StateBar counts={{ failed: l.latest.failed, completed: l.latest.completed, pending: l.latest.total - l.latest.failed - l.latest.completed }} label={`${l.name || l.id}: ${l.latest.completed} of ${l.latest.total} steps completed, ${l.latest.failed} failed`} /><span>{l.latest.completed}/{l.latest.total}</span></span> : null },
  { title: "Tag", width: "minmax(60px, 0.8fr)", from: 560, show: (l) => l.tag || <span className="quiet">–</span> },
  { title: "File", width: "minmax(100px, 1.4fr)", from: 560, show: (l) => (l.media ? `${l.media.name} · ${formatBytes(l.media.bytes)}` : <span className="quiet">none</span>) },
  { title: "Id", width: "minmax(80px, 1fr)", from: 980, show: (l) => <code title={l.id}>{shortID(l.id)}</code> },
  { title: "Changed", width: "96px", from: 760, show: (l) => <Ago time={l.updated_at} /> },
  { title: "Run", width: "76px", show: (l) => <Button kind="bare" refused={refusal} aria-label={refusal ? undefined : `Run ${l.name || l.id}`} onClick={(e) => { e.stopPropagation(); onRun(l) }}>▷ Run</Button> },
]

export default function Project({ params }: { params: Record<string, string | undefined> }) {
  const id = decodeURIComponent(params.id ?? "")
  const [search, set] = useSearchParams()
  const [start, setStart] = useState<{ lesson?: Lesson }>()
  const [making, setMaking] = useState(false)
  const noRun = useRefusal("operator")
  const noEdit = useRefusal("editor")
  const path = { params: { path: { project_id: id } } }
  const project = useAsk(["projects", id], (signal) => data(api.GET("/api/v1/projects/{project_id}", { ...path, signal })))
  const usage = useAsk(["progress", id, "usage"], (signal) => data(api.GET("/api/v1/projects/{project_id}/usage", { ...path, signal })))
  const runs = search.tab === "runs"
  useProgressLive(id)
  const none = useProgress(id).data === null
  const lessons = usePages(["lessons", id], async (cursor, signal) => {
    const page = await data(api.GET("/api/v1/lessons", { params: { query: { project_id: id, cursor, limit: 200, outcomes: true } }, signal }))
    return { rows: page.lessons, next: page.next_cursor }
  }, { id: (l) => l.id, enabled: !runs })
  const list = usePages(["runs", id], async (cursor, signal) => {
    const page = await data(api.GET("/api/v1/pipeline-runs", { params: { query: { project_id: id, cursor, limit: 200 } }, signal }))
    return { rows: page.data, next: page.next_cursor }
  }, { id: (r) => r.id, enabled: runs })
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const stop = watch((of, change) => {
      if (of !== "executions" || !(change.reload || change.rows?.some((x) => x.project === id))) return
      timer ??= setTimeout(() => { timer = undefined; void queries.invalidateQueries({ queryKey: ["lessons", id] }) }, 1000)
    })
    return () => { stop(); clearTimeout(timer) }
  }, [id])
  const here = `/projects/${encodeURIComponent(id)}`
  return (
    <div className="screen" data-full>
      <header>
        <h1><Link href="/projects">Projects</Link> / {project.data?.name || id}</h1>
        <Button refused={noEdit} onClick={() => setMaking(true)}>New lesson …</Button>
        <Button kind="main" refused={noRun} onClick={() => setStart({})}>Run all lessons …</Button>
      </header>
      {none && project.data === undefined && <div className="row"><StatusOf id={id} /></div>}
      <Loaded of={project} lines={1}>{(p) => (
        <div className="row" style={{ gap: 24 }}>
          <StatusOf id={id} />
          {none ? <span className="quiet">It has no progress yet: nothing has counted an item of it.</span> : <div style={{ width: "min(420px, 100%)" }}><ProgressOf id={id} /></div>}
          {p.tags && <span className="quiet">{p.tags}</span>}
          {usage.data && <span className="quiet">{(usage.data.input_tokens + usage.data.output_tokens).toLocaleString("en-US")} tokens · {formatDuration(usage.data.audio_seconds)} of audio · cost {usage.data.cost}</span>}
        </div>
      )}</Loaded>
      <nav className="tabs" aria-label="Parts of the project">
        <Link href={here} aria-current={runs ? undefined : "page"}>Lessons</Link>
        <Link href={`${here}?tab=runs`} aria-current={runs ? "page" : undefined}>Runs</Link>
      </nav>
      {!runs && search.lesson && <LessonPanel key={search.lesson} id={search.lesson} onClose={() => set({ lesson: "" })} />}
      {search.run && <RunPanel id={search.run} onClose={() => set({ run: "" })} />}
      {runs ? (
        <Loaded of={list.first} lines={6}>
          {() => (list.rows?.length ?? 0) > 0
            ? <div className="fill"><Rows label="Runs" rows={list.rows!} columns={runColumns.filter((c) => c.title !== "Project")} keyOf={(r) => r.id} selected={search.run} onOpen={(r) => set({ run: r.id })} onEnd={list.onEnd} onView={list.onView} /></div>
            : <div className="empty"><h2>Nothing has run yet</h2><p>Run all lessons, or one of them.</p></div>}
        </Loaded>
      ) : (
        <Loaded of={lessons.first} lines={6}>
          {() => (lessons.rows?.length ?? 0) > 0
            ? <div className="fill"><Rows label="Lessons" rows={lessons.rows!} columns={lessonColumns((lesson) => setStart({ lesson }), noRun)} keyOf={(l) => l.id} selected={search.lesson} onOpen={(l) => set({ lesson: l.id }, { push: true })} onEnd={lessons.onEnd} onView={lessons.onView} rowHeight={36} /></div>
            : <div className="empty"><h2>It has no lessons yet</h2><p>A lesson has a name and, mostly, a file.</p><pre>stepwell lessons create intro --project {id} --name Introduction{"\n"}stepwell lessons upload intro lesson.mp3</pre></div>}
        </Loaded>
      )}
      {start && <StartRuns project={id} lesson={start.lesson} onClose={() => setStart(undefined)} onStarted={(run) => { setStart(undefined); set({ tab: "runs", run }) }} />}
      {making && <NewLesson project={id} onClose={() => setMaking(false)} />}
    </div>
  )
}

function NewLesson({ project, onClose }: { project: string; onClose: () => void }) {
  const [id, setID] = useState("")
  const [name, setName] = useState("")
  const [tag, setTag] = useState("")
  const make = useDo(() => data(api.POST("/api/v1/lessons", { body: { project_id: project, name: name.trim(), tag: tag.trim(), ...(id.trim() ? { id: id.trim() } : {}) } })), [["lessons"]])
  return (
    <Dialog title="New lesson" does="Create" busy={make.isPending} problem={make.error} refused={!name.trim() && "a name is needed"} onClose={onClose} onDo={() => make.mutate(undefined, { onSuccess: onClose })}>
      <TextField label="Name" value={name} onChange={setName} autoFocus required />
      <TextField label="Id" value={id} onChange={setID} hint="left empty: one is chosen" />
      <TextField label="Tag" value={tag} onChange={setTag} />
    </Dialog>
  )
}
