import { useState } from "react"
import { api, data, useAsk, useDo, type Schemas } from "../../api/client"
import { Button } from "../../parts/Button"
import { Dialog } from "../../parts/Dialog"
import { TextField } from "../../parts/Fields"
import { Loaded } from "../../parts/Loading"
import { Rows, type Column } from "../../parts/Rows"
import { Ago } from "../../parts/Time"
import { say } from "../../parts/Toasts"

type Secret = Schemas["Secret"]

const columns = (onSet: (s: Secret) => void, onDelete: (s: Secret) => void): Column<Secret>[] => [
  { title: "Name", width: "minmax(110px, 2fr)", show: (s) => <code>{s.name}</code> },
  { title: "Version", width: "72px", from: 560, show: (s) => s.version },
  { title: "Changed", width: "96px", from: 560, show: (s) => <Ago time={s.updated_at} /> },
  { title: "By", width: "minmax(80px, 1fr)", from: 760, show: (s) => s.updated_by ?? <span className="quiet">–</span> },
  { title: "Change", width: "170px", show: (s) => <span className="row" style={{ flexWrap: "nowrap" }}><Button aria-label={`Set ${s.name}`} onClick={(e) => { e.stopPropagation(); onSet(s) }}>Set …</Button><Button kind="danger" aria-label={`Delete ${s.name}`} onClick={(e) => { e.stopPropagation(); onDelete(s) }}>Delete …</Button></span> },
]

/** Secrets lists names of secrets; their values never reach the page. */
export function Secrets() {
  const [setting, setSetting] = useState<string>()
  const [removing, setRemoving] = useState<Secret>()
  const list = useAsk(["secrets"], (signal) => data(api.GET("/api/v1/secrets", { signal })))
  const remove = useDo((name: string) => data(api.DELETE("/api/v1/secrets/{name}", { params: { path: { name } } })), [["secrets"]])
  return (
    <>
      <div className="row"><span className="quiet">Steps read them as <code>{"{{ secrets.NAME }}"}</code>. Values are never shown.</span><Button kind="main" onClick={() => setSetting("")}>New secret …</Button></div>
      <Loaded of={list} lines={5}>
        {({ secrets }) => secrets.length > 0
          ? <div className="fill"><Rows label="Secrets" rows={secrets} columns={columns((s) => setSetting(s.name), setRemoving)} keyOf={(s) => s.name} onOpen={(s) => setSetting(s.name)} rowHeight={36} /></div>
          : <div className="empty"><h2>There are no secrets yet</h2><p>A secret is a value that steps use and nobody sees.</p><pre>stepwell secrets set github_token</pre></div>}
      </Loaded>
      {setting !== undefined && <SetSecret name={setting} onClose={() => setSetting(undefined)} />}
      {removing && (
        <Dialog title={`Delete ${removing.name}?`} does="Delete" danger busy={remove.isPending} problem={remove.error} onClose={() => setRemoving(undefined)} onDo={() => remove.mutate(removing.name, { onSuccess: () => { say(`Deleted ${removing.name}.`); setRemoving(undefined) } })}>
          <p>Steps that use it fail from then on.</p>
        </Dialog>
      )}
    </>
  )
}

function SetSecret({ name: given, onClose }: { name: string; onClose: () => void }) {
  const [name, setName] = useState(given)
  const [value, setValue] = useState("")
  const set = useDo(() => data(api.PUT("/api/v1/secrets/{name}", { params: { path: { name: name.trim() } }, body: { value } })), [["secrets"]])
  const refused = !name.trim() ? "a name is needed" : new TextEncoder().encode(value).length < 4 && "a value has four bytes at least"
  return (
    <Dialog title={given ? `Set ${given}` : "New secret"} does="Set" busy={set.isPending} problem={set.error} refused={refused} onClose={onClose} onDo={() => set.mutate(undefined, { onSuccess: () => { setValue(""); say(`Set ${name.trim()}.`); onClose() } })}>
      {!given && <TextField label="Name" value={name} onChange={setName} autoFocus required />}
      <TextField label="Value" type="password" autoComplete="new-password" value={value} onChange={setValue} autoFocus={Boolean(given)} required hint="sealed in the database; it cannot be read again" />
    </Dialog>
  )
}
