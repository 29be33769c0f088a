import { useQueryClient } from "@tanstack/react-query"
import { useCallback, useEffect, useMemo, useState } from "react"
import { Link } from "wouter"
import { api, data, send, useAsk, type Schemas } from "../../api/client"
import { usePages } from "../../api/pages"
import { decode } from "../../field/columns"
import { formatCount } from "../../format"
import { Button } from "../../parts/Button"
import { PickField, TextField } from "../../parts/Fields"
import { Loaded } from "../../parts/Loading"
import { ProblemBox } from "../../parts/Problem"
import { StateMark } from "../../parts/State"
import { Ago } from "../../parts/Time"
import { ended } from "../../states"
import { useSearchParams } from "../../url"
import { counted } from "../execution/flow"
import { follow } from "../execution/follow"
import { Choose } from "./Choose"
import { ItemRow } from "./Item"
import "./map.css"
import { MapCanvas } from "./MapCanvas"
import { parseBox, place, type Box, type Footprints, type Kind } from "./projection"

type Item = Schemas["FootprintItem"]

/** Map shows where the items of an execution's streams are; without an execution those that have any. */
export default function Map() {
  const [search] = useSearchParams()
  if (search.execution) return <Page key={search.execution} id={search.execution} />
  return <Choose />
}

async function load(id: string, signal: AbortSignal): Promise<Footprints> {
  const table = decode(await (await send(`api/v1/executions/${encodeURIComponent(id)}/footprints`, { signal })).arrayBuffer())
  const side = (name: string) => table.column(name) as Float32Array
  return { n: table.header.rows, total: table.header.total, state: table.column("state") as Uint8Array, west: side("west"), south: side("south"), east: side("east"), north: side("north") }
}

/** useFresh asks for the footprints again while the execution runs, never more often than every three seconds. */
function useFresh(id: string, running: boolean) {
  const cache = useQueryClient()
  useEffect(() => {
    if (!running) return
    let timer: ReturnType<typeof setTimeout> | undefined
    const stop = follow(id, { since: "latest", onLink: () => {}, onMessage: (m) => {
      if (m.type === "log") return
      timer ??= setTimeout(() => {
        timer = undefined
        void cache.invalidateQueries({ queryKey: ["map", id] })
      }, m.type === "complete" ? 0 : 3000)
    } })
    return () => { stop(); clearTimeout(timer) }
  }, [id, running, cache])
}

function Page({ id }: { id: string }) {
  const [search, set] = useSearchParams()
  const [choosing, choose] = useState(false)
  const kind: Kind = search.projection === "mercator" ? "mercator" : "equal"
  const centre = search.centre === "180" ? 180 : 0
  const box = useMemo(() => parseBox(search.bbox), [search.bbox])
  const execution = useAsk(["map", id, "execution"], (signal) => data(api.GET("/api/v1/executions/{execution_id}", { params: { path: { execution_id: id } }, signal })))
  const prints = useAsk(["map", id, "footprints"], (signal) => load(id, signal))
  useFresh(id, execution.data !== undefined && !ended(execution.data.status))
  const placed = useMemo(() => prints.data && place(prints.data, kind, centre), [prints.data, kind, centre])
  const failed = useMemo(() => prints.data?.state.reduce((n, s) => n + s, 0) ?? 0, [prints.data])
  const chosen = useCallback((b: Box) => {
    choose(false)
    set({ bbox: b.join(",") }, { push: true })
  }, [set])
  return (
    <div className="map">
      <header>
        <h1><Link href="/map">Map</Link>{execution.data && <> / <Link href={`/executions/${id}/streams`}>{execution.data.pipeline || "(no name)"}</Link></>}</h1>
        {execution.data && <span className="quiet"><Ago time={execution.data.started_at ?? execution.data.created_at} /></span>}
        {prints.data && <span className="row"><StateMark state="completed" /> {formatCount(prints.data.n - failed)} done <StateMark state="failed" /> {formatCount(failed)} failed <span className="quiet" title={`${counted.map} ${counted.streams}`}>of items with a <code>bbox</code></span></span>}
        <span className="grow" />
        <Button aria-pressed={choosing} onClick={() => choose(!choosing)}>Draw a box</Button>
        <PickField label="Projection" value={kind} onChange={(projection) => set({ projection, z: undefined })} choices={[["equal", "Equal area"], ["mercator", "Mercator"]]} />
        <PickField label="Centre" value={String(centre)} onChange={(c) => set({ centre: c, z: undefined })} choices={[["0", "Greenwich"], ["180", "Pacific"]]} />
      </header>
      <Loaded of={prints} lines={8}>{(f) => f.n === 0 ? (
        <div className="empty">
          <h2>There are no footprints</h2>
          <p>No item of this execution with a <code>bbox</code> has come to its end yet, or its streams ran elsewhere, or more than 30 days ago.</p>
        </div>
      ) : (
        <div className="map-split">
          <MapCanvas key={`${kind} ${centre}`} placed={placed!} kind={kind} centre={centre} box={box} choosing={choosing} chosen={chosen} />
          <Side id={id} box={search.bbox} cut={f.total > f.n ? f.total : 0} />
        </div>
      )}</Loaded>
    </div>
  )
}

function Side({ id, box, cut }: { id: string; box?: string; cut: number }) {
  const [, set] = useSearchParams()
  const [typed, type] = useState(box ?? "")
  useEffect(() => type(box ?? ""), [box])
  const bad = typed !== "" && !parseBox(typed)
  return (
    <aside className="map-side" aria-label="Items">
      <form onSubmit={(e) => { e.preventDefault(); if (!bad) set({ bbox: typed || undefined }, { push: true }) }}>
        <TextField label="Box" value={typed} onChange={type} placeholder="west,south,east,north" problem={bad && "four numbers in degrees: 5.5,45,10.5,48"} />
        <Button type="submit" refused={bad && "the box is not one yet"}>Show</Button>
        {box && <Button onClick={() => set({ bbox: undefined }, { push: true })}>Clear</Button>}
      </form>
      {cut > 0 && <p className="note">There are {formatCount(cut)} footprints; not all of them are drawn.</p>}
      {parseBox(box) ? <Items id={id} box={box!} /> : <p className="quiet">Click a place, or draw a box, to see the items there.</p>}
    </aside>
  )
}

function Items({ id, box }: { id: string; box: string }) {
  const list = usePages(["map", id, "items", box], async (cursor, signal) => {
    const got = await data(api.GET("/api/v1/executions/{execution_id}/footprints/items", { params: { path: { execution_id: id }, query: { bbox: box, cursor } }, signal }))
    return { rows: got.items, next: got.next_cursor, total: got.total }
  }, { id: (it: Item) => JSON.stringify([it.collection_id, it.id, it.bbox, it.state]) })
  const total = (list.first.data as { total: number } | undefined)?.total ?? 0
  return (
    <Loaded of={list.first} lines={4}>{() => (
      <>
        <h2>{total === 1 ? "1 item" : `${formatCount(total)} items`}</h2>
        <ul className="map-items">
          {list.rows!.map((it, i) => (
            <li key={i}>
              <ItemRow execution={id} item={it} first={total === 1} />
            </li>
          ))}
        </ul>
        {list.problem && <ProblemBox problem={list.problem} />}
        {list.more && <p><Button onClick={list.onEnd}>More items</Button></p>}
      </>
    )}</Loaded>
  )
}
