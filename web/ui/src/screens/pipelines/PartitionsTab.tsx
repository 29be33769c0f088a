import { useEffect, useMemo, useState } from "react"
import { Link } from "wouter"
import { useKeys } from "../../keys"
import { formatCount } from "../../format"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { Loaded } from "../../parts/Loading"
import { StateMark } from "../../parts/State"
import { Moment } from "../../parts/Time"
import { useSearchParams } from "../../url"
import { MakePartitions } from "./MakePartitions"
import { PartitionGrid } from "./PartitionGrid"
import { keyAt, lookAt, nextIn, partitionStates, placeOf, planOf, valuesAt, type Table } from "./partitions"
import "./partitions.css"
import type { Stored } from "./Pipeline"
import { usePartition, usePartitions } from "./usePartitions"

/** PartitionsTab shows which partitions of a pipeline are done, stale, failed or missing, and makes them. */
export function PartitionsTab({ p }: { p: Stored }) {
  const table = usePartitions(p.pipeline_id)
  return (
    <section className="card" aria-labelledby="partitions">
      <Loaded of={table} lines={8}>{(t) => <Shown p={p} t={t} />}</Loaded>
    </section>
  )
}

function Shown({ p, t }: { p: Stored; t: Table }) {
  const [search, setSearch] = useSearchParams()
  // The arrays of an answer are new each time: the arrangement is not.
  const names = JSON.stringify(t.axes)
  const plan = useMemo(() => planOf(t.axes), [names])
  const [cursor, setCursor] = useState(() => (search.partition ? placeOf(t.axes, search.partition) : nextIn(t.grid, (search.state ?? "").split(","), -1, 1)))
  const [tip, setTip] = useState({ at: -1, x: 0, y: 0 })
  const [making, setMaking] = useState<"some" | "one">()
  const noRun = useRefusal("operator")
  const lit = useMemo(() => (search.state ?? "").split(",").filter((s) => partitionStates.some((known) => known.state === s)), [search.state])
  const at = cursor < t.grid.length ? cursor : -1
  useEffect(() => { // a moment later: somebody who moves over a grid changes no address each time
    const timer = setTimeout(() => { if (at >= 0) setSearch({ partition: keyAt(t.axes, at) }) }, 300)
    return () => clearTimeout(timer)
  }, [at])
  const jump = (by: 1 | -1) => {
    const to = nextIn(t.grid, lit.length ? lit : ["failed"], at, by)
    if (to >= 0) setCursor(to)
  }
  const seek = lit.length ? lit.join(" or ") : "failed"
  useKeys([{ keys: "]", does: `Next ${seek} partition`, act: () => jump(1) }, { keys: "[", does: `Previous ${seek} partition`, act: () => jump(-1) }])
  const toggle = (state: string) => {
    const on = !lit.includes(state)
    setSearch({ state: (on ? [...lit, state] : lit.filter((s) => s !== state)).join(",") || undefined })
    const first = on ? nextIn(t.grid, [state], at, 1) : -1 // it may be out of view
    if (first >= 0) setCursor(first)
  }
  const any = lit.length ? lit.some((s) => t.counts[s]) : Boolean(t.counts.failed)
  const todo = ["missing", "stale", "failed"].reduce((n, s) => n + (t.counts[s] ?? 0), 0)
  return (
    <>
      <header className="row">
        <h2 id="partitions">{formatCount(t.grid.length)} partitions</h2>
        <div className="chips" role="group" aria-label="States that stand out">
          {partitionStates.map(({ state, mark }) => <button key={state} type="button" className="chip" aria-pressed={lit.includes(state)} onClick={() => toggle(state)}><StateMark state={mark} />{formatCount(t.counts[state] ?? 0)} {state}</button>)}
        </div>
        <div className="row">
          <Button onClick={() => jump(-1)} refused={!any && `none is ${seek}`} aria-label={`Previous ${seek}`} title={`Previous ${seek} ([)`}>◀</Button>
          <Button onClick={() => jump(1)} refused={!any && `none is ${seek}`} aria-label={`Next ${seek}`} title={`Next ${seek} (])`}>▶</Button>
        </div>
        <Button kind="main" refused={noRun || (p.archived && "the pipeline is archived") || (todo === 0 && "no partition is missing, stale or failed")} onClick={() => setMaking("some")}>Backfill …</Button>
      </header>
      {t.grid.length === 0 ? <p className="body quiet">There is no partition yet: none is over, or a parameter of <code>settings.partition.by</code> has no values.</p> : (
        <div className="partitions">
          <PartitionGrid table={t} plan={plan} cursor={at} onCursor={setCursor} lit={lit} onHover={(over, x, y) => setTip((old) => (old.at === over ? old : { at: over, x, y }))} />
          <aside aria-label="Partition" aria-live="polite">
            {at < 0 ? <p className="quiet">Choose a partition: arrow keys move, <kbd className="kbd">]</kbd> goes to the next {seek} one.</p> : <One t={t} at={at} refused={noRun || (p.archived && "the pipeline is archived")} onMake={() => setMaking("one")} />}
          </aside>
        </div>
      )}
      {tip.at >= 0 && tip.at < t.grid.length && <Tip key={tip.at} t={t} {...tip} />}
      {making && <MakePartitions table={t} version={p.active_version} one={making === "one" ? at : undefined} lit={lit} onClose={() => setMaking(undefined)} />}
    </>
  )
}

function One({ t, at, refused, onMake }: { t: Table; at: number; refused: string | false; onMake: () => void }) {
  const settled = useSettled(at, 120)
  const one = usePartition(t, at, settled)
  const look = lookAt(t.grid[at]!)
  const values = valuesAt(t.axes, at)
  return (
    <>
      <h3 className="mono">{values.join(" · ")}</h3>
      <dl className="facts">
        <dt>State</dt><dd><span className="state"><StateMark state={look.mark} />{look.state}</span></dd>
        {one.data?.why && <><dt>Why</dt><dd>{one.data.why}</dd></>}
        {one.data?.execution_id && <><dt>{look.state === "running" ? "Made by" : "Last execution"}</dt><dd><Link href={`/executions/${one.data.execution_id}`} className="mono">{one.data.execution_id.slice(0, 13)}…</Link></dd></>}
        {one.data?.version ? <><dt>Version</dt><dd>{one.data.version}</dd></> : null}
        {one.data?.ended_at && <><dt>Ended</dt><dd><Moment time={one.data.ended_at} /></dd></>}
      </dl>
      {one.error && <p className="bad">{one.error.message}</p>}
      <div className="row"><Button refused={refused || (look.state === "running" && "it is being made")} onClick={onMake}>{look.state === "done" ? "Make again …" : "Make …"}</Button></div>
    </>
  )
}

// useSettled says that something has been the same for a while: what somebody only passes is not asked for.
function useSettled(of: unknown, ms: number): boolean {
  const [settled, set] = useState<unknown>()
  useEffect(() => {
    const timer = setTimeout(() => set(() => of), ms)
    return () => clearTimeout(timer)
  }, [of, ms])
  return settled === of
}

function Tip({ t, at, x, y }: { t: Table; at: number; x: number; y: number }) {
  const settled = useSettled(at, 120)
  const one = usePartition(t, at, settled && ["s", "f"].includes(t.grid[at]!))
  const look = lookAt(t.grid[at]!)
  return (
    <div className="p-tip" role="tooltip" style={{ left: Math.max(4, Math.min(x, window.innerWidth - 430)), top: y > window.innerHeight - 80 ? y - 70 : y + 4 }}>
      <b className="mono">{valuesAt(t.axes, at).join(" · ")}</b>: {look.state}{one.data?.why && <><br />{one.data.why}</>}
    </div>
  )
}
