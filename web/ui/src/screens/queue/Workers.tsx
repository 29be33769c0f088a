import { useState } from "react"
import { api, data, useAsk, useDo, type Schemas } from "../../api/client"
import { formatCount } from "../../format"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { Dialog } from "../../parts/Dialog"
import { Loaded } from "../../parts/Loading"
import { Rows, type Column } from "../../parts/Rows"
import { Ago } from "../../parts/Time"
import { say } from "../../parts/Toasts"
import { useSearchParams } from "../../url"

type Worker = Schemas["Worker"]

const columns = (onDrain: (w: Worker) => void, refusal: string | false): Column<Worker>[] => [
  { title: "Worker", width: "minmax(120px, 1.6fr)", show: (w) => <>{w.name}{w.local && <span className="quiet"> of this server</span>}</> },
  { title: "State", width: "96px", from: 480, show: (w) => (w.draining ? "◌ draining" : "● takes work") },
  {
    title: "Holds", width: "minmax(90px, 1fr)",
    show: (w) => <span className="progress"><span className="bar" role="img" aria-label={`${w.held} of ${w.concurrency} places taken`}><i style={{ width: `${(100 * w.held) / Math.max(1, w.concurrency)}%`, background: "var(--accent)" }} /></span><span>{formatCount(w.held)}/{formatCount(w.concurrency)}</span></span>,
  },
  { title: "Seen", width: "88px", from: 560, show: (w) => (w.local ? <span className="quiet">–</span> : <Ago time={w.seen_at} />) },
  { title: "Queues", width: "minmax(80px, 1fr)", from: 760, show: (w) => w.queues.join(", ") || <span className="quiet">all</span> },
  { title: "Actions", width: "minmax(100px, 1.6fr)", from: 900, show: (w) => <span title={w.actions.join(", ")}>{w.actions.length > 3 ? `${w.actions.length} actions` : w.actions.join(", ")}</span> },
  { title: "Version", width: "96px", from: 1080, show: (w) => w.version },
  { title: "Drain", width: "84px", show: (w) => <Button refused={refusal || (w.local && "it ends with the server") || (w.draining && "it drains already")} aria-label={refusal || w.local || w.draining ? undefined : `Drain ${w.name}`} onClick={(e) => { e.stopPropagation(); onDrain(w) }}>Drain …</Button> },
]

// One is what a chosen worker can do.
function One({ of: w }: { of: Worker }) {
  return (
    <section className="card" aria-label={`Worker ${w.name}`}>
      <div className="body">
        <dl className="facts">
          <dt>Holds</dt><dd>{formatCount(w.held)} of {formatCount(w.concurrency)} steps</dd>
          <dt>Queues</dt><dd>{w.queues.join(", ") || "all"}</dd>
          <dt>Secrets</dt><dd>{w.secrets ? "it may be given them" : "none: its connection is not encrypted"}</dd>
          <dt>Version</dt><dd>{w.version}</dd>
          <dt>Actions</dt><dd>{w.actions.join(", ")}</dd>
        </dl>
      </div>
    </section>
  )
}

/** Workers lists who runs steps. */
export function Workers() {
  const [search, set] = useSearchParams()
  const [draining, setDraining] = useState<Worker>()
  const refusal = useRefusal("operator")
  const list = useAsk(["workers"], (signal) => data(api.GET("/api/v1/workers", { signal })))
  const plugins = useAsk(["workers", "plugins"], (signal) => data(api.GET("/api/v1/plugins", { signal })))
  const drain = useDo((name: string) => data(api.POST("/api/v1/workers/{name}/drain", { params: { path: { name } } })), [["workers"]])
  return (
    <>
      {plugins.data && plugins.data.plugins.length > 0 && (
        <section className="card" aria-labelledby="plugins">
          <header><h2 id="plugins">Plugins</h2></header>
          <ul className="lines">
            {plugins.data.plugins.map((p) => <li key={p.name}><span className="grow">{p.name} <span className="quiet">{p.version}</span></span><span>{p.state}</span>{p.error && <span className="bad">{p.error}</span>}<span className="quiet">{p.held} held · restarted {p.restarts} times</span></li>)}
          </ul>
        </section>
      )}
      <Loaded of={list} lines={4}>
        {({ workers }) => workers.length > 0 ? (
          <>
            {workers.filter((w) => w.name === search.worker).map((w) => <One key={w.name} of={w} />)}
            <div className="fill"><Rows label="Workers" rows={workers} columns={columns(setDraining, refusal)} keyOf={(w) => w.name} selected={search.worker} onOpen={(w) => set({ worker: search.worker === w.name ? "" : w.name })} rowHeight={36} /></div>
          </>
        ) : (
          <div className="empty"><h2>No worker takes steps</h2><p>Workers in other processes join with <code>stepwell worker</code>.</p></div>
        )}
      </Loaded>
      {draining && (
        <Dialog title={`Drain ${draining.name}?`} does="Drain" busy={drain.isPending} problem={drain.error} onClose={() => setDraining(undefined)} onDo={() => drain.mutate(draining.name, { onSuccess: () => { say(`${draining.name} finishes what it holds, and ends.`); setDraining(undefined) } })}>
          <p>It finishes what it holds ({formatCount(draining.held)} {draining.held === 1 ? "step" : "steps"}), takes nothing else, and its process ends.</p>
        </Dialog>
      )}
    </>
  )
}
