// Live updates of lists: one stream of server-sent events (/stream). Rows that a list shows are patched in the cache;
// what a message may have added to or taken from a list makes it stale, once a second at most. Nothing polls. Tabs of one browser share
// a stream where the browser has locks: the one that holds the lock reads it and tells the others.
import { useSyncExternalStore } from "react"
import { address, base, queries, version } from "./client"
import { patch, type Change } from "./patch"

interface Live {
  connected: boolean
  since: number
  off: boolean
  /** The server's version, where it is another than the page's. */
  upgraded?: string
}

type Message = { kind: "state"; live: Live } | { kind: "hello"; resumed: boolean } | { kind: "change"; of: string; change: Change } | { kind: "who" }

let state: Live = { connected: false, since: Date.now(), off: true }
const listeners = new Set<() => void>()
const set = (next: Live) => { state = next; listeners.forEach((l) => l()) }

/** useLive says whether the page hears of what happens. */
export const useLive = () => useSyncExternalStore((l) => { listeners.add(l); return () => listeners.delete(l) }, () => state)

// The first parts of cache keys that a message makes stale.
const stale: Record<string, string[]> = {
  executions: ["executions", "stats", "runs", "progress", "queues"],
  approvals: ["approvals"],
  schedules: ["schedules", "fires"],
  workers: ["workers"],
  queues: ["queues"],
  projects: ["projects"],
}
const all = [...new Set(Object.values(stale).flat()), "partitions"] // whose page reads them at a pace of its own

const watchers = new Set<(of: string, change: Change) => void>()

/** watch tells of every change that comes, until the returned function is called. */
export function watch(told: (of: string, change: Change) => void): () => void {
  watchers.add(told)
  return () => { watchers.delete(told) }
}

const due = new Set<string>()
let timer: ReturnType<typeof setTimeout> | undefined
let last = 0
function invalidate(keys: string[]) {
  for (const key of keys) due.add(key)
  timer ??= setTimeout(() => {
    timer = undefined
    last = Date.now()
    for (const key of due) void queries.invalidateQueries({ queryKey: [key] }, { cancelRefetch: false })
    due.clear()
  }, Math.max(0, last + 1_000 - Date.now()))
}

function take(m: Message) {
  if (m.kind === "state") set(m.live)
  else if (m.kind === "hello" && !m.resumed) invalidate(all)
  else if (m.kind === "change") {
    if (patch(queries, m.of, m.change)) invalidate(stale[m.of] ?? [])
    watchers.forEach((w) => w(m.of, m.change))
  }
}

/** read follows the stream until the signal; every message goes to tell. */
function read(tell: (m: Message) => void, signal: AbortSignal) {
  let at = ""
  let wait = 500
  const open = () => {
    if (signal.aborted) return
    const source = new EventSource(address("api/v1/stream") + (at ? `?since=${encodeURIComponent(at)}` : ""))
    const on = <T>(kind: string, act: (data: T) => void) => source.addEventListener(kind, (e: MessageEvent<string>) => {
      at = e.lastEventId || at
      act((JSON.parse(e.data) as { data: T }).data)
    })
    on<{ version: string; resumed: boolean }>("hello", (hello) => {
      wait = 500
      tell({ kind: "state", live: { connected: true, since: Date.now(), off: false, upgraded: version && version !== "dev" && hello.version !== version ? hello.version : undefined } })
      tell({ kind: "hello", resumed: hello.resumed })
    })
    for (const of of Object.keys(stale)) on<Change>(of, (change) => tell({ kind: "change", of, change }))
    source.onerror = () => {
      if (state.connected || state.off) tell({ kind: "state", live: { connected: false, since: Date.now(), off: false } })
      // A browser comes back by itself only where no answer came at all.
      source.close()
      setTimeout(open, wait)
      wait = Math.min(2 * wait, 5_000)
    }
    signal.addEventListener("abort", () => source.close(), { once: true })
  }
  open()
}

/** listen follows the server until the returned function is called. */
export function listen(): () => void {
  const stop = new AbortController()
  if (!navigator.locks || typeof BroadcastChannel === "undefined") { // not so over plain HTTP from another machine
    read(take, stop.signal)
    return () => stop.abort()
  }
  const name = `stepwell-live ${base}`
  const channel = new BroadcastChannel(name)
  let leads = false
  const tell = (m: Message) => { take(m); channel.postMessage(m) }
  channel.onmessage = (e: MessageEvent<Message>) => {
    if (e.data.kind !== "who") take(e.data)
    else if (leads) channel.postMessage({ kind: "state", live: state } satisfies Message)
  }
  channel.postMessage({ kind: "who" } satisfies Message)
  navigator.locks.request(name, { signal: stop.signal }, () => new Promise<void>((done) => {
    leads = true
    stop.signal.addEventListener("abort", () => done(), { once: true })
    read(tell, stop.signal)
  })).catch(() => undefined) // stopped before the lock was had
  return () => { stop.abort(); channel.close() }
}
