import { useState } from "react"
import { api, data, useDo } from "../../api/client"
import { Dialog } from "../../parts/Dialog"
import { AreaField, CheckField, TextField } from "../../parts/Fields"
import { say } from "../../parts/Toasts"

interface Props {
  /** The pipeline that gets a version; left out, a new one is stored. */
  of?: { id: string; name: string; etag?: string; document: string }
  onClose: () => void
  onMade: (id: string) => void
}

/** NewPipeline stores a pipeline, or the next version of one. */
export function NewPipeline({ of, onClose, onMade }: Props) {
  const [text, setText] = useState(of?.document ?? "")
  const [note, setNote] = useState("")
  const [draft, setDraft] = useState(false)
  const save = useDo(() => of
    ? data(api.PUT("/api/v1/pipelines/{pipeline_id}", { params: { path: { pipeline_id: of.id }, header: of.etag ? { "If-Match": of.etag } : {} }, body: { document: text, note, draft } }))
    : data(api.POST("/api/v1/pipelines", { body: { document: text, note, draft } })), [["pipelines"]])
  return (
    <Dialog title={of ? `New version of ${of.name}` : "New pipeline"} does="Store" wide busy={save.isPending} problem={save.error} refused={!text.trim() && "write or paste a pipeline first"} onClose={onClose} onDo={() => save.mutate(undefined, { onSuccess: (p) => { say(`Stored ${p.name} v${p.version}.`); onMade(p.pipeline_id) } })}>
      <AreaField label="Document" value={text} onChange={setText} rows={18} autoFocus hint="YAML or JSON" placeholder={"name: hello\nsteps:\n  - id: greet\n    action: util.log\n    params: {message: Hello}"} />
      <TextField label="Note" value={note} onChange={setNote} hint="why it is stored; shown with the version" maxLength={1000} />
      <CheckField label="Draft: keep it although it has problems; it is not activated" value={draft} onChange={setDraft} />
    </Dialog>
  )
}
