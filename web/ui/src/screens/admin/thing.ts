// Where the thing of an entry of the audit log is shown. Pure.
import type { Schemas } from "../../api/client"

type Entry = Pick<Schemas["AuditEntry"], "action" | "object">

// By the first word of the action; {} is the object's id.
const places: Record<string, string> = {
  execution: "/executions/{}",
  steps: "/executions/{}",
  pipeline_run: "/executions/{}",
  pipeline: "/pipelines/{}",
  schedule: "/schedules/{}",
  project: "/projects/{}",
  secret: "/admin/secrets",
  key: "/admin/keys",
  policy: "/admin/policy",
  cluster: "/admin/clusters",
  worker: "/queue?worker={}",
}

/** shows says whether a pattern of a screen's path takes a path. */
export function shows(pattern: string, path: string): boolean {
  const [parts, given] = [pattern.split("/"), path.split("/")]
  return given.length <= parts.length && parts.every((p, i) => (given[i] === undefined ? p.endsWith("?") : p.startsWith(":") || p === given[i]))
}

/** placeOf is the address of what an entry is about; undefined: it is gone, or no screen shows it. has says whether there is a screen for a path. */
export function placeOf({ action, object }: Entry, has: (path: string) => boolean): string | undefined {
  const place = places[action.split(".")[0]!]
  const one = place?.includes("{}")
  if (!place || (one && !object) || (one && action.endsWith(".delete"))) return undefined
  const address = place.replace("{}", encodeURIComponent(object))
  return has(address.split("?")[0]!) ? address : undefined
}
