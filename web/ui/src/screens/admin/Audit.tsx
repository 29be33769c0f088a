import { useState, type ReactNode } from "react"
import { Link } from "wouter"
import { api, data, type Schemas } from "../../api/client"
import { usePages } from "../../api/pages"
import { formatMoment } from "../../format"
import { Button } from "../../parts/Button"
import { Dialog } from "../../parts/Dialog"
import { Loaded } from "../../parts/Loading"
import { Rows, type Column } from "../../parts/Rows"
import { Moment } from "../../parts/Time"
import { useSearchParams } from "../../url"
import { Typed } from "../executions/Filters"
import { queryOf, rangeNames } from "../executions/query"
import { screens } from "../screens"
import { placeOf, shows } from "./thing"

type Entry = Schemas["AuditEntry"]

const hasScreen = (path: string) => screens.some((s) => shows(s.path, path))

// Thing is what an entry is about, linked where a screen shows it.
function Thing({ of: e, tabIndex }: { of: Entry; tabIndex?: number }): ReactNode {
  const place = e.result === "ok" ? placeOf(e, hasScreen) : undefined
  if (!e.object) return <span className="quiet">–</span>
  return place ? <Link href={place} tabIndex={tabIndex} title={e.object} onClick={(ev) => ev.stopPropagation()}><code>{e.object}</code></Link> : <code title={e.object}>{e.object}</code>
}

const columns: Column<Entry>[] = [
  { title: "When", width: "150px", show: (e) => <Moment time={e.at} /> },
  { title: "Who", width: "minmax(90px, 1fr)", show: (e) => <>{e.actor} <span className="quiet">{e.role}</span></> },
  { title: "Did", width: "minmax(110px, 1fr)", show: (e) => <code>{e.action}</code> },
  { title: "To", width: "minmax(100px, 1.6fr)", from: 760, show: (e) => <Thing of={e} tabIndex={-1} /> },
  { title: "Result", width: "96px", from: 560, show: (e) => (e.result === "ok" ? "ok" : <span className="bad">{e.result}</span>) },
  { title: "From", width: "116px", from: 1080, show: (e) => e.remote },
]

/** Audit lists who changed what, the newest first. */
export function Audit() {
  const [search, set] = useSearchParams()
  const [shown, setShown] = useState<Entry>()
  const minute = Math.floor(Date.now() / 60_000) * 60_000
  const query = { actor: search.actor, action: search.action, object: search.object, since: search.range ? queryOf({ range: search.range }, minute).from : undefined }
  const list = usePages(["audit", query.actor, query.action, query.object, search.range], async (cursor, signal) => {
    const page = await data(api.GET("/api/v1/audit", { params: { query: { ...query, cursor, limit: 200 } }, signal }))
    return { rows: page.entries, next: page.next_cursor }
  }, { id: (e) => String(e.no), order: (a, b) => b.no - a.no })
  const filtered = Boolean(query.actor || query.action || query.object || query.since)
  return (
    <>
      <div className="row" role="search" aria-label="Filter the audit log">
        <Typed label="Who" value={search.actor ?? ""} onChange={(actor) => set({ actor })} filter width={150} />
        <Typed label="Did" placeholder="Did: key.create" value={search.action ?? ""} onChange={(action) => set({ action })} width={170} />
        <Typed label="To" value={search.object ?? ""} onChange={(object) => set({ object })} width={200} />
        <select className="input" aria-label="When" value={search.range ?? ""} onChange={(e) => set({ range: e.target.value })}>
          {rangeNames.filter(([v]) => v !== "own").map(([v, word]) => <option key={v} value={v}>{word}</option>)}
        </select>
        {filtered && <Button kind="bare" onClick={() => set({ actor: "", action: "", object: "", range: "" })}>Clear filters</Button>}
        <Button onClick={() => void list.first.refetch()}>Refresh</Button>
      </div>
      <Loaded of={list.first} lines={8}>
        {() => (list.rows?.length ?? 0) > 0
          ? <div className="fill"><Rows label="Audit log" rows={list.rows!} columns={columns} keyOf={(e) => String(e.no)} onOpen={setShown} onEnd={list.onEnd} onView={list.onView} /></div>
          : <div className="empty"><h2>{filtered ? "No entry matches" : "Nothing has been changed yet"}</h2>{filtered && <p>Names are matched in full.</p>}</div>}
      </Loaded>
      {shown && (
        <Dialog title={`${shown.actor}: ${shown.action}`} wide onClose={() => setShown(undefined)}>
          <dl className="facts">
            <dt>When</dt><dd>{formatMoment(shown.at ?? "", true)}</dd>
            <dt>Who</dt><dd>{shown.actor}, {shown.role}, from {shown.remote}</dd>
            <dt>To</dt><dd><Thing of={shown} /></dd>
            <dt>Result</dt><dd>{shown.result}</dd>
          </dl>
          {shown.detail != null && <pre className="code" tabIndex={0} aria-label="Detail">{JSON.stringify(shown.detail, null, 2)}</pre>}
        </Dialog>
      )}
    </>
  )
}
