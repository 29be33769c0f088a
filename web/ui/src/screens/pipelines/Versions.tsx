import { api, data, useAsk, useDo, type Schemas } from "../../api/client"
import { usePages } from "../../api/pages"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { PickField } from "../../parts/Fields"
import { Loaded } from "../../parts/Loading"
import { Ago } from "../../parts/Time"
import { complain, say } from "../../parts/Toasts"
import { useSearchParams } from "../../url"
import type { Stored } from "./Pipeline"
import { DiffText, DocumentText } from "./Text"

type Version = Schemas["PipelineVersion"]

/** Versions lists the versions of a pipeline; two of them are compared, one is activated. */
export function Versions({ p, etag }: { p: Stored; etag?: string }) {
  const [search, set] = useSearchParams()
  const noEdit = useRefusal("editor")
  const list = usePages(["pipelines", p.pipeline_id, "versions"], async (cursor, signal) => {
    const page = await data(api.GET("/api/v1/pipelines/{pipeline_id}/versions", { params: { path: { pipeline_id: p.pipeline_id }, query: { cursor, limit: 50 } }, signal }))
    return { rows: page.versions, next: page.next_cursor }
  }, { id: (v) => String(v.version), order: (a, b) => b.version - a.version })
  const change = useDo(({ v, act }: { v: number; act: "activate" | "archive" | "unarchive" }) => {
    const request = { params: { path: { pipeline_id: p.pipeline_id, version: v }, header: etag ? { "If-Match": etag } : {} } }
    return data(act === "activate" ? api.POST("/api/v1/pipelines/{pipeline_id}/versions/{version}/activate", request) : act === "archive" ? api.POST("/api/v1/pipelines/{pipeline_id}/versions/{version}/archive", request) : api.POST("/api/v1/pipelines/{pipeline_id}/versions/{version}/unarchive", request))
  }, [["pipelines"]])
  const go = (v: number, act: "activate" | "archive" | "unarchive", done: string) => change.mutate({ v, act }, { onSuccess: () => say(done), onError: complain })
  const [from, to] = [Number(search.from) || 0, Number(search.to) || 0]
  const shown = Number(search.v) || 0
  return (
    <>
      <Loaded of={list.first} lines={5}>
        {() => (
          <div className="scroll" role="group" aria-label="Versions" tabIndex={0}>
            <table className="table versions">
              <thead><tr><th>Version</th><th>Note</th><th className="wide">Author</th><th>Stored</th><th className="wide">Steps</th><th><span className="hidden-text">What can be done</span></th></tr></thead>
              <tbody>
                {(list.rows ?? []).map((v: Version) => (
                  <tr key={v.version}>
                    <td><strong>v{v.version}</strong>{v.active && " active"}{v.draft && " draft"}{v.status === "archived" && " archived"}</td>
                    <td>{v.note || <span className="quiet">–</span>}</td>
                    <td className="wide">{v.author ?? <span className="quiet">–</span>}</td>
                    <td><Ago time={v.created_at} /></td>
                    <td className="wide">{v.step_count}</td>
                    <td>
                      <div className="row versions-do">
                        <Button aria-label={`Show v${v.version}`} onClick={() => set({ v: String(v.version), from: "", to: "" })}>Text</Button>
                        <Button refused={v.version < 2 && "it is the first"} aria-label={v.version < 2 ? undefined : `What changed in v${v.version}`} onClick={() => set({ from: String(v.version - 1), to: String(v.version), v: "" })}>Changes</Button>
                        <Button refused={noEdit || (v.active && "it is active") || (v.draft && "it is a draft") || (v.status === "archived" && "it is archived")} onClick={() => go(v.version, "activate", `v${v.version} is active.`)}>Activate</Button>
                        {v.status === "archived" ? <Button refused={noEdit} onClick={() => go(v.version, "unarchive", `v${v.version} can be used again.`)}>Unarchive</Button> : <Button refused={noEdit || (v.active && "the active version cannot be archived")} onClick={() => go(v.version, "archive", `v${v.version} is archived.`)}>Archive</Button>}
                      </div>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Loaded>
      {list.more && <div><Button onClick={list.onEnd}>Show older versions</Button></div>}
      {from > 0 && to > 0 && <Diff id={p.pipeline_id} from={from} to={to} newest={p.version} onPick={(change) => set(change)} />}
      {shown > 0 && <OneVersion p={p} version={shown} />}
    </>
  )
}

function OneVersion({ p, version }: { p: Stored; version: number }) {
  const v = useAsk(["pipelines", p.pipeline_id, "version", version], () => data(api.GET("/api/v1/pipelines/{pipeline_id}/versions/{version}", { params: { path: { pipeline_id: p.pipeline_id, version } } })))
  return <section className="card" aria-labelledby="one"><header><h2 id="one">Text of v{version}</h2></header><div className="body"><Loaded of={v}>{(it) => <DocumentText text={it.document ?? ""} label={`Text of ${p.name} v${version}`} />}</Loaded></div></section>
}

function Diff({ id, from, to, newest, onPick }: { id: string; from: number; to: number; newest: number; onPick: (change: { from?: string; to?: string }) => void }) {
  const diff = useAsk(["pipelines", id, "diff", from, to], () => data(api.GET("/api/v1/pipelines/{pipeline_id}/diff", { params: { path: { pipeline_id: id }, query: { from, to } } })))
  const numbers = Array.from({ length: Math.min(newest, 500) }, (_, i) => String(newest - i)).map((n) => [n, `v${n}`] as const)
  const steps = (word: string, sign: string, list: string[]) => list.length > 0 && <div>{sign} {word}: {list.slice(0, 50).map((s) => <code key={s}>{s} </code>)}{list.length > 50 && `and ${list.length - 50} more`}</div>
  return (
    <section className="card" aria-labelledby="diff">
      <header><h2 id="diff">v{from} → v{to}</h2><PickField label="From" value={String(from)} onChange={(v) => onPick({ from: v })} choices={numbers} /><PickField label="To" value={String(to)} onChange={(v) => onPick({ to: v })} choices={numbers} /></header>
      <div className="body">
        <Loaded of={diff}>
          {(d) => (
            <>
              {steps("added", "+", d.added)}{steps("removed", "−", d.removed)}{steps("changed", "±", d.changed)}
              {d.settings && <div>± settings, parameters or outputs changed</div>}
              {d.text ? <DiffText text={d.text} label={`What changed from v${from} to v${to}`} /> : <p className="quiet">The texts are equal.</p>}
            </>
          )}
        </Loaded>
      </div>
    </section>
  )
}
