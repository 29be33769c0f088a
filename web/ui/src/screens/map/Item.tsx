import { useState } from "react"
import { api, data, useAsk, type Schemas } from "../../api/client"
import { Copyable } from "../../parts/Copy"
import { Loaded } from "../../parts/Loading"
import { StateWord } from "../../parts/State"

type Item = Schemas["FootprintItem"]
type Document = Schemas["FootprintDocument"]

/** ItemRow is an item at a place: what is known of it, and once it is opened the item itself. */
export function ItemRow({ execution, item, first }: { execution: string; item: Item; first: boolean }) {
  const [opened, open] = useState(first)
  const name = item.id ?? "the item"
  return (
    <details open={first} onToggle={(e) => { if (e.currentTarget.open) open(true) }}>
      <summary><StateWord state={item.state} /> <span className="mono clip">{item.id ?? "without an id"}</span></summary>
      {opened && <Copyable text={JSON.stringify(item, null, 2)} label={`Footprint of ${name}`} />}
      {opened && (item.id === undefined ? <p className="quiet">An item without an id cannot be found in a file.</p> : <Whole execution={execution} item={item} id={item.id} />)}
    </details>
  )
}

/** Whole shows an item as its file has it, or where that would be. */
function Whole({ execution, item, id }: { execution: string; item: Item; id: string }) {
  const got = useAsk(["map", execution, "item", item.state, item.collection_id, id], (signal) =>
    data(api.GET("/api/v1/executions/{execution_id}/footprints/item", { params: { path: { execution_id: execution }, query: { item_id: id, collection_id: item.collection_id, state: item.state } }, signal })))
  return <Loaded of={got} lines={3}>{(d) => d.item === undefined ? <Absent of={d} failed={item.state === "failed"} /> : (
    <>
      <p className="quiet">{item.state === "failed" ? "As it was read from" : <>As <span className="mono">{d.step_id}</span> has written it to</>} <span className="mono path">{d.path}</span>, line {d.line}:</p>
      <Copyable text={JSON.stringify(d.item, null, 2)} label={`JSON of ${id}`} />
    </>
  )}</Loaded>
}

function Absent({ of, failed }: { of: Document; failed: boolean }) {
  return (
    <>
      <p className="note">The item itself cannot be shown: streams keep none, and it is not in a file that this server can read.</p>
      <ul className="map-places">
        {of.places.map((p, i) => (
          <li key={i}>
            {p.step_id && <>{failed ? "failed in" : "written by"} <span className="mono">{p.step_id}</span>{p.path ? " · " : ": "}</>}
            {p.path && <><span className="mono path">{p.path}</span>: </>}{p.reason}
          </li>
        ))}
      </ul>
    </>
  )
}
