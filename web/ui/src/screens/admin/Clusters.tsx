import { useState } from "react"
import { api, data, useAsk, useDo, type Schemas } from "../../api/client"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { Dialog } from "../../parts/Dialog"
import { AreaField, TextField } from "../../parts/Fields"
import { Loaded } from "../../parts/Loading"
import { Rows, type Column } from "../../parts/Rows"
import { Ago, Moment } from "../../parts/Time"
import { say } from "../../parts/Toasts"

type Cluster = Schemas["Cluster"]

const columns = (onDelete: (c: Cluster) => void, refusal: string | false): Column<Cluster>[] => [
  { title: "Cluster", width: "minmax(100px, 1.2fr)", show: (c) => <>{c.id}{c.default && <span className="quiet"> default</span>}</> },
  { title: "State", width: "96px", show: (c) => <span title={c.error}>{c.state === "ok" ? "✓ ok" : c.state === "failing" ? <span className="bad">✕ failing</span> : "? unknown"}</span> },
  { title: "Server", width: "minmax(120px, 1.6fr)", from: 560, show: (c) => c.server || <span className="quiet">–</span> },
  { title: "Namespace", width: "minmax(90px, 1fr)", from: 760, show: (c) => c.namespace },
  { title: "Version", width: "96px", from: 900, show: (c) => c.version || <span className="quiet">–</span> },
  { title: "Since", width: "88px", from: 760, show: (c) => <Ago time={c.since} /> },
  { title: "Delete", width: "96px", show: (c) => <Button kind="danger" refused={refusal || (c.kind !== "created" && "it is of the settings")} aria-label={refusal || c.kind !== "created" ? undefined : `Delete ${c.id}`} onClick={(e) => { e.stopPropagation(); onDelete(c) }}>Delete …</Button> },
]

/** Clusters lists Kubernetes clusters and how they are. */
export function Clusters() {
  const [making, setMaking] = useState(false)
  const [removing, setRemoving] = useState<Cluster>()
  const [shown, setShown] = useState<Cluster>()
  const refusal = useRefusal("admin")
  const list = useAsk(["clusters"], (signal) => data(api.GET("/api/v1/clusters", { signal })))
  const remove = useDo((id: string) => data(api.DELETE("/api/v1/clusters/{cluster_id}", { params: { path: { cluster_id: id } } })), [["clusters"]])
  return (
    <>
      <div className="row"><span className="quiet">Kubernetes clusters: steps run jobs on them.</span><Button kind="main" refused={refusal} onClick={() => setMaking(true)}>Add a cluster …</Button></div>
      <Loaded of={list} lines={4}>
        {({ clusters }) => clusters.length > 0
          ? <div className="fill"><Rows label="Clusters" rows={clusters} columns={columns(setRemoving, refusal)} keyOf={(c) => c.id} onOpen={setShown} rowHeight={36} /></div>
          : <div className="empty"><h2>There are no clusters</h2><p>Add one with its kubeconfig, or name it in the settings.</p></div>}
      </Loaded>
      {making && <NewCluster onClose={() => setMaking(false)} />}
      {shown && (
        <Dialog title={`Cluster ${shown.id}`} onClose={() => setShown(undefined)}>
          {shown.error && <p className="problem">{shown.error}</p>}
          <dl className="facts">
            <dt>State</dt><dd>{shown.state} since <Moment time={shown.since} /></dd>
            <dt>Server</dt><dd>{shown.server || "not known yet"}{shown.version && `, ${shown.version}`}</dd>
            <dt>Reached by</dt><dd>{shown.kind.replaceAll("_", " ")}{shown.created_by && `, by ${shown.created_by}`}</dd>
            <dt>Namespaces</dt><dd>{[shown.namespace, ...shown.namespaces].join(", ")}</dd>
            <dt>Jobs of nobody</dt><dd>{shown.unknown_jobs.toLocaleString("en-US")}</dd>
          </dl>
        </Dialog>
      )}
      {removing && (
        <Dialog title={`Delete ${removing.id}?`} does="Delete" danger busy={remove.isPending} problem={remove.error} onClose={() => setRemoving(undefined)} onDo={() => remove.mutate(removing.id, { onSuccess: () => { say(`Deleted ${removing.id}.`); setRemoving(undefined) } })}>
          <p>It is refused while a step waits for a job there.</p>
        </Dialog>
      )}
    </>
  )
}

function NewCluster({ onClose }: { onClose: () => void }) {
  const [id, setID] = useState("")
  const [config, setConfig] = useState("")
  const [namespace, setNamespace] = useState("")
  const make = useDo(() => data(api.POST("/api/v1/clusters", { body: { id: id.trim(), kubeconfig: config, ...(namespace.trim() ? { namespace: namespace.trim() } : {}) } })), [["clusters"]])
  return (
    <Dialog title="Add a cluster" does="Add" busy={make.isPending} problem={make.error} refused={!id.trim() ? "an id is needed" : !config.trim() && "its kubeconfig is needed"} onClose={onClose} onDo={() => make.mutate(undefined, { onSuccess: () => { say(`Added ${id.trim()}.`); onClose() } })}>
      <TextField label="Id" value={id} onChange={setID} autoFocus required />
      <TextField label="Namespace" value={namespace} onChange={setNamespace} hint="left empty: that of the kubeconfig" />
      <AreaField label="Kubeconfig" value={config} onChange={setConfig} rows={10} hint="kept sealed; it is not shown again" />
    </Dialog>
  )
}
