import { useEffect, useState } from "react"
import { Link, useLocation } from "wouter"
import { api, data, useAsk } from "../../api/client"
import { Refusal, setKey, Source } from "../../document/edits"
import { valuesOf } from "../../document/params"
import { useKeys } from "../../keys"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { Loaded } from "../../parts/Loading"
import { complain } from "../../parts/Toasts"
import { useSearchParams } from "../../url"
import { dropDraft, findDraft } from "../editor/drafts"
import { Typed } from "../executions/Filters"
import { ParamsForm } from "../run/ParamsForm"
import { useParameters } from "../run/useParameters"
import "./pipelines.css"
import { DocumentText } from "./Text"

/** Templates are pipelines to begin with: one is looked at, gets values, and goes into the editor. */
export default function Templates() {
  const [search, set] = useSearchParams()
  const list = useAsk(["templates"], () => data(api.GET("/api/v1/templates")), { staleTime: 60_000 })
  const words = (search.q ?? "").toLowerCase().split(/\s+/).filter(Boolean)
  const shown = (list.data?.templates ?? []).filter((t) => words.every((w) => `${t.name} ${t.summary}`.toLowerCase().includes(w)))
  const chosen = search.template
  const move = (by: number) => {
    const at = shown.findIndex((t) => t.name === chosen)
    const next = shown[at < 0 ? 0 : Math.max(0, Math.min(shown.length - 1, at + by))]
    if (next) set({ template: next.name })
  }
  useKeys([{ keys: "j", does: "Next template", act: () => move(1) }, { keys: "k", does: "Previous template", act: () => move(-1) }])
  return (
    <div className="screen" data-full>
      <header>
        <h1><Link href="/pipelines">Pipelines</Link> / Templates</h1>
        <Link className="button" href="/pipelines/new">Begin with an empty one</Link>
      </header>
      <div className="row" role="search" aria-label="Filter templates">
        <Typed label="Text" placeholder="Name or what it does" value={search.q ?? ""} onChange={(q) => set({ q })} filter width={240} />
        <span className="quiet" role="status">{list.data && `${shown.length} of ${list.data.templates.length}`}</span>
      </div>
      <Loaded of={list} lines={8}>
        {() => (
          <div className="templates">
            <ul aria-label="Templates">
              {shown.map((t) => (
                <li key={t.name}>
                  <button type="button" aria-pressed={t.name === chosen} onClick={() => set({ template: t.name })}>
                    <strong>{t.name}</strong>{t.origin === "folder" && <span className="quiet"> · of this server</span>}{t.origin === "git" && <span className="quiet" title={t.source}> · git</span>}
                    <small>{t.summary}</small>
                  </button>
                </li>
              ))}
              {shown.length === 0 && <li className="quiet">No template matches.</li>}
              {list.data!.problems.map((p) => <li key={p.source} className="note" data-kind="warn">{p.source}: {p.message}</li>)}
            </ul>
            {chosen ? <Template key={chosen} name={chosen} /> : <p className="empty">Choose one to see what it does. Folders and git repositories of your own: <code>templates</code> in the settings.</p>}
          </div>
        )}
      </Loaded>
    </div>
  )
}

function Template({ name }: { name: string }) {
  const [, navigate] = useLocation()
  const refused = useRefusal("editor")
  const found = useAsk(["templates", name], () => data(api.GET("/api/v1/templates/{name}", { params: { path: { name } } })), { staleTime: 60_000 })
  const text = found.data?.document ?? ""
  const { params } = useParameters(text)
  const [texts, setTexts] = useState<Record<string, string>>({})
  const [unsaved, setUnsaved] = useState(false)
  useEffect(() => { void findDraft("new").then((d) => setUnsaved(d !== undefined)) }, [])
  // A parameter that is left open is asked for at each start.
  const open = params.map((p) => ({ ...p, required: false }))
  const { values, problems } = valuesOf(open, texts)
  const wrong = Object.keys(problems).length > 0
  const use = async () => {
    try {
      sessionStorage.setItem("stepwell.new", filled(text, values))
    } catch (err) {
      return complain(err instanceof Refusal ? `the values cannot be written into this template: ${err.message}` : err)
    }
    await dropDraft("new")
    navigate("/pipelines/new")
  }
  return (
    <section className="card template" aria-label={`Template ${name}`}>
      <header>
        <h2>{name}</h2>
        <Button kind="main" refused={refused || (!found.data && "it is being read") || (wrong && "a value is wrong")} onClick={() => void use()}>Use it</Button>
      </header>
      <Loaded of={found} lines={8}>
        {(t) => (
          <div className="body">
            {unsaved && <p className="note" data-kind="warn">A new pipeline that was not saved is still here, and is replaced. <Link href="/pipelines/new">Look at it</Link></p>}
            {t.problems.length > 0 && <ul className="note" data-kind="warn">{t.problems.map((p, i) => <li key={i}>{p.line}:{p.column} {p.message}</li>)}</ul>}
            {params.length > 0 && <><h3>Values to begin with</h3><ParamsForm params={open} texts={texts} problems={problems} onChange={setTexts} /></>}
            <DocumentText text={t.document} label={`Text of ${name}`} />
          </div>
        )}
      </Loaded>
    </section>
  )
}

/** filled is a document with values as the defaults of its parameters; all else in it stays. */
export function filled(text: string, values: Record<string, unknown>): string {
  for (const [name, value] of Object.entries(values)) {
    const declared = (new Source(text).value() as { parameters?: { name?: string; default?: unknown }[] }).parameters ?? []
    const at = declared.findIndex((p) => p?.name === name)
    if (at >= 0 && JSON.stringify(declared[at]!.default) !== JSON.stringify(value)) text = setKey(text, ["parameters", at, "default"], value).text
  }
  return text
}
