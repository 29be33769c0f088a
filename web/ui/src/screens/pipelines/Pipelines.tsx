import { useState } from "react"
import { Link, useLocation } from "wouter"
import { api, data, type Schemas } from "../../api/client"
import { usePages } from "../../api/pages"
import { useKeys } from "../../keys"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { Loaded } from "../../parts/Loading"
import { Rows, type Column } from "../../parts/Rows"
import { Ago } from "../../parts/Time"
import { useSearchParams } from "../../url"
import { Typed } from "../executions/Filters"
import { RunDialog } from "../run/RunDialog"

type Pipeline = Schemas["Pipeline"]

const columns = (onRun: (id: string) => void, refused: string | false): Column<Pipeline>[] => [
  { title: "Name", width: "minmax(120px, 1.6fr)", show: (p) => <Link href={`/pipelines/${p.pipeline_id}`} onClick={(e) => e.stopPropagation()} tabIndex={-1}>{p.name}</Link> },
  { title: "Version", width: "96px", show: (p) => <>v{p.active_version || p.version}{p.version !== p.active_version && <span className="quiet"> of {p.version}</span>}{p.draft && <span className="quiet"> draft</span>}</> },
  { title: "Steps", width: "56px", from: 560, show: (p) => p.step_count },
  { title: "Description", width: "minmax(120px, 3fr)", from: 760, show: (p) => <span title={p.description}>{p.description || <span className="quiet">–</span>}</span> },
  { title: "Changed", width: "90px", from: 560, show: (p) => <Ago time={p.updated_at} /> },
  { title: "By", width: "minmax(80px, 0.7fr)", from: 980, show: (p) => p.created_by ?? <span className="quiet">–</span> },
  { title: "Run", width: "72px", show: (p) => <Button kind="bare" refused={refused || (p.archived && "it is archived")} aria-label={`Run ${p.name}`} onClick={(e) => { e.stopPropagation(); onRun(p.pipeline_id) }}>▷ Run</Button> },
]

export default function Pipelines() {
  const [search, set] = useSearchParams()
  const [, navigate] = useLocation()
  const [run, setRun] = useState<string>()
  const noRun = useRefusal("operator")
  const noEdit = useRefusal("editor")
  const archived = search.archived === "true" ? "true" : "false"
  const list = usePages(["pipelines", "list", archived], async (cursor, signal) => {
    const page = await data(api.GET("/api/v1/pipelines", { params: { query: { archived, cursor, limit: 500 } }, signal }))
    return { rows: page.pipelines, next: page.next_cursor }
  }, { id: (p) => p.pipeline_id })
  useKeys([{ keys: "n", does: "New pipeline", act: () => { if (!noEdit) navigate("/pipelines/new") } }])
  const wanted = (search.q ?? "").toLowerCase()
  const rows = (list.rows ?? []).filter((p) => !wanted || p.name.toLowerCase().includes(wanted) || p.description.toLowerCase().includes(wanted))
  return (
    <div className="screen" data-full>
      <header>
        <h1>Pipelines</h1>
        <Link className="button" href="/pipelines/templates">Templates</Link>
        <Button kind="main" refused={noEdit} onClick={() => navigate("/pipelines/new")}>New pipeline</Button>
      </header>
      <div className="row" role="search" aria-label="Filter pipelines">
        <Typed label="Text" placeholder="Name or description" value={search.q ?? ""} onChange={(q) => set({ q })} filter width={240} />
        <button type="button" className="chip" aria-pressed={archived === "true"} onClick={() => set({ archived: archived === "true" ? "" : "true" })}>archived</button>
        {wanted && list.more && <span className="quiet">Looked at the first {list.rows?.length.toLocaleString("en-US")}. <Button kind="bare" onClick={list.onEnd}>Look further</Button></span>}
      </div>
      <Loaded of={list.first} lines={8}>
        {() => rows.length > 0 ? (
          <div className="fill"><Rows label="Pipelines" rows={rows} columns={columns(setRun, noRun)} keyOf={(p) => p.pipeline_id} onOpen={(p) => navigate(`/pipelines/${p.pipeline_id}`)} onEnd={wanted ? undefined : list.onEnd} onView={list.onView} rowHeight={36} /></div>
        ) : (
          <div className="empty">
            <h2>{wanted || archived === "true" ? "No pipeline matches" : "No pipeline is stored yet"}</h2>
            <p>A stored pipeline has versions, and schedules and triggers can start it.</p>
            {!wanted && archived === "false" && <><div className="actions"><Button kind="main" refused={noEdit} onClick={() => navigate("/pipelines/new")}>New pipeline</Button><Link className="button" href="/pipelines/templates">Begin with a template</Link></div><pre>stepwell pipelines create FILE</pre></>}
          </div>
        )}
      </Loaded>
      {run && <RunDialog pipeline={run} onClose={() => setRun(undefined)} />}
    </div>
  )
}
