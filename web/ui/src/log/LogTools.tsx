import { useEffect, useRef, useState } from "react"
import { formatCount } from "../format"
import { useKeys } from "../keys"
import { Button } from "../parts/Button"
import { complain } from "../parts/Toasts"
import { useSearchParams } from "../url"
import { download } from "./download"
import type { Time } from "./time"
import type { Log } from "./useLog"

const pause = 100 // ms without a key after which is searched; Enter searches at once

/** LogTools are the filters of a log, and what can be done with it. */
export function LogTools({ execution, step, time, log }: { execution: string; step?: string; time?: Time; log: Log }) {
  const [search, setSearch] = useSearchParams()
  const [text, setText] = useState(search.q ?? "")
  const [saving, setSaving] = useState<{ n: number; stop: AbortController } | undefined>()
  const input = useRef<HTMLInputElement>(null)
  useKeys([{ keys: "/", does: "Search in the log", act: () => input.current?.focus() }])
  const sent = useRef(text) // what comes back from the address does not overwrite what has been typed since
  useEffect(() => { if ((search.q ?? "") !== sent.current) { sent.current = search.q ?? ""; setText(sent.current) } }, [search.q])
  const find = (text: string) => { sent.current = text; setSearch({ q: text, line: undefined }) }
  useEffect(() => {
    if (text === sent.current) return
    const timer = setTimeout(() => find(text), pause)
    return () => clearTimeout(timer)
  }, [text, setSearch])
  const flip = (name: "wrap" | "rel" | "rx" | "fields") => setSearch({ [name]: search[name] === "1" ? undefined : "1" })
  const save = async () => {
    const stop = new AbortController()
    setSaving({ n: 0, stop })
    try {
      await download(execution, { step, time, level: search.level }, (n) => setSaving({ n, stop }), stop.signal)
    } catch (err) {
      if (!stop.signal.aborted) complain(err)
    } finally {
      setSaving(undefined)
    }
  }
  const hits = log.part.lines.length
  return (
    <div className="log-tools" role="search">
      <input ref={input} className="input" type="search" placeholder="Search" aria-label="Search in the log" value={text} maxLength={500} onChange={(e) => setText(e.target.value)} onKeyDown={(e) => {
        if (e.key === "Escape") { setText(""); input.current?.blur() }
        if (e.key === "Enter" && text !== sent.current) find(text)
      }} />
      <Button aria-pressed={search.rx === "1"} title="The text is a regular expression (RE2)" aria-label="Regular expression" onClick={() => flip("rx")}>.*</Button>
      <select className="input" aria-label="Level" value={search.level ?? ""} onChange={(e) => setSearch({ level: e.target.value, line: undefined })}>
        <option value="">all levels</option>
        <option value="info">info and above</option>
        <option value="warning">warnings and errors</option>
        <option value="error">errors</option>
      </select>
      <Button aria-pressed={search.wrap === "1"} onClick={() => flip("wrap")}>Wrap</Button>
      <Button aria-pressed={search.rel === "1"} title="Times from the start of the execution" onClick={() => flip("rel")}>+time</Button>
      <Button aria-pressed={search.fields === "1"} title="What comes with the lines besides their text" onClick={() => flip("fields")}>{"{…}"}<span className="hidden-text"> fields</span></Button>
      {saving ? <Button onClick={() => saving.stop.abort()}>{formatCount(saving.n)} lines, stop</Button> : <Button onClick={() => void save()}>Download</Button>}
      <span className="quiet" role="status">{search.q && !log.loading ? `${formatCount(hits)}${log.more ? "+" : ""} ${hits === 1 ? "line" : "lines"}${log.searched ? ` of ${formatCount(log.searched)} searched` : ""}` : ""}</span>
      {!log.connected && <span className="quiet" role="status">not connected, lines follow</span>}
    </div>
  )
}
