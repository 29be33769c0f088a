import { useState } from "react"
import { Link } from "wouter"
import { api, data, useDo, type Schemas } from "../../api/client"
import { usePages } from "../../api/pages"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { Dialog } from "../../parts/Dialog"
import { AreaField, TextField } from "../../parts/Fields"
import { Loaded } from "../../parts/Loading"
import { Rows, type Column } from "../../parts/Rows"
import { Ago } from "../../parts/Time"
import { complain, say } from "../../parts/Toasts"
import { useSearchParams } from "../../url"
import { useTargetWords } from "../run/names"
import { callbackOf, noTarget, paramsProblem, TargetFields } from "../run/Target"

type EventTrigger = Schemas["EventTrigger"]

function Starts({ of }: { of: EventTrigger }) {
  const words = useTargetWords()
  return <>{of.job_id ?? words(of.callback)}</>
}

const columns: Column<EventTrigger>[] = [
  { title: "Name", width: "minmax(110px, 1.4fr)", show: (t) => t.name || t.trigger_id },
  { title: "State", width: "84px", show: (t) => (t.enabled ? "enabled" : <span className="quiet">disabled</span>) },
  { title: "Events", width: "minmax(148px, 1fr)", show: (t) => <code>{t.event_type}</code> },
  { title: "Condition", width: "minmax(90px, 1.4fr)", from: 900, show: (t) => <code>{[t.condition, Object.keys(t.filters).length ? JSON.stringify(t.filters) : ""].filter(Boolean).join(" and ") || "–"}</code> },
  { title: "Starts", width: "minmax(90px, 1fr)", from: 560, show: (t) => <Starts of={t} /> },
  { title: "Fired", width: "64px", from: 760, show: (t) => t.trigger_count.toLocaleString("en-US") },
  { title: "Last", width: "96px", from: 560, show: (t) => (t.last_execution_id ? <Link href={`/executions/${t.last_execution_id}`} onClick={(e) => e.stopPropagation()}><Ago time={t.last_triggered_at} /></Link> : <Ago time={t.last_triggered_at} />) },
  { title: "Trouble", width: "minmax(90px, 1fr)", from: 1080, show: (t) => (t.last_error ? <span className="bad" title={t.last_error}>{t.last_error}</span> : <span className="quiet">–</span>) },
]

/** EventTriggers lists event triggers; the one that is chosen can be changed. */
export function EventTriggers({ making, onMade }: { making: boolean; onMade: () => void }) {
  const [search, set] = useSearchParams()
  const list = usePages(["event-triggers"], async (cursor, signal) => {
    const page = await data(api.GET("/api/v1/event-triggers", { params: { query: { cursor, limit: 200 } }, signal }))
    return { rows: page.event_triggers, next: page.next_cursor }
  }, { id: (t) => t.trigger_id })
  const rows = list.rows ?? []
  const chosen = rows.find((t) => t.trigger_id === search.trigger)
  return (
    <>
      {chosen && <OneTrigger t={chosen} onClose={() => set({ trigger: "" })} />}
      <Loaded of={list.first} lines={6}>
        {() => rows.length > 0 ? (
          <div className="fill"><Rows label="Event triggers" rows={rows} columns={columns} keyOf={(t) => t.trigger_id} selected={search.trigger} onOpen={(t) => set({ trigger: t.trigger_id })} onEnd={list.onEnd} onView={list.onView} /></div>
        ) : (
          <div className="empty"><h2>There are no event triggers yet</h2><p>An event trigger starts something for each event whose type matches, such as <code>model.*</code>.</p></div>
        )}
      </Loaded>
      {making && <NewTrigger onClose={onMade} onMade={(t) => { onMade(); set({ trigger: t.trigger_id }) }} />}
    </>
  )
}

function OneTrigger({ t, onClose }: { t: EventTrigger; onClose: () => void }) {
  const [removing, setRemoving] = useState(false)
  const noEdit = useRefusal("editor")
  const path = { path: { trigger_id: t.trigger_id } }
  const toggle = useDo(() => data(api.PUT("/api/v1/event-triggers/{trigger_id}", { params: path, body: { enabled: !t.enabled } })), [["event-triggers"]])
  const remove = useDo(() => data(api.DELETE("/api/v1/event-triggers/{trigger_id}", { params: path })), [["event-triggers"]])
  const name = t.name || t.trigger_id
  return (
    <section className="card" aria-label={`Event trigger ${name}`}>
      <header>
        <h2>{name}</h2>
        <Button refused={noEdit} busy={toggle.isPending} onClick={() => toggle.mutate(undefined, { onError: complain })}>{t.enabled ? "Disable" : "Enable"}</Button>
        <Button kind="danger" refused={noEdit} onClick={() => setRemoving(true)}>Delete …</Button>
        <Button kind="bare" aria-label="Close" onClick={onClose}>✕</Button>
      </header>
      <div className="body">
        {t.description && <p>{t.description}</p>}
        <dl className="facts">
          <dt>Events</dt><dd><code>{t.event_type}</code></dd>
          {Object.keys(t.filters).length > 0 && <><dt>Filters</dt><dd><code>{JSON.stringify(t.filters)}</code></dd></>}
          {t.condition && <><dt>Condition</dt><dd><code>{t.condition}</code></dd></>}
          <dt>Starts</dt><dd><Starts of={t} /></dd>
          <dt>Fired</dt><dd>{t.trigger_count.toLocaleString("en-US")} times, last <Ago time={t.last_triggered_at} /></dd>
          {t.last_error && <><dt>Last trouble</dt><dd className="bad">{t.last_error}</dd></>}
        </dl>
      </div>
      {removing && (
        <Dialog title={`Delete ${name}?`} does="Delete" danger busy={remove.isPending} problem={remove.error} onClose={() => setRemoving(false)} onDo={() => remove.mutate(undefined, { onSuccess: () => { say(`Deleted ${name}.`); onClose() } })}>
          <p>Events start nothing by it from then on. Executions stay.</p>
        </Dialog>
      )}
    </section>
  )
}

function NewTrigger({ onClose, onMade }: { onClose: () => void; onMade: (t: EventTrigger) => void }) {
  const [name, setName] = useState("")
  const [type, setType] = useState("")
  const [filters, setFilters] = useState("")
  const [condition, setCondition] = useState("")
  const [target, setTarget] = useState(noTarget)
  const wrong = paramsProblem({ ...target, params: filters })
  const make = useDo(() => data(api.POST("/api/v1/event-triggers", { body: { name: name.trim(), event_type: type.trim(), callback: callbackOf(target), ...(filters.trim() ? { filters: JSON.parse(filters) as Record<string, unknown> } : {}), ...(condition.trim() ? { condition } : {}) } })), [["event-triggers"]])
  const refused = !name.trim() ? "a name is needed" : !type.trim() ? "say for which events" : !target.name.trim() ? "say what it starts" : wrong || paramsProblem(target)
  return (
    <Dialog title="New event trigger" does="Create" wide busy={make.isPending} problem={make.error} refused={refused} onClose={onClose} onDo={() => make.mutate(undefined, { onSuccess: onMade })}>
      <div className="two">
        <TextField label="Name" value={name} onChange={setName} autoFocus required />
        <TextField label="Event type" value={type} onChange={setType} hint="* any characters, ? one: model.*" required />
      </div>
      <TargetFields value={target} onChange={setTarget} />
      <AreaField label="Filters" value={filters} onChange={setFilters} rows={2} problem={wrong || false} hint='paths of the data and their values: {"model.size": 7}' />
      <TextField label="Condition" value={condition} onChange={setCondition} hint="event.data.p99 > 200" className="input mono" />
    </Dialog>
  )
}
