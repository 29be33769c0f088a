import { useState } from "react"
import { api, data, useAsk, useDo, type Schemas } from "../../api/client"
import { Button } from "../../parts/Button"
import { Copyable } from "../../parts/Copy"
import { Dialog } from "../../parts/Dialog"
import { PickField, TextField } from "../../parts/Fields"
import { Loaded } from "../../parts/Loading"
import { Rows, type Column } from "../../parts/Rows"
import { Ago, Moment } from "../../parts/Time"
import { say } from "../../parts/Toasts"

type Key = Schemas["Key"]

const ended = (k: Key) => (k.revoked_at ? "revoked" : k.expires_at && Date.parse(k.expires_at) < Date.now() ? "expired" : "")

interface Ending { key: Key; does: "Revoke" | "Delete" }

// A key is revoked first, then it can be deleted: who used it is known until then.
const endOf = (key: Key): Ending => ({ key, does: ended(key) ? "Delete" : "Revoke" })

const columns = (onEnd: (e: Ending) => void): Column<Key>[] => [
  { title: "Name", width: "minmax(100px, 1.5fr)", show: (k) => k.name },
  { title: "Role", width: "84px", show: (k) => k.role },
  { title: "State", width: "84px", from: 480, show: (k) => ended(k) || "valid" },
  { title: "Last used", width: "96px", from: 560, show: (k) => (k.last_used_at ? <Ago time={k.last_used_at} /> : <span className="quiet">never</span>) },
  { title: "Expires", width: "150px", from: 900, show: (k) => (k.expires_at ? <Moment time={k.expires_at} /> : <span className="quiet">never</span>) },
  { title: "Made", width: "minmax(110px, 1fr)", from: 760, show: (k) => <><Ago time={k.created_at} />{k.created_by && <span className="quiet"> by {k.created_by}</span>}</> },
  { title: "End", width: "92px", show: (k) => <Button kind="danger" aria-label={`${endOf(k).does} ${k.name}`} onClick={() => onEnd(endOf(k))}>{endOf(k).does} …</Button> },
]

const roles = [["viewer", "viewer: reads"], ["operator", "operator: starts, stops, decides"], ["editor", "editor: pipelines, schedules, triggers"], ["admin", "admin: everything"], ["worker", "worker: runs steps"]] as const

/** Keys lists API keys. A token is shown once, when its key is made. */
export function Keys() {
  const [making, setMaking] = useState(false)
  const [made, setMade] = useState<Schemas["KeyMade"]>()
  const [ending, setEnding] = useState<Ending>()
  const list = useAsk(["keys"], (signal) => data(api.GET("/api/v1/keys", { signal })))
  const end = useDo(({ key, does }: Ending): Promise<unknown> => {
    const path = { params: { path: { key_id: key.key_id } } }
    return does === "Revoke" ? data(api.POST("/api/v1/keys/{key_id}/revoke", path)) : data(api.DELETE("/api/v1/keys/{key_id}", path))
  }, [["keys"]])
  return (
    <>
      <div className="row"><span className="quiet">Programs send them as <code>Authorization: Bearer</code>. With the first key, every request needs one.</span><Button kind="main" onClick={() => setMaking(true)}>New key …</Button></div>
      <Loaded of={list} lines={5}>
        {({ keys }) => keys.length > 0
          ? <div className="fill"><Rows label="API keys" rows={keys} columns={columns(setEnding)} keyOf={(k) => k.key_id} onOpen={() => {}} rowHeight={36} /></div>
          : <div className="empty"><h2>There are no API keys yet</h2><p>Until there is one, everybody at this machine is an admin, and others are rejected.</p></div>}
      </Loaded>
      {making && <NewKey onClose={() => setMaking(false)} onMade={(k) => { setMaking(false); setMade(k) }} />}
      {made && (
        <Dialog title={`Created API key ${made.name}`} onClose={() => setMade(undefined)}>
          <p><strong>Copy it now: it is not shown again.</strong></p>
          <Copyable text={made.token} label="token" />
          {made.refused?.length ? <p className="note" data-kind="warn">From now on these cannot start: {made.refused.slice(0, 5).map((r) => `${r.name}: ${r.reason}`).join("; ")}</p> : null}
        </Dialog>
      )}
      {ending && (
        <Dialog title={`${ending.does} ${ending.key.name}?`} does={ending.does} danger busy={end.isPending} problem={end.error} onClose={() => { end.reset(); setEnding(undefined) }} onDo={() => end.mutate(ending, { onSuccess: () => { say(`${ending.does}d ${ending.key.name}.`); setEnding(undefined) } })}>
          <p>{ending.does === "Revoke" ? "Requests with it are rejected from then on. It stays in the list." : "It is removed from the list. The audit log keeps what was done with it."}</p>
        </Dialog>
      )}
    </>
  )
}

function NewKey({ onClose, onMade }: { onClose: () => void; onMade: (k: Schemas["KeyMade"]) => void }) {
  const [name, setName] = useState("")
  const [role, setRole] = useState<Key["role"]>("operator")
  const [days, setDays] = useState("")
  const make = useDo(() => data(api.POST("/api/v1/keys", { body: { name: name.trim(), role, ...(days.trim() ? { expires_at: new Date(Date.now() + Number(days) * 86_400_000).toISOString() } : {}) } })), [["keys"]])
  const wrong = days.trim() && !/^[1-9]\d{0,4}$/.test(days.trim()) ? "a whole number of days is needed" : ""
  return (
    <Dialog title="New API key" does="Create" busy={make.isPending} problem={make.error} refused={!name.trim() ? "a name is needed" : wrong} onClose={onClose} onDo={() => make.mutate(undefined, { onSuccess: onMade })}>
      <TextField label="Name" value={name} onChange={setName} autoFocus required />
      <PickField label="Role" value={role} onChange={(v) => setRole(v as Key["role"])} choices={roles} />
      <TextField label="Expires after" value={days} onChange={setDays} inputMode="numeric" hint="days; left empty: never" problem={wrong || false} />
    </Dialog>
  )
}
