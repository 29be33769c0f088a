import { lazy, Suspense, useState, type ReactNode } from "react"
import { Link } from "wouter"
import { api, base, data, useAsk, type Schemas } from "../../api/client"
import { formatCount, formatDuration } from "../../format"
import { useMe, useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { Copyable } from "../../parts/Copy"
import { Loaded } from "../../parts/Loading"
import { StateMark } from "../../parts/State"
import { useApprovals } from "../approvals/decide"
import { Ended } from "./Ended"
import { example } from "./example"
import { NeedsYou, NextFires, Recent } from "./Panels"

const RunDialog = lazy(() => import("../run/RunDialog").then((m) => ({ default: m.RunDialog })))

export default function Home() {
  const [run, setRun] = useState<string | null | undefined>()
  const noRun = useRefusal("operator")
  const counts = useAsk(["stats", "metrics"], (signal) => data(api.GET("/api/v1/metrics", { signal })) as Promise<Schemas["Metrics"]>)
  const recent = useAsk(["executions", "recent"], (signal) => data(api.GET("/api/v1/executions", { params: { query: { limit: 10 } }, signal })))
  return (
    <div className="screen">
      <header>
        <h1>Home</h1>
        <Button kind="main" refused={noRun} onClick={() => setRun(null)}>Run …</Button>
      </header>
      <Loaded of={recent} lines={8}>
        {({ executions }) => executions.length === 0 ? <Begin onRun={setRun} /> : (
          <>
            <Loaded of={counts} lines={2}>{(m) => <Counts of={m} />}</Loaded>
            <div className="cards">
              <NeedsYou />
              <NextFires />
            </div>
            <Ended otherwise="24h" />
            <Recent executions={executions} />
          </>
        )}
      </Loaded>
      {run !== undefined && <Suspense fallback={null}><RunDialog document={run ?? undefined} onClose={() => setRun(undefined)} /></Suspense>}
    </div>
  )
}

type Metrics = Schemas["Metrics"]

function Counts({ of: { executions: x, workflows: w, scheduler: s } }: { of: Metrics }) {
  const waiting = useApprovals().data?.approvals.length
  const tile = (href: string | undefined, number: ReactNode, label: ReactNode) => href ? <Link className="tile" href={href}><b>{number}</b><span>{label}</span></Link> : <div className="tile"><b>{number}</b><span>{label}</span></div>
  return (
    <section className="tiles" aria-label="Counts">
      {tile("/executions?status=running", formatCount(x.running), <><StateMark state="running" /> running</>)}
      {tile("/approvals", waiting ?? "–", <><StateMark state="waiting" /> to decide</>)}
      {tile("/executions?range=24h&status=failed,timed_out", formatCount(x.failed_24h), <><StateMark state="failed" /> failed in 24 h</>)}
      {tile("/executions?range=24h&status=completed,completed_with_failures", formatCount(x.completed_24h), <><StateMark state="completed" /> completed in 24 h</>)}
      {tile(undefined, `${(w.success_rate <= 1 ? w.success_rate * 100 : w.success_rate).toFixed(1)} %`, "succeed")}
      {tile(undefined, formatDuration(w.avg_duration_ms / 1000), "on average")}
      {tile("/schedules", formatCount(s.active_jobs), "active schedules")}
    </section>
  )
}

// What a server without executions shows: three ways to begin.
function Begin({ onRun }: { onRun: (document: string | null) => void }) {
  const me = useMe().data
  const noPaste = useRefusal("editor")
  const key = me && me.kind !== "anonymous" ? ' \\\n  -H "Authorization: Bearer $STEPWELL_KEY"' : ""
  const curl = `curl ${window.location.origin}${base}api/v1/execute${key} \\\n  -H 'Content-Type: application/json' \\\n  -d '{"action_type": "util.wait", "params": {"seconds": 5}}'`
  return (
    <section aria-label="Three ways to begin" className="begin">
      <h2>Nothing has run yet. Three ways to begin:</h2>
      <div className="cards">
        <div className="card"><header><h3>1 · Run an example</h3></header><div className="body"><p>Two branches, a for_each and a step at the end. It takes some seconds and needs nothing else.</p><Button kind="main" refused={noPaste} onClick={() => onRun(example)}>Run the example</Button></div></div>
        <div className="card"><header><h3>2 · Write one</h3></header><div className="body"><p>Paste or type a pipeline in YAML or JSON and run it once.</p><Button refused={noPaste} onClick={() => onRun("")}>Write a pipeline</Button></div></div>
        <div className="card"><header><h3>3 · Call the API</h3></header><div className="body"><p>From a terminal, with this server's address:</p><Copyable text={curl} label="curl command" /></div></div>
      </div>
    </section>
  )
}
