import { useEffect, useRef, useState } from "react"
import { api, data, Problem, useAsk, useDo, type Schemas } from "../../api/client"
import { parametersOf, valuesOf, type Parameter } from "../../document/params"
import { formatCount } from "../../format"
import { Dialog } from "../../parts/Dialog"
import { CheckField, TextField } from "../../parts/Fields"
import { say } from "../../parts/Toasts"
import { usePipelines } from "../run/names"
import { ParamsForm } from "../run/ParamsForm"

interface Props { project: string; lesson?: Schemas["Lesson"]; onClose: () => void; onStarted: (run: string) => void }

type Started = Schemas["PipelineRun"] | Schemas["PipelineRunBulk"]

/** StartRuns runs a pipeline for a lesson, or for all lessons of a project. */
export function StartRuns({ project, lesson, onClose, onStarted }: Props) {
  const [name, setName] = useState("")
  const [reuse, setReuse] = useState(false)
  const [params, setParams] = useState<Parameter[]>([])
  const [texts, setTexts] = useState<Record<string, string>>({})
  const [tried, setTried] = useState(false)
  const key = useRef(crypto.randomUUID())
  const list = usePipelines().data?.pipelines
  const p = list?.find((it) => it.name === name || it.pipeline_id === name)
  const version = useAsk(["pipelines", p?.pipeline_id, "version", p?.active_version], () => data(api.GET("/api/v1/pipelines/{pipeline_id}/versions/{version}", { params: { path: { pipeline_id: p!.pipeline_id, version: p!.active_version } } })), { enabled: Boolean(p?.active_version) })
  useEffect(() => {
    let current = true
    parametersOf(version.data?.document ?? "").then((found) => { if (current) setParams(found) }, () => { if (current) setParams([]) })
    return () => { current = false }
  }, [version.data])
  const { values, problems } = valuesOf(params, texts)
  const start = useDo(() => data(api.POST("/api/v1/pipeline-runs", { params: { header: { "Idempotency-Key": key.current } }, body: { ...(lesson ? { lesson_id: lesson.id } : { project_id: project }), pipeline_id: p!.pipeline_id, params: values, reuse } })), [["runs"], ["progress"]])
  const done = ({ data: d }: { data: Started }) => {
    const all = "bulk_id" in d
    say(all ? `Started ${formatCount(d.started)} of ${formatCount(d.lessons)} runs${d.refused ? `; ${formatCount(d.refused)} refused: ${d.refusals[0]?.reason ?? ""}` : ""}.` : "The run is queued.")
    onStarted(all ? "" : d.id)
  }
  const go = () => {
    setTried(true)
    if (Object.keys(problems).length === 0) start.mutate(undefined, { onSuccess: done, onError: (err) => { if (err instanceof Problem && err.status !== 0) key.current = crypto.randomUUID() } })
  }
  return (
    <Dialog title={lesson ? `Run ${lesson.name || lesson.id}` : "Run all lessons"} does="Run" busy={start.isPending} problem={start.error} refused={!p ? "choose a pipeline first" : !version.data && "its parameters are being read"} onClose={onClose} onDo={go}>
      <TextField label="Pipeline" value={name} onChange={setName} choices={(list ?? []).map((it) => it.name)} autoFocus hint="a sequential one (settings: {sequential: true})" problem={name && list && !p && "there is no pipeline of this name"} />
      <CheckField label="Take over results of earlier runs" value={reuse} onChange={setReuse} hint="of the first steps, up to the first that differs" />
      {version.data && <ParamsForm params={params} texts={texts} problems={tried ? problems : {}} onChange={setTexts} />}
    </Dialog>
  )
}
