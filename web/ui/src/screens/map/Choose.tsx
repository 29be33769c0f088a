import { Link, useLocation } from "wouter"
import { api, data } from "../../api/client"
import { usePages } from "../../api/pages"
import { shortID } from "../../format"
import { Loaded } from "../../parts/Loading"
import { ProblemBox } from "../../parts/Problem"
import { Button } from "../../parts/Button"
import { Rows, type Column } from "../../parts/Rows"
import { StateWord } from "../../parts/State"
import { Ago, Took, useNow } from "../../parts/Time"
import { useSearchParams } from "../../url"
import { Typed } from "../executions/Filters"
import { newestFirst, type Execution } from "../executions/query"

// How long a server keeps the footprints of an execution.
const kept = 30 * 24 * 3_600_000

const mapOf = (x: Execution) => `/map?execution=${encodeURIComponent(x.execution_id)}`

function Started({ of: x }: { of: Execution }) {
  const now = useNow()
  const gone = x.completed_at ? now - Date.parse(x.completed_at) > kept : false
  return <><Ago time={x.started_at ?? x.created_at} />{gone && <span className="quiet"> · no longer kept</span>}</>
}

const columns: Column<Execution>[] = [
  { title: "State", width: "minmax(clamp(104px, 14vw, 180px), 1.2fr)", show: (x) => <StateWord state={x.status} /> },
  { title: "Pipeline", width: "minmax(110px, 2fr)", show: (x) => <Link href={mapOf(x)} onClick={(e) => e.stopPropagation()} tabIndex={-1}>{x.pipeline || "(no name)"}</Link> },
  { title: "Started", width: "minmax(84px, 1fr)", show: (x) => <Started of={x} /> },
  { title: "Took", width: "76px", from: 560, show: (x) => <Took from={x.started_at} to={x.completed_at} /> },
  { title: "Project", width: "minmax(80px, 1fr)", from: 980, show: (x) => x.project ?? <span className="quiet">–</span> },
  { title: "Trigger", width: "84px", from: 980, show: (x) => x.trigger_type },
  { title: "Id", width: "116px", from: 1080, show: (x) => <code title={x.execution_id}>{shortID(x.execution_id)}</code> },
]

/** Choose lists the executions that a map can show, newest first. */
export function Choose() {
  const [search, set] = useSearchParams()
  const [, navigate] = useLocation()
  const { pipeline } = search
  const list = usePages(["executions", "list", { footprints: true, pipeline }], async (cursor, signal) => {
    const page = await data(api.GET("/api/v1/executions", { params: { query: { footprints: true, pipeline, cursor, limit: 100 } }, signal }))
    return { rows: page.executions, next: page.next_cursor }
  }, { id: (x) => x.execution_id, order: newestFirst })
  const rows = list.rows ?? []
  return (
    <div className="screen" data-full>
      <header>
        <h1>Map</h1>
        {list.rows && <span className="quiet" role="status">{rows.length.toLocaleString("en-US")}{list.more ? "+" : ""} with footprints</span>}
        <Typed label="Pipeline" value={pipeline ?? ""} onChange={(name) => set({ pipeline: name })} filter />
      </header>
      {list.problem && <ProblemBox title="More executions cannot be read" problem={list.problem} again={list.onEnd} />}
      <Loaded of={list.first} lines={12}>
        {() => rows.length > 0 ? (
          <>
            <p className="quiet map-told">Executions whose streams have items with a <code>bbox</code>, from the end of a stream’s first attempt on. Those that an earlier version of Stepwell ran are not listed: the link is in their tab <em>streams</em>.</p>
            <div className="fill">
              <Rows label="Executions with footprints" rows={rows} columns={columns} keyOf={(x) => x.execution_id} onOpen={(x) => navigate(mapOf(x))} onEnd={list.onEnd} onView={list.onView} />
            </div>
          </>
        ) : pipeline ? (
          <div className="empty">
            <h2>No execution of “{pipeline}” has footprints</h2>
            <div className="actions"><Button onClick={() => set({ pipeline: "" })}>Clear filters</Button></div>
          </div>
        ) : (
          <div className="empty">
            <h2>No execution has footprints yet</h2>
            <p>A stream leaves one for each item with a <code>bbox</code>, done or failed, as STAC items have it. This makes some:</p>
            <pre>stepwell run examples/stac/table.yaml</pre>
            <p>An execution is listed when an attempt of its stream has ended. Those that an earlier version of Stepwell ran are not: the link is in their tab <em>streams</em>.</p>
            <div className="actions"><Link className="button" href="/executions">Executions</Link></div>
          </div>
        )}
      </Loaded>
    </div>
  )
}
