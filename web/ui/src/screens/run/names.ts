import { api, data, useAsk, type Schemas } from "../../api/client"

/** usePipelines are the stored pipelines, at most 500, for choosing one and for showing names. */
export const usePipelines = (enabled = true) => useAsk(["pipelines", "names"], (signal) => data(api.GET("/api/v1/pipelines", { params: { query: { limit: 500 } }, signal })), { staleTime: 60_000, enabled })

/** useTargetWords names what a target starts. */
export function useTargetWords(): (c: Pick<Schemas["Callback"], "workflow_id" | "workflow_version" | "action_type"> | undefined) => string {
  const list = usePipelines().data?.pipelines
  return (c) => (list?.find((p) => p.pipeline_id === c?.workflow_id)?.name ?? c?.workflow_id ?? c?.action_type ?? "–") + (c?.workflow_version ? ` v${c.workflow_version}` : "")
}
