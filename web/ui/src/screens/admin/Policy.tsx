import { useState } from "react"
import { api, data, queries, useAsk, useDo, type Schemas } from "../../api/client"
import { parseDocument } from "../../document/params"
import { Button } from "../../parts/Button"
import { Dialog } from "../../parts/Dialog"
import { AreaField } from "../../parts/Fields"
import { Loaded } from "../../parts/Loading"
import { say } from "../../parts/Toasts"

type Shown = Schemas["PolicyShown"]

const stored = (p: Shown): Schemas["ActionPolicy"] => ({ ...(p.actions ? { actions: p.actions } : {}), ...(p.roles ? { roles: p.roles } : {}), ...(p.pipelines ? { pipelines: p.pipelines } : {}) })
const written = (p: object) => (Object.keys(p).length === 0 ? "{}" : JSON.stringify(p, null, 2))

/** Policy shows which actions steps may use, and changes what is stored. */
export function Policy() {
  const [editing, setEditing] = useState(false)
  const policy = useAsk(["policy"], async (signal) => {
    const answer = await api.GET("/api/v1/policy", { signal })
    return { p: answer.data!, etag: answer.response.headers.get("ETag") ?? undefined }
  })
  return (
    <Loaded of={policy} lines={6}>
      {({ p, etag }) => (
        <div className="cards">
          <section className="card" aria-labelledby="stored">
            <header><h2 id="stored">Stored by admins</h2>{p.updated_by && <span className="quiet">by {p.updated_by}</span>}<Button onClick={() => setEditing(true)}>Change …</Button></header>
            <div className="body"><pre className="code" tabIndex={0} aria-label="Stored policy">{written(stored(p))}</pre></div>
          </section>
          <section className="card" aria-labelledby="settings">
            <header><h2 id="settings">Of the settings</h2></header>
            <div className="body"><pre className="code" tabIndex={0} aria-label="Policy of the settings">{written(p.settings)}</pre><p className="quiet">Both must allow an action. Without a policy all actions are allowed but <code>util.backup</code>.</p></div>
          </section>
          {editing && <Change text={written(stored(p))} etag={etag} onClose={() => setEditing(false)} />}
        </div>
      )}
    </Loaded>
  )
}

function Change({ text: before, etag: now, onClose }: { text: string; etag?: string; onClose: () => void }) {
  const [text, setText] = useState(before)
  const [etag] = useState(now) // of what is being changed: a newer one must not be overwritten
  const [wrong, setWrong] = useState("")
  const save = useDo((body: Schemas["ActionPolicy"]) => data(api.PUT("/api/v1/policy", { params: { header: etag ? { "If-Match": etag } : {} }, body })), [["policy"]])
  const go = async () => {
    try {
      const body: unknown = (await parseDocument(text)) ?? {}
      if (typeof body !== "object" || Array.isArray(body)) throw new Error("a mapping is needed: actions, roles, pipelines")
      setWrong("")
      save.mutate(body as Schemas["ActionPolicy"], { onSuccess: () => { say("The policy is stored."); onClose() }, onError: () => void queries.invalidateQueries({ queryKey: ["policy"] }) })
    } catch (err) {
      setWrong(err instanceof Error ? err.message.split("\n")[0]! : String(err))
    }
  }
  return (
    <Dialog title="Change the policy" does="Store" wide busy={save.isPending} problem={save.error} onClose={onClose} onDo={() => void go()}>
      <AreaField label="Policy" value={text} onChange={setText} rows={14} autoFocus problem={wrong || false} hint='YAML or JSON: {"actions": {"deny": ["util.exec"]}, "roles": {"editor": {"allow": ["util.*"]}}}' />
    </Dialog>
  )
}
