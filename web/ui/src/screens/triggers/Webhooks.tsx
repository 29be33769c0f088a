import { useState } from "react"
import { Link } from "wouter"
import { api, base, data, useDo, type Schemas } from "../../api/client"
import { usePages } from "../../api/pages"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { Copyable } from "../../parts/Copy"
import { Dialog } from "../../parts/Dialog"
import { AreaField, PickField, TextField } from "../../parts/Fields"
import { Loaded } from "../../parts/Loading"
import { Rows, type Column } from "../../parts/Rows"
import { Ago } from "../../parts/Time"
import { complain, say } from "../../parts/Toasts"
import { useSearchParams } from "../../url"
import { useTargetWords } from "../run/names"
import { callbackOf, noTarget, paramsProblem, TargetFields } from "../run/Target"
import { curlOf } from "./curl"
import { Deliveries, TestCall } from "./Deliveries"

type Webhook = Schemas["Webhook"]

const urlOf = (w: Webhook) => window.location.origin + base.replace(/\/$/, "") + w.path

function Starts({ of }: { of: Webhook }) {
  const words = useTargetWords()
  return of.job_id ? <Link href={`/schedules/${encodeURIComponent(of.job_id)}`} onClick={(e) => e.stopPropagation()}>{of.job_id}</Link> : <>{words(of.callback)}</>
}

const columns: Column<Webhook>[] = [
  { title: "Name", width: "minmax(110px, 1.4fr)", show: (w) => w.name || w.webhook_id },
  { title: "State", width: "84px", show: (w) => (w.enabled ? "enabled" : <span className="quiet">disabled</span>) },
  { title: "Proof", width: "84px", from: 560, show: (w) => w.auth },
  { title: "Starts", width: "minmax(90px, 1fr)", from: 560, show: (w) => <Starts of={w} /> },
  { title: "Called", width: "72px", from: 760, show: (w) => w.trigger_count.toLocaleString("en-US") },
  { title: "Last", width: "96px", show: (w) => (w.last_execution_id ? <Link href={`/executions/${w.last_execution_id}`} onClick={(e) => e.stopPropagation()}><Ago time={w.last_triggered_at} /></Link> : <Ago time={w.last_triggered_at} />) },
  { title: "Trouble", width: "minmax(90px, 1.4fr)", from: 900, show: (w) => (w.last_error ? <span className="bad" title={w.last_error}>{w.last_error}</span> : <span className="quiet">–</span>) },
]

/** Webhooks lists webhooks; the one that is chosen is shown with its address. */
export function Webhooks({ making, onMade }: { making: boolean; onMade: () => void }) {
  const [search, set] = useSearchParams()
  const [secret, setSecret] = useState<{ webhook: Webhook; secret: string }>()
  const list = usePages(["webhooks"], async (cursor, signal) => {
    const page = await data(api.GET("/api/v1/webhooks", { params: { query: { cursor, limit: 200 } }, signal }))
    return { rows: page.webhooks, next: page.next_cursor }
  }, { id: (w) => w.webhook_id })
  const rows = list.rows ?? []
  const chosen = rows.find((w) => w.webhook_id === search.webhook)
  return (
    <>
      {chosen && <OneWebhook w={chosen} onClose={() => set({ webhook: "" })} onSecret={(s) => setSecret({ webhook: chosen, secret: s })} />}
      <Loaded of={list.first} lines={6}>
        {() => rows.length > 0 ? (
          <div className="fill"><Rows label="Webhooks" rows={rows} columns={columns} keyOf={(w) => w.webhook_id} selected={search.webhook} onOpen={(w) => set({ webhook: w.webhook_id })} onEnd={list.onEnd} onView={list.onView} /></div>
        ) : (
          <div className="empty"><h2>There are no webhooks yet</h2><p>A webhook is an address; whoever calls it with its secret starts a pipeline, an action or a schedule.</p></div>
        )}
      </Loaded>
      {making && <NewWebhook onClose={onMade} onMade={(w) => { onMade(); set({ webhook: w.webhook_id }); if (w.secret) setSecret({ webhook: w, secret: w.secret }) }} />}
      {secret && (
        <Dialog title={`The secret of ${secret.webhook.name || secret.webhook.webhook_id}`} onClose={() => setSecret(undefined)}>
          <p><strong>Copy it now: it is not shown again.</strong></p>
          <Copyable text={secret.secret} label="secret" />
        </Dialog>
      )}
    </>
  )
}

function OneWebhook({ w, onClose, onSecret }: { w: Webhook; onClose: () => void; onSecret: (secret: string) => void }) {
  const [open, setOpen] = useState<"rotate" | "delete" | "test">()
  const [grace, setGrace] = useState("3600")
  const noEdit = useRefusal("editor")
  const noTest = useRefusal("operator")
  const path = { path: { webhook_id: w.webhook_id } }
  const toggle = useDo(() => data(api.PUT("/api/v1/webhooks/{webhook_id}", { params: path, body: { enabled: !w.enabled } })), [["webhooks"]])
  const rotate = useDo(() => data(api.POST("/api/v1/webhooks/{webhook_id}/rotate-secret", { params: path, body: { grace_seconds: Number(grace) || 0 } })), [["webhooks"]])
  const remove = useDo(() => data(api.DELETE("/api/v1/webhooks/{webhook_id}", { params: path })), [["webhooks"]])
  const curl = curlOf(w.auth, urlOf(w))
  const name = w.name || w.webhook_id
  return (
    <section className="card" aria-label={`Webhook ${name}`}>
      <header>
        <h2>{name}</h2>
        <Button refused={noTest || (!w.enabled && "it is disabled")} onClick={() => setOpen("test")}>Test …</Button>
        <Button refused={noEdit} busy={toggle.isPending} onClick={() => toggle.mutate(undefined, { onError: complain })}>{w.enabled ? "Disable" : "Enable"}</Button>
        <Button refused={noEdit || (w.auth === "none" && "it has no secret")} onClick={() => setOpen("rotate")}>Rotate secret …</Button>
        <Button kind="danger" refused={noEdit} onClick={() => setOpen("delete")}>Delete …</Button>
        <Button kind="bare" aria-label="Close" onClick={onClose}>✕</Button>
      </header>
      <div className="body" style={{ alignItems: "stretch" }}>
        {w.description && <p>{w.description}</p>}
        <Copyable text={urlOf(w)} label="address" />
        {curl ? <Copyable text={curl} label="curl command" /> : <p className="quiet">Its sender signs each call ({w.auth}): give it the address and the secret.</p>}
        <dl className="facts">
          <dt>Starts</dt><dd><Starts of={w} /></dd>
          {w.allowed_ips?.length ? <><dt>Only from</dt><dd>{w.allowed_ips.join(", ")}</dd></> : null}
          <dt>Called</dt><dd>{w.trigger_count.toLocaleString("en-US")} times, last <Ago time={w.last_triggered_at} /></dd>
          {w.last_error && <><dt>Last trouble</dt><dd className="bad">{w.last_error}</dd></>}
        </dl>
        <Deliveries of={w} />
      </div>
      {open === "test" && <TestCall of={w} onClose={() => setOpen(undefined)} />}
      {open === "rotate" && (
        <Dialog title={`Rotate the secret of ${name}?`} does="Rotate" busy={rotate.isPending} problem={rotate.error} onClose={() => setOpen(undefined)} onDo={() => rotate.mutate(undefined, { onSuccess: (r) => { setOpen(undefined); onSecret(r.secret) } })}>
          <TextField label="The old one stays valid for" value={grace} onChange={setGrace} inputMode="numeric" hint="seconds" problem={!/^\d+$/.test(grace) && "a whole number is needed"} />
        </Dialog>
      )}
      {open === "delete" && (
        <Dialog title={`Delete ${name}?`} does="Delete" danger busy={remove.isPending} problem={remove.error} onClose={() => setOpen(undefined)} onDo={() => remove.mutate(undefined, { onSuccess: () => { say(`Deleted ${name}.`); onClose() } })}>
          <p>Calls of its address are refused from then on. Executions stay.</p>
        </Dialog>
      )}
    </section>
  )
}

const proofs = [["secret", "a secret in a header"], ["hmac", "a signature (HMAC)"], ["github", "GitHub"], ["stripe", "Stripe"], ["none", "nothing: by address only"]] as const

function NewWebhook({ onClose, onMade }: { onClose: () => void; onMade: (w: Schemas["WebhookMade"]) => void }) {
  const [name, setName] = useState("")
  const [auth, setAuth] = useState<Webhook["auth"]>("hmac")
  const [ips, setIPs] = useState("")
  const [description, setDescription] = useState("")
  const [target, setTarget] = useState(noTarget)
  const list = ips.split(/[\s,]+/).filter(Boolean)
  const make = useDo(() => data(api.POST("/api/v1/webhooks", { body: { name: name.trim(), auth, description, callback: callbackOf(target), ...(list.length ? { allowed_ips: list } : {}) } })), [["webhooks"]])
  const refused = !name.trim() ? "a name is needed" : !target.name.trim() ? "say what it starts" : paramsProblem(target) || (auth === "none" && list.length === 0 && "without a proof, addresses are needed")
  return (
    <Dialog title="New webhook" does="Create" wide busy={make.isPending} problem={make.error} refused={refused} onClose={onClose} onDo={() => make.mutate(undefined, { onSuccess: onMade })}>
      <div className="two">
        <TextField label="Name" value={name} onChange={setName} autoFocus required />
        <PickField label="Callers prove themselves by" value={auth} onChange={(v) => setAuth(v as Webhook["auth"])} choices={proofs} />
      </div>
      <TargetFields value={target} onChange={setTarget} />
      <TextField label="Only from addresses" value={ips} onChange={setIPs} hint="IP addresses or ranges, such as 10.0.0.0/8; left empty: from anywhere" />
      <AreaField label="Description" value={description} onChange={setDescription} rows={2} />
    </Dialog>
  )
}
