import { keepPreviousData } from "@tanstack/react-query"
import { useMemo, useState } from "react"
import { api, data, useAsk } from "../../api/client"
import { valuesOf } from "../../document/params"
import { formatCount, formatDuration } from "../../format"
import { Dialog } from "../../parts/Dialog"
import { Loaded } from "../../parts/Loading"
import { ParamsForm } from "../run/ParamsForm"
import { useParameters } from "../run/useParameters"
import type { DraftNode } from "./arrange"
import type { Plan } from "./useDraft"

/** PlanDialog shows what a text would do: its steps by level, sizes of lists, and what past executions say about time and cost. */
export function PlanDialog({ text, onClose }: { text: string; onClose: () => void }) {
  const { params } = useParameters(text)
  const [texts, setTexts] = useState<Record<string, string>>({})
  const { values, problems } = valuesOf(params, texts)
  const given = Object.keys(texts).length > 0
  const plan = useAsk(["plan", text, given ? values : null], (signal) => data(api.POST("/api/v1/pipelines/plan", { body: { document: text as never, ...(given ? { params: values } : {}) }, signal })), { placeholderData: keepPreviousData as never })
  return (
    <Dialog title="What would run" wide onClose={onClose}>
      {params.length > 0 && (
        <details>
          <summary>Values of parameters</summary>
          <ParamsForm params={params} texts={texts} problems={given ? problems : {}} onChange={setTexts} />
        </details>
      )}
      <Loaded of={plan} lines={6}>{(p) => <Planned plan={p} />}</Loaded>
    </Dialog>
  )
}

function Planned({ plan }: { plan: Plan }) {
  const levels = useMemo(() => byLevel(plan.graph?.nodes ?? []), [plan])
  const errors = plan.problems.filter((p) => !p.warning)
  const e = plan.estimate
  return (
    <>
      {errors.length > 0 && <ul className="note" data-kind="warn" aria-label="What stands in the way">{errors.slice(0, 20).map((p, i) => <li key={i}>{p.line}:{p.column} {p.message}</li>)}</ul>}
      {e ? (
        <p role="status">
          {e.seconds != null && <><strong>About {formatDuration(e.seconds)}</strong> along the longest way. </>}
          The last {formatCount(e.executions)} that completed took {formatDuration(e.p50_seconds)} (half of them) to {formatDuration(e.p95_seconds)} (95 of 100){e.cost ? `, and cost ${e.cost}` : ""}.
          {e.new.length > 0 && ` They did not have ${e.new.join(", ")}.`}
        </p>
      ) : <p className="quiet" role="status">No execution of a pipeline of this name has completed, so nothing is known about time and cost.</p>}
      {levels.length > 0 && (
        <div className="plan-steps" tabIndex={0} role="region" aria-label="Steps in the order in which they can run">
          <table className="table">
            <thead><tr><th>Level</th><th>Step</th><th>Runs</th><th>After</th><th>If</th><th>Took</th></tr></thead>
            <tbody>
              {levels.map(({ node: n, depth, level }) => (
                <tr key={n.id}>
                  <td>{depth === 0 && level}</td>
                  <td style={{ paddingLeft: 8 + 16 * depth }}><code>{n.step_id ?? n.id}</code></td>
                  <td>{n.action ?? n.pipeline ?? n.kind}{n.kind === "for_each" && ` × ${n.items == null ? "as many as its list has then" : formatCount(n.items)}`}</td>
                  <td>{n.depends_on.map((d) => d.slice(d.lastIndexOf(".") + 1)).join(", ") || "–"}</td>
                  <td className="clip"><code>{n.condition}</code></td>
                  <td>{e?.steps[n.id] === undefined ? "–" : formatDuration(e.steps[n.id])}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {plan.graph?.truncated && <p className="quiet">There are more steps than are shown.</p>}
    </>
  )
}

interface Leveled { node: DraftNode; depth: number; level: number | "end" }

/** byLevel puts nodes in the order of their layers, what is inside of one behind it; handlers come last. */
export function byLevel(nodes: readonly DraftNode[]): Leveled[] {
  const children = new Map<string, DraftNode[]>()
  for (const n of nodes) children.set(n.parent ?? "", [...(children.get(n.parent ?? "") ?? []), n])
  const out: Leveled[] = []
  const add = (parent: string, depth: number) => {
    const list = (children.get(parent) ?? []).toSorted((a, b) => Number(a.kind === "handler") - Number(b.kind === "handler") || a.layer - b.layer || a.pos - b.pos)
    for (const node of list) {
      out.push({ node, depth, level: node.kind === "handler" ? "end" : node.layer + 1 })
      if (depth < 100) add(node.id, depth + 1)
    }
  }
  add("", 0)
  return out
}
