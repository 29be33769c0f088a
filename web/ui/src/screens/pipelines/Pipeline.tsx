import { useEffect, useState } from "react"
import { Link, useLocation } from "wouter"
import { api, data, queries, useAsk, useDo, type Schemas } from "../../api/client"
import { isPartitioned } from "../../document/params"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { Dialog } from "../../parts/Dialog"
import { Loaded } from "../../parts/Loading"
import { Moment } from "../../parts/Time"
import { complain, say } from "../../parts/Toasts"
import { RunDialog } from "../run/RunDialog"
import { MatrixTab } from "./MatrixTab"
import { Overview } from "./Overview"
import { PartitionsTab } from "./PartitionsTab"
import "./pipelines.css"
import { Versions } from "./Versions"

export type Stored = Schemas["Pipeline"]

const tabs = ["overview", "versions", "matrix", "partitions"] as const

export default function Pipeline({ params }: { params: Record<string, string | undefined> }) {
  const id = decodeURIComponent(params.id ?? "")
  const pipeline = useAsk(["pipelines", id], async (signal) => {
    const answer = await api.GET("/api/v1/pipelines/{pipeline_id}", { params: { path: { pipeline_id: id } }, signal })
    return { p: answer.data!, etag: answer.response.headers.get("ETag") ?? undefined }
  })
  return <div className="screen"><Loaded of={pipeline} lines={10}>{({ p, etag }) => <Shown p={p} etag={etag} tab={tabs.find((t) => t === params.tab) ?? "overview"} />}</Loaded></div>
}

function Shown({ p, etag, tab }: { p: Stored; etag?: string; tab: (typeof tabs)[number] }) {
  const [, navigate] = useLocation()
  const [open, setOpen] = useState<"run" | "delete">()
  const noRun = useRefusal("operator")
  const noEdit = useRefusal("editor")
  const partitioned = usePartitioned(p) || tab === "partitions"
  const request = { params: { path: { pipeline_id: p.pipeline_id }, header: etag ? { "If-Match": etag } : {} } }
  const archive = useDo(() => data(api.PUT("/api/v1/pipelines/{pipeline_id}", { ...request, body: { archived: !p.archived } })), [["pipelines"]])
  const remove = useDo(() => data(api.DELETE("/api/v1/pipelines/{pipeline_id}", request)))
  const here = `/pipelines/${p.pipeline_id}`
  return (
    <>
      <header>
        <h1><Link href="/pipelines">Pipelines</Link> / {p.name}</h1>
        <span className="quiet">v{p.active_version || p.version} active{p.version !== p.active_version && `, v${p.version} newest`}{p.archived && " · archived"}</span>
        <Button kind="main" refused={noRun || (p.archived && "it is archived")} onClick={() => setOpen("run")}>Run …</Button>
        <Button onClick={() => navigate(`${here}/edit`)}>{noEdit ? "Graph" : "Edit"}</Button>
        <Button refused={noEdit} busy={archive.isPending} onClick={() => archive.mutate(undefined, { onSuccess: () => say(p.archived ? "It can be started again." : "Archived. It cannot be started."), onError: complain })}>{p.archived ? "Unarchive" : "Archive"}</Button>
        <Button kind="danger" refused={noEdit} onClick={() => setOpen("delete")}>Delete …</Button>
      </header>
      {p.description && <p>{p.description}</p>}
      {p.problems?.length ? (
        <div className="note" data-kind="warn">
          <strong>The newest version has problems</strong>
          {p.problems.slice(0, 10).map((d, i) => <div key={i} className="mono">{[d.line ? `${d.line}:${d.column ?? 1}` : d.location, d.message, d.hint].filter(Boolean).join(": ")}</div>)}
        </div>
      ) : null}
      <nav className="tabs" aria-label="Parts of the pipeline">
        <Link href={here} aria-current={tab === "overview" ? "page" : undefined}>Overview</Link>
        <Link href={`${here}/versions`} aria-current={tab === "versions" ? "page" : undefined}>Versions</Link>
        <Link href={`${here}/matrix`} aria-current={tab === "matrix" ? "page" : undefined}>Matrix</Link>
        {partitioned && <Link href={`${here}/partitions`} aria-current={tab === "partitions" ? "page" : undefined}>Partitions</Link>}
      </nav>
      {tab === "overview" && <Overview p={p} />}
      {tab === "versions" && <Versions p={p} etag={etag} />}
      {tab === "matrix" && <MatrixTab p={p} />}
      {tab === "partitions" && <PartitionsTab p={p} />}
      <p className="quiet">Id <code>{p.pipeline_id}</code> · stored <Moment time={p.created_at} />{p.created_by && ` by ${p.created_by}`} · changed <Moment time={p.updated_at} /></p>
      {open === "run" && <RunDialog pipeline={p.pipeline_id} onClose={() => setOpen(undefined)} />}
      {open === "delete" && (
        <Dialog title={`Delete ${p.name}?`} does="Delete" danger busy={remove.isPending} problem={remove.error} onClose={() => setOpen(undefined)} onDo={() => remove.mutate(undefined, { onSuccess: () => { say(`Deleted ${p.name}.`); navigate("/pipelines"); for (const part of ["list", "names"]) void queries.invalidateQueries({ queryKey: ["pipelines", part] }) } })}>
          <p>All its versions are removed. Its executions stay. What starts it fails from then on.</p>
        </Dialog>
      )}
    </>
  )
}

// usePartitioned says that the newest version's text has partitions.
function usePartitioned(p: Stored): boolean {
  const [is, set] = useState(false)
  useEffect(() => {
    let current = true
    isPartitioned(p.document ?? "").then((found) => { if (current) set(found) }, () => { if (current) set(false) }) // a draft that is no YAML
    return () => { current = false }
  }, [p.document])
  return is
}
