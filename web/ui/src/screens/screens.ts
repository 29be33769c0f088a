// The table of screens: paths, names and how their code is loaded. A screen that is not here cannot be reached.
import type { ComponentType } from "react"

/** Params are the words of an address that its screen's path names. */
export type Params = Record<string, string | undefined>

export interface Screen {
  path: string
  title: string
  /** Where it stands in the rail; left out: it is reached from another screen. */
  rail?: { icon: string; key: string; role?: "operator" | "editor" | "admin" }
  /** What the screen asks the API at once: the page that the server gives has the answers. They are taken by a request with exactly this
   * address. */
  asks?: string[]
  /** What it asks besides where its :tab? is of such a name. Words that begin with a colon are those of the address; one with a query
   * asks for something else. */
  tabAsks?: Record<string, string[]>
  /** Its code may begin to ask for what its first picture shows before it is drawn (soon). */
  load: () => Promise<{ default: ComponentType<{ params: Params }>; soon?: (params: Params) => Promise<unknown> }>
}

// The first path that fits counts: those with fixed words stand before those without.
export const screens: Screen[] = [
  { path: "/", title: "Home", rail: { icon: "⌂", key: "h" }, asks: ["executions?limit=10", "metrics", "stats/executions?bucket=hour"], load: () => import("./home/Home") },
  { path: "/executions", title: "Executions", rail: { icon: "▷", key: "e" }, load: () => import("./executions/Executions") },
  { path: "/executions/:a/compare/:b", title: "Compare", load: () => import("./compare/Compare") },
  { path: "/executions/:id/:tab?", title: "Execution", asks: ["executions/:id?steps=1", "executions/:id/graph"], tabAsks: { "log": ["executions/:id/logs?tail=200"] }, load: () => import("./execution/Execution") },
  { path: "/pipelines", title: "Pipelines", rail: { icon: "⌬", key: "p" }, load: () => import("./pipelines/Pipelines") },
  { path: "/pipelines/templates", title: "Templates", load: () => import("./pipelines/Templates") },
  { path: "/pipelines/new", title: "New pipeline", load: () => import("./editor/Editor") },
  { path: "/pipelines/:id/edit", title: "Edit pipeline", load: () => import("./editor/Editor") },
  { path: "/pipelines/:id/:tab?", title: "Pipeline", load: () => import("./pipelines/Pipeline") },
  { path: "/schedules", title: "Schedules", rail: { icon: "◷", key: "s" }, load: () => import("./schedules/Schedules") },
  { path: "/schedules/:id", title: "Schedule", load: () => import("./schedules/Schedule") },
  { path: "/triggers", title: "Triggers", rail: { icon: "⚡", key: "t" }, load: () => import("./triggers/Triggers") },
  { path: "/queue", title: "Queue", rail: { icon: "≣", key: "q" }, load: () => import("./queue/Queue") },
  { path: "/approvals", title: "Approvals", rail: { icon: "✓", key: "a" }, load: () => import("./approvals/Approvals") },
  { path: "/projects", title: "Projects", rail: { icon: "▤", key: "r" }, load: () => import("./projects/Projects") },
  { path: "/projects/:id", title: "Project", load: () => import("./projects/Project") },
  { path: "/insight", title: "Cost and SLA", rail: { icon: "Σ", key: "c" }, load: () => import("./insight/Insight") },
  { path: "/map", title: "Map", rail: { icon: "⊕", key: "m" }, load: () => import("./map/Map") },
  { path: "/admin", title: "Admin", rail: { icon: "⚙", key: "d" }, load: () => import("./admin/Admin") },
  { path: "/admin/:tab", title: "Admin", load: () => import("./admin/Admin") },
]

/** fits says whether an address is a screen's. */
export function fits(screen: string, path: string): boolean {
  const [words, have] = [screen, path].map((p) => p.split("/").filter(Boolean)) as [string[], string[]]
  return have.length <= words.length && words.every((w, i) => (have[i] === undefined ? w.endsWith("?") : w.startsWith(":") || w === have[i]))
}

/** paramsOf are the words of an address that fits a screen's path. */
export function paramsOf(screen: string, path: string): Params {
  const [words, have] = [screen, path].map((p) => p.split("/").filter(Boolean)) as [string[], string[]]
  return Object.fromEntries(words.flatMap((w, i) => (w.startsWith(":") && have[i] !== undefined ? [[w.slice(1).replace("?", ""), decodeURIComponent(have[i])]] : [])))
}
