import { useEffect, useMemo, useState } from "react"
import { useLocation } from "wouter"
import { api, data } from "../../api/client"
import { usePages } from "../../api/pages"
import { useKeys } from "../../keys"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { Loaded } from "../../parts/Loading"
import { ProblemBox } from "../../parts/Problem"
import { Rows } from "../../parts/Rows"
import { useNow } from "../../parts/Time"
import { useSearchParams } from "../../url"
import { RunDialog } from "../run/RunDialog"
import { Chosen } from "./Chosen"
import { withWarnings } from "./columns"
import { Durations } from "./Durations"
import { Filters } from "./Filters"
import { matches, newestFirst, queryOf } from "./query"

const most = 10_000 // rows that a search for a text looks at
const mostPages = 20 // of 5,000 executions each, in which warnings are looked for unasked

export default function Executions() {
  const [search, set] = useSearchParams()
  const [, navigate] = useLocation()
  const [chosen, choose] = useState<ReadonlySet<string>>(new Set())
  const [running, setRunning] = useState(false)
  const noRun = useRefusal("operator")
  const minute = Math.floor(useNow() / 60_000)
  const query = useMemo(() => queryOf(search, minute * 60_000), [search, minute])
  // A range keeps its name as the hours move on: another key would take the list, its focus and its place away every minute.
  const list = usePages(["executions", "list", search.range ? { ...query, from: search.range, own: search.from } : query], async (cursor, signal) => {
    const page = await data(api.GET("/api/v1/executions", { params: { query: { ...query, cursor, limit: 200, warnings: true } }, signal }))
    return { rows: page.executions, next: page.next_cursor }
  }, { id: (x) => x.execution_id, order: newestFirst })
  useEffect(() => { if (search.range) void list.first.refetch({ cancelRefetch: false }) }, [search.range, minute])
  const all = list.rows ?? []
  const rows = useMemo(() => (search.q ? all.filter((x) => matches(x, search.q!)) : all), [all, search.q])
  const picked = useMemo(() => all.filter((x) => chosen.has(x.execution_id)), [all, chosen])
  useKeys([{ keys: "r", does: "Run a pipeline", act: () => { if (!noRun) setRunning(true) } }])
  const end = () => { if (!search.q || all.length < most) list.onEnd() }
  // A text is looked for here, in what is loaded: more is loaded until enough is found.
  useEffect(() => { if (search.q && rows.length < 40) end() }, [search.q, rows.length, all.length])
  // The server looks for warnings in so many executions a page, which may have few of them.
  useEffect(() => { if (search.warned && all.length < 40 && list.pages < mostPages) list.onEnd() }, [search.warned, all.length, list.next])
  const filtered = Object.keys(search).some((k) => k !== "chart")
  return (
    <div className="screen" data-full>
      <header>
        <h1>Executions</h1>
        {list.rows && <span className="quiet" role="status">{rows.length.toLocaleString("en-US")}{list.more ? "+" : ""}{search.q ? ` of ${all.length.toLocaleString("en-US")} looked at` : ""}</span>}
        <Button aria-pressed={search.chart === "1"} onClick={() => set({ chart: search.chart === "1" ? undefined : "1" })}>Durations</Button>
        <Button kind="main" refused={noRun} onClick={() => setRunning(true)}>Run …</Button>
      </header>
      <Filters search={search} set={set} />
      {search.chart === "1" && rows.length > 0 && <Durations rows={rows} more={list.more} onOpen={(id) => navigate(`/executions/${id}`)} onRange={(from, to) => set({ range: "own", from, to })} />}
      {picked.length > 0 && <Chosen rows={picked} onClear={() => choose(new Set())} />}
      {list.problem && <ProblemBox title="More executions cannot be read" problem={list.problem} again={list.onEnd} />}
      <Loaded of={list.first} lines={12}>
        {() => rows.length > 0 ? (
          <div className="fill">
            <Rows label="Executions" rows={rows} columns={withWarnings} keyOf={(x) => x.execution_id} nameOf={(x) => `${x.pipeline} ${x.execution_id}`} onOpen={(x) => navigate(`/executions/${x.execution_id}`)} onEnd={end} onView={list.onView} chosen={chosen} onChoose={choose} />
          </div>
        ) : (
          <div className="empty">
            <h2>{filtered ? "No execution matches" : "There are no executions yet"}</h2>
            <p>{filtered ? "Fewer filters find more." : "Run a stored pipeline, or paste one."}</p>
            <div className="actions">
              {list.more && <Button onClick={list.onEnd}>Look at older ones</Button>}
              {filtered ? <Button onClick={() => set(Object.fromEntries(Object.keys(search).map((k) => [k, ""])))}>Clear filters</Button> : <Button kind="main" refused={noRun} onClick={() => setRunning(true)}>Run …</Button>}
            </div>
            {!filtered && <pre>stepwell run examples/quickstart.yaml</pre>}
          </div>
        )}
      </Loaded>
      {running && <RunDialog onClose={() => setRunning(false)} />}
    </div>
  )
}
