import { api, data, useAsk, type Schemas } from "../../api/client"
import { AreaField, PickField, TextField } from "../../parts/Fields"
import { usePipelines } from "./names"

/** Target is what a schedule or trigger starts, as it stands in a form. */
export interface Target { type: "workflow" | "action"; name: string; params: string }

export const noTarget: Target = { type: "workflow", name: "", params: "" }

export const targetOf = (c: Schemas["Callback"] | undefined): Target => ({
  type: c?.type === "action" || (c?.action_type && !c.workflow_id) ? "action" : "workflow",
  name: c?.workflow_id ?? c?.action_type ?? "",
  params: c?.params && Object.keys(c.params).length ? JSON.stringify(c.params, null, 2) : "",
})

/** paramsProblem says what is wrong with the parameters of a target, or "". */
export function paramsProblem(t: Target): string {
  if (!t.params.trim()) return ""
  try {
    const v: unknown = JSON.parse(t.params)
    return typeof v === "object" && v !== null && !Array.isArray(v) ? "" : 'an object is needed, such as {"region": "eu"}'
  } catch {
    return 'JSON is needed, such as {"region": "eu"}'
  }
}

/** callbackOf is what is sent to the server; other members of an earlier one are kept by it. */
export const callbackOf = (t: Target): Schemas["Callback"] => ({
  type: t.type,
  ...(t.type === "workflow" ? { workflow_id: t.name.trim() } : { action_type: t.name.trim() }),
  params: t.params.trim() ? (JSON.parse(t.params) as Record<string, unknown>) : {},
})

/** TargetFields ask what is started, with which parameters. */
export function TargetFields({ value, onChange }: { value: Target; onChange: (t: Target) => void }) {
  const pipelines = usePipelines()
  const actions = useAsk(["actions"], () => data(api.GET("/api/v1/actions")), { enabled: value.type === "action", staleTime: 600_000 })
  const choices = value.type === "workflow" ? pipelines.data?.pipelines.map((p) => p.name) : actions.data?.actions.map((a) => a.type)
  return (
    <>
      <div className="two">
        <PickField label="Starts" value={value.type} onChange={(type) => onChange({ ...value, type: type as Target["type"], name: "" })} choices={[["workflow", "a stored pipeline"], ["action", "a single action"]]} />
        <TextField label={value.type === "workflow" ? "Pipeline" : "Action"} value={value.name} onChange={(name) => onChange({ ...value, name })} choices={choices ?? []} hint="name or id" required />
      </div>
      <AreaField label="Parameters" value={value.params} onChange={(params) => onChange({ ...value, params })} rows={3} problem={paramsProblem(value) || false} hint='JSON, such as {"region": "eu"}; left empty: the defaults' />
    </>
  )
}
