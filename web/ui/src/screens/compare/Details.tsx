import { Link } from "wouter"
import { api, data, useAsk, type Schemas } from "../../api/client"
import { formatCount } from "../../format"
import { Loaded } from "../../parts/Loading"
import { useSearchParams } from "../../url"
import { useDetail, useStep } from "../execution/ask"
import { DiffText } from "../pipelines/Text"
import "../pipelines/pipelines.css"
import { differences, textDiff, type Difference } from "./differences"

const parts = ["outputs", "params", "error", "log"] as const
const mostLines = 1000

/** Details says what differs in one step: parameters, outputs, errors, logs. */
export function Details({ step, a, b }: { step: string; a: string; b: string }) {
  const [search, set] = useSearchParams()
  const shown = parts.find((p) => p === search.part) ?? "outputs"
  const [of, other] = [useStep(a, step), useStep(b, step)]
  return (
    <section className="card compare-step" aria-label={`What differs in ${step}`}>
      <header>
        <h2 className="mono clip">{step}</h2>
        <Link href={`/executions/${a}?step=${encodeURIComponent(step)}`}>Open in A</Link>
        <Link href={`/executions/${b}?step=${encodeURIComponent(step)}`}>Open in B</Link>
        <button type="button" className="button" data-kind="bare" aria-label="Close the step" onClick={() => set({ step: "", part: "" })}>✕</button>
      </header>
      <div className="body">
        <div className="row" role="group" aria-label="What is compared">
          {parts.map((p) => <button key={p} type="button" className="chip" aria-pressed={p === shown} onClick={() => set({ part: p })}>{p}</button>)}
        </div>
        {shown === "log"
          ? <Logs step={step} a={a} b={b} />
          : <Loaded of={of} lines={3}>{(x) => <Loaded of={other} lines={3}>{(y) => <Values a={x?.[shown]} b={y?.[shown]} label={`${shown} of ${step}`} />}</Loaded>}</Loaded>}
      </div>
    </section>
  )
}

const signs = { added: "+", removed: "−", changed: "±" } as const
const most = 2000 // characters of a value
const text = (v: unknown) => {
  const all = v === undefined ? "" : (JSON.stringify(v) ?? "")
  return all.length > most ? `${all.slice(0, most)}…` : all
}

/** Values is a table of what differs between two values. */
export function Values({ a, b, label }: { a: unknown; b: unknown; label: string }) {
  const { list, more } = differences(a ?? undefined, b ?? undefined)
  if (list.length === 0) return <p className="quiet">{a === undefined || a === null ? "Neither has any." : "They are the same."}</p>
  return (
    <div className="scroll" role="group" aria-label={label} tabIndex={0}>
      <table className="table compare-values">
        <thead><tr><th><span className="hidden-text">How</span></th><th>Where</th><th>A</th><th>B</th></tr></thead>
        <tbody>
          {list.map((d: Difference) => (
            <tr key={d.path} data-kind={d.kind}>
              <td><span aria-label={d.kind}>{signs[d.kind]}</span></td>
              <td className="mono">{d.path || "all of it"}</td>
              <td className="mono">{text(d.a)}</td>
              <td className="mono">{text(d.b)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {more && <p className="quiet">They differ in more than these.</p>}
    </div>
  )
}

function Logs({ step, a, b }: { step: string; a: string; b: string }) {
  const ask = (id: string) => data(api.GET("/api/v1/executions/{execution_id}/logs", { params: { path: { execution_id: id }, query: { step_id: step, limit: mostLines } } }))
  const both = useAsk(["compare", a, b, "logs", step], async () => {
    const [x, y] = await Promise.all([ask(a), ask(b)])
    const lines = (logs: { message: string }[]) => logs.map((l) => l.message).join("\n")
    return { cut: x.logs.length === mostLines || y.logs.length === mostLines, lines: [x.logs.length, y.logs.length], diff: textDiff(lines(x.logs), lines(y.logs)) }
  })
  return (
    <Loaded of={both} lines={4}>
      {({ diff, cut, lines }) => (
        <>
          {diff === undefined ? <p className="quiet">The logs have little in common: {formatCount(lines[0]!)} and {formatCount(lines[1]!)} lines.</p>
            : diff === "" ? <p className="quiet">{lines[0] === 0 ? "Neither has lines." : "The lines are the same."}</p>
              : <DiffText text={diff} label={`Lines of ${step} that differ`} />}
          {cut && <p className="quiet">The first {formatCount(mostLines)} lines are compared.</p>}
        </>
      )}
    </Loaded>
  )
}

/** Definitions is how the definitions of two executions differ. */
export function Definitions({ a, b }: { a: string; b: string }) {
  const ask = (id: string) => data(api.GET("/api/v1/executions/{execution_id}/source", { params: { path: { execution_id: id } } }))
  const both = useAsk(["compare", a, b, "definitions"], async () => {
    const [x, y]: Schemas["ExecutionSource"][] = await Promise.all([ask(a), ask(b)])
    return textDiff(x!.document, y!.document)
  })
  return (
    <Loaded of={both} lines={4}>
      {(diff) => diff === undefined ? <p className="quiet">The definitions have little in common.</p> : diff === "" ? <p className="quiet">The texts are equal: pipelines that they run, or defaults of actions, differ.</p> : <DiffText text={diff} label="What differs in the definition" />}
    </Loaded>
  )
}

/** Whole is how the parameters or the outputs of two executions differ. */
export function Whole({ a, b, of }: { a: string; b: string; of: "params" | "result" }) {
  const [one, other] = [useDetail(a), useDetail(b)]
  return <Loaded of={one} lines={3}>{(x) => <Loaded of={other} lines={3}>{(y) => <Values a={x[of]} b={y[of]} label={of === "params" ? "Parameters" : "Outputs"} />}</Loaded>}</Loaded>
}
