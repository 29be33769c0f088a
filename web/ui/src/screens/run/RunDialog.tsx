import { useRef, useState } from "react"
import { useLocation } from "wouter"
import { api, data, useAsk, useDo } from "../../api/client"
import { valuesOf } from "../../document/params"
import { useRefusal } from "../../me"
import { Dialog } from "../../parts/Dialog"
import { AreaField, TextField } from "../../parts/Fields"
import { Loaded } from "../../parts/Loading"
import { usePipelines } from "./names"
import { ParamsForm } from "./ParamsForm"
import { useParameters } from "./useParameters"

interface Props {
  /** The id of a stored pipeline; left out, one is chosen or a document pasted. */
  pipeline?: string
  version?: number
  /** A document to begin with. */
  document?: string
  onClose: () => void
}

/** RunDialog starts an execution: of a stored pipeline, or of a document that was pasted. */
export function RunDialog({ pipeline, version, document: given, onClose }: Props) {
  const [how, setHow] = useState<"stored" | "pasted">(given === undefined ? "stored" : "pasted")
  const [picked, setPicked] = useState(pipeline ?? "")
  const [text, setText] = useState(given ?? "")
  const [texts, setTexts] = useState<Record<string, string>>({})
  const [tried, setTried] = useState(false)
  const [, navigate] = useLocation()
  const noRun = useRefusal("operator")
  const noPaste = useRefusal("editor")

  const list = usePipelines(!pipeline)
  const known = list.data?.pipelines.find((p) => p.pipeline_id === picked || p.name === picked)
  const id = pipeline ?? known?.pipeline_id
  const stored = useAsk(["pipelines", id, "version", version ?? known?.active_version ?? "active"], async () => {
    const n = version ?? known?.active_version ?? (await data(api.GET("/api/v1/pipelines/{pipeline_id}", { params: { path: { pipeline_id: id! } } }))).active_version
    return data(api.GET("/api/v1/pipelines/{pipeline_id}/versions/{version}", { params: { path: { pipeline_id: id!, version: n } } }))
  }, { enabled: how === "stored" && Boolean(id) })

  const source = how === "pasted" ? text : (stored.data?.document ?? "")
  const { params, unread } = useParameters(source, how === "pasted" ? 200 : 0)
  const { values, problems } = valuesOf(params, texts)
  // The same attempt sent twice starts one execution; one that was refused is followed by another.
  const key = useRef(crypto.randomUUID())
  const start = useDo(() => data(api.POST("/api/v1/execute", {
    params: { header: { "Idempotency-Key": key.current } },
    body: how === "pasted" ? { workflow_definition: text, params: values } : { workflow_id: id!, workflow_version: version, params: values },
  })), [["executions"], ["stats"]])

  const refused = noRun || (how === "pasted" && noPaste) || (how === "pasted" ? !text.trim() && "paste a pipeline first" : !id ? "choose a pipeline first" : !stored.data && "its parameters are being read")
  const go = () => {
    setTried(true)
    if (Object.keys(problems).length === 0) start.mutate(undefined, { onSuccess: (x) => { onClose(); navigate(`/executions/${x.execution_id}`) }, onError: (p) => { if (p.status !== 0) key.current = crypto.randomUUID() } })
  }
  return (
    <Dialog title={pipeline ? `Run ${stored.data?.name ?? "pipeline"}${stored.data ? ` v${stored.data.version}` : ""}` : "Run a pipeline"} does="Run" refused={refused} busy={start.isPending} problem={start.error} onClose={onClose} onDo={go}>
      {!pipeline && (
        <div className="tabs" role="tablist" aria-label="What to run">
          <button type="button" role="tab" aria-selected={how === "stored"} onClick={() => setHow("stored")}>Stored pipeline</button>
          <button type="button" role="tab" aria-selected={how === "pasted"} onClick={() => setHow("pasted")}>Paste YAML or JSON</button>
        </div>
      )}
      {how === "stored" && !pipeline && (
        <Loaded of={list} lines={1}>
          {({ pipelines }) => <TextField label="Pipeline" value={picked} onChange={(v) => { setPicked(v); setTexts({}) }} choices={pipelines.map((p) => p.name)} autoFocus problem={picked && !known && pipelines.length < 500 ? "there is no pipeline of this name" : false} hint={pipelines.length === 0 ? "none is stored yet: paste one" : `${pipelines.length} are stored`} />}
        </Loaded>
      )}
      {how === "pasted" && <AreaField label="Document" value={text} onChange={setText} rows={10} autoFocus placeholder={"name: hello\nsteps:\n  - id: greet\n    action: util.log\n    params: {message: Hello}"} problem={unread && text.trim() ? unread : false} hint={noPaste || "runs once and is not stored"} />}
      {how === "stored" && id && !stored.data ? <Loaded of={stored} lines={2}>{() => null}</Loaded> : source.trim() !== "" && <ParamsForm params={params} texts={texts} problems={tried ? problems : {}} onChange={setTexts} />}
    </Dialog>
  )
}
