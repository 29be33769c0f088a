import { memo, useMemo, useState } from "react"
import type { Schemas } from "../../api/client"

/** Piece is something that can be put into a pipeline. */
export interface Piece { id: string; title: string; summary: string; group: string; step: Record<string, unknown> }

/** piecesOf are the actions, modules and pipelines of this server, and the parts of control. */
export function piecesOf(actions: readonly Schemas["Action"][], modules: readonly Schemas["Action"][], pipelines: readonly Schemas["Pipeline"][]): Piece[] {
  const blank = (a: Schemas["Action"]) => Object.fromEntries(a.params.filter((p) => p.required).map((p) => [p.name, p.options?.[0] ?? (p.type === "integer" || p.type === "number" ? (p.min ?? 1) : p.type === "boolean" ? false : p.type === "array" ? [] : p.type === "object" ? {} : "")]))
  const of = (key: "params" | "config", kind: "action" | "module") => (a: Schemas["Action"]): Piece => {
    const values = blank(a)
    return { id: a.type, title: a.type, summary: a.summary, group: kind === "module" ? "Stream modules" : a.type.split(".")[0]!, step: { [kind]: a.type, ...(Object.keys(values).length > 0 ? { [key]: values } : {}) } }
  }
  return [
    { id: "group", title: "group", summary: "Steps that run together", group: "Control", step: { steps: [{ id: "first", action: "util.log", params: { message: "" } }] } },
    { id: "for_each", title: "for_each", summary: "Steps once for each element of a list", group: "Control", step: { for_each: { items: "{{ params.items }}", max_concurrency: 4 }, steps: [{ id: "each", action: "util.log", params: { message: "{{ item }}" } }] } },
    ...actions.map(of("params", "action")),
    ...modules.map(of("config", "module")),
    ...pipelines.map((p) => ({ id: "pipeline " + p.name, title: p.name, summary: p.description || "Run this pipeline as a step", group: "Pipelines", step: { pipeline: p.name } })),
  ]
}

/** Palette lists the pieces; drag one onto the graph, or press Enter on it. */
export const Palette = memo(function Palette({ pieces, onAdd, refused }: { pieces: Piece[]; onAdd: (p: Piece) => void; refused: string | false }) {
  const [query, setQuery] = useState("")
  const groups = useMemo(() => {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean)
    const found = pieces.filter((p) => words.every((w) => (p.title + " " + p.summary).toLowerCase().includes(w)))
    const by = new Map<string, Piece[]>()
    for (const p of found) by.set(p.group, [...(by.get(p.group) ?? []), p])
    return by
  }, [pieces, query])
  return (
    <aside className="pieces" aria-label="Pieces">
      <input className="input" type="search" placeholder="Search actions" aria-label="Search actions" value={query} onChange={(e) => setQuery(e.target.value)} />
      <div className="pieces-list">
        {[...groups].map(([group, list]) => (
          <details key={group} open={query !== "" || group === "Control" || group === "util"}>
            <summary>{group} <span className="quiet">{list.length}</span></summary>
            {list.map((p) => (
              <button
                key={p.id} type="button" draggable={!refused} title={refused || p.summary} aria-disabled={Boolean(refused) || undefined}
                onDragStart={(e) => e.dataTransfer.setData("application/x-stepwell", p.id)} onClick={() => { if (!refused) onAdd(p) }}
              >
                <code>{p.title}</code>
                <small className="quiet clip">{p.summary}</small>
              </button>
            ))}
          </details>
        ))}
        {groups.size === 0 && <p className="quiet">Nothing is called so.</p>}
      </div>
    </aside>
  )
})
