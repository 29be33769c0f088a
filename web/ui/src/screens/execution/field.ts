// All steps of an execution as columns: fetched once, then patched by what the server sends; and their layouts.
import { useEffect, useMemo, useRef, useState } from "react"
import { address, Problem, problemOf, send } from "../../api/client"
import { decode } from "../../field/columns"
import { Desk } from "../../field/desk"
import type { Layout, Spec } from "../../field/layouts"
import { mostSteps, patch, type Steps } from "../../field/steps"
import type { Tries } from "../../field/tries"
import { reconnecting } from "./follow"

const chunk = 100_000
const columns = "status,attempt,layer,pos,start,duration,parent,worker,edges"
const maxWaiting = 16 << 20 // bytes of messages that come while the columns do
const shownEvery = 50 // ms between two pictures of what changes

export interface FieldState {
  steps?: Steps
  /** Of a moment that the page has folded itself: the steps of now, which the desk has. */
  now?: Steps
  desk?: Desk
  problem?: Problem
  /** There are more steps than the page shows. */
  cut?: number
}

/** Told hears of the stream of changes. */
export interface Told {
  link: (connected: boolean) => void
  changed: () => void
  /** The execution has ended, and everything has come. */
  over: () => void
}

/** useField holds all steps. Running: changes come as messages; where they do not, or say so, the columns are fetched anew, never more
 * often than they take to come. While messages cannot be had, a change of the beat has them fetched. At a version, they are those of
 * that version, and nothing changes them. */
export function useField(id: string, running: boolean, when: boolean, beat: number, told: Told, at?: number): FieldState {
  const [state, set] = useState<FieldState>({})
  const current = useRef<Held>(undefined)
  const latest = useRef({ running, at })
  latest.current = { running, at }
  useEffect(() => {
    if (!when) return
    const held = new Held(id, told, set)
    current.current = held
    held.start(latest.current.running, latest.current.at)
    return () => held.stop()
  }, [id, when, told])
  useEffect(() => current.current?.runs(running), [running])
  useEffect(() => current.current?.show(at), [at])
  useEffect(() => current.current?.beat(), [beat])
  return state
}

// Held is the steps of an execution while a page shows them.
class Held {
  private desk = new Desk()
  private steps: Steps | undefined
  private etag = ""
  private busy = false
  private wanted = false
  private stopped = false
  private timer: ReturnType<typeof setTimeout> | undefined
  private draw: ReturnType<typeof setTimeout> | undefined
  private linked = false
  private running = false
  private at: number | undefined
  private unfollow: (() => void) | undefined
  /** Messages that came while the columns were fetched: they may be newer than these. */
  private waiting: ArrayBuffer[] = []
  private bytes = 0

  constructor(private readonly id: string, private readonly told: Told, private readonly set: (change: (f: FieldState) => FieldState) => void) {}

  start(running: boolean, at: number | undefined) {
    this.running = running
    this.at = at
    void this.load()
  }

  /** runs says whether more may come. The end of a stream that is followed is told by itself. */
  runs(running: boolean) {
    this.running = running
    if (running && this.steps && !this.unfollow && !this.busy) this.follow()
  }

  /** show goes to a version, or with undefined back to now. */
  show(at: number | undefined) {
    if (at === this.at) return
    this.at = at
    this.etag = ""
    this.leave()
    this.again()
  }

  stop() {
    this.stopped = true
    this.leave()
    clearTimeout(this.timer)
    clearTimeout(this.draw)
    this.desk.close()
  }

  beat() { if (this.unfollow && !this.linked && !this.stopped) this.again() }

  private leave() {
    this.unfollow?.()
    this.unfollow = undefined
    this.waiting = []
    this.bytes = 0
  }

  private follow() {
    // Of a version of the past the messages only say that something has changed.
    this.unfollow = reconnecting(() => `api/v1/executions/${encodeURIComponent(this.id)}/field/stream?since=${this.at === undefined ? (this.steps?.version ?? 0) : 0}`, {
      onMessage: (data) => { if (data instanceof ArrayBuffer) this.change(data) },
      onLink: (linked) => {
        this.linked = linked
        this.told.link(linked)
      },
      onEnd: () => {
        this.unfollow = undefined
        this.told.over()
      },
    })
  }

  private change(data: ArrayBuffer) {
    this.told.changed()
    if (this.at !== undefined) return
    if (this.busy) {
      this.waiting.push(data.slice(0))
      this.bytes += data.byteLength
      if (this.bytes > maxWaiting) {
        this.waiting = []
        this.bytes = 0
        this.wanted = true
      }
    }
    if (!this.apply(data) && !this.busy) this.again()
  }

  // apply writes a message into the steps, here and in the worker. False: they are to be fetched.
  private apply(data: ArrayBuffer): boolean {
    if (!this.steps || !patch(this.steps, decode(data))) return false
    this.desk.patch(data)
    this.draw ??= setTimeout(() => {
      this.draw = undefined
      this.steps &&= { ...this.steps }
      this.set((f) => ({ ...f, steps: this.steps }))
    }, shownEvery)
    return true
  }

  // again fetches the columns, after the last time they were has been made up for.
  private again() {
    this.wanted = true
    if (!this.busy) this.timer ??= setTimeout(() => void this.load(), 0)
  }

  private async load() {
    this.busy = true
    this.wanted = false
    const begun = performance.now()
    try {
      const at = this.at
      const got = at === undefined && !this.etag ? await (taken(this.id) ?? fetchTables(this.id, "", at)) : await fetchTables(this.id, this.etag, at)
      if (this.stopped) return
      if (at !== this.at) this.wanted = true // somebody has gone elsewhere meanwhile
      else if (got) {
        const steps = await this.desk.load(got.tables)
        if (this.stopped) return
        if (at !== this.at) this.wanted = true
        else this.take(steps, got.etag, got.total)
      }
      if (this.running && !this.wanted && !this.unfollow) this.follow()
    } catch (err) {
      if (this.stopped) return
      this.wanted = true
      if (!(err instanceof Problem) || err.status !== 0) {
        this.wanted = false
        this.set((f) => ({ ...f, problem: err instanceof Problem ? err : new Problem(0, "internal", String(err)) }))
      }
    } finally {
      this.busy = false
      clearTimeout(this.timer)
      this.timer = this.stopped ? undefined : setTimeout(() => {
        this.timer = undefined
        if (this.wanted) void this.load()
      }, Math.max(250, 2 * (performance.now() - begun)))
    }
  }

  private take(steps: Steps, etag: string, total: number) {
    this.steps = steps
    this.etag = etag
    this.set(() => ({ steps, desk: this.desk, cut: total > mostSteps ? total : undefined }))
    const waiting = this.waiting
    this.waiting = []
    this.bytes = 0
    for (const data of waiting) if (!this.apply(data)) this.wanted = true
  }
}

let early: { id: string; got: ReturnType<typeof fetchTables> } | undefined

/** fetchSoon begins to fetch the columns of an execution whose page is about to show them. */
export function fetchSoon(id: string) {
  if (early?.id === id) return
  const mine = { id, got: fetchTables(id, "", undefined) }
  mine.got.catch(() => { /* who takes it sees it */ })
  early = mine
  setTimeout(() => { if (early === mine) early = undefined }, 5000)
}

// taken is what fetchSoon has begun, once.
function taken(id: string) {
  const got = early?.id === id ? early.got : undefined
  early = undefined
  return got
}

// fetchTables gets all columns in chunks; undefined: nothing has changed.
async function fetchTables(id: string, etag: string, version: number | undefined): Promise<{ tables: ArrayBuffer[]; etag: string; total: number } | undefined> {
  const tables: ArrayBuffer[] = []
  let [total, tag] = [1, etag]
  for (let from = 0; from < Math.min(total, mostSteps); from += chunk) {
    const response = await fetchTable(`api/v1/executions/${encodeURIComponent(id)}/field?columns=${columns}&from=${from}&limit=${chunk}${version ? `&version=${version}` : ""}`, from === 0 ? etag : "")
    if (response.status === 304) return undefined
    const buffer = await response.arrayBuffer()
    if (from === 0) {
      const head = new DataView(buffer)
      total = (JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, head.getUint32(4, true)))) as { total: number }).total
      tag = response.headers.get("ETag") ?? ""
    }
    tables.push(buffer)
  }
  return { tables, etag: tag, total }
}

/** fetchTable asks for columns; with an ETag it may answer that nothing has changed. */
export async function fetchTable(path: string, etag: string): Promise<Response> {
  if (!etag) return send(path)
  const response = await fetch(address(path), { credentials: "same-origin", headers: { "If-None-Match": etag }, cache: "no-store" }).catch(() => {
    throw new Problem(0, "unavailable", "the server does not answer")
  })
  if (!response.ok && response.status !== 304) throw await problemOf(response)
  return response
}

/** useLayout arranges the steps in the worker; the last layout stays until the next one is there. While steps are added the worker makes one
 * after the other, and rests twice as long between. */
export function useLayout(field: FieldState, spec: Spec | undefined, tries?: Tries): Layout | undefined {
  const [layout, set] = useState<{ layout: Layout; kind: string }>()
  const { steps, desk, now } = field
  const wanted = useMemo(() => (spec && steps ? `${keyOf(spec, spec.kind === "waterfall" ? steps : (now ?? steps))} ${spec.kind === "waterfall" ? tries?.version : ""}` : ""), [spec, steps, now, tries?.version])
  const line = useRef<{ next?: () => Promise<Layout>; kind?: string; busy: boolean; gone?: boolean }>({ busy: false })
  useEffect(() => {
    const l = line.current
    if (!desk || !spec || !steps) return
    // Graphs stay where they are while time passes. Only a waterfall is another one at every moment.
    const then = now && spec.kind === "waterfall" ? { status: steps.status, start: steps.start, duration: steps.duration } : undefined
    l.next = () => desk.arrange(spec, then)
    const other = l.kind !== undefined && l.kind !== spec.kind
    l.kind = spec.kind
    const go = async () => {
      l.busy = true
      while (l.next && !l.gone) {
        const [next, kind, begun] = [l.next, l.kind!, performance.now()]
        l.next = undefined
        const made = await next().catch(() => undefined) // the desk was closed
        if (made && l.kind === kind && !l.gone) set({ layout: made, kind })
        if (!l.next) await new Promise((done) => setTimeout(done, 0))
        else await new Promise((done) => setTimeout(done, Math.min(2000, 2 * (performance.now() - begun))))
      }
      l.busy = false
    }
    if (!l.busy || other) void go()
  }, [wanted, desk])
  useEffect(() => {
    const l = line.current
    l.gone = false
    return () => { l.gone = true }
  }, [])
  return layout && spec && steps && layout.kind === spec.kind && (layout.layout.spans || layout.layout.n <= steps.n) ? layout.layout : undefined
}

// keyOf tells layouts apart: that of a graph changes only with its steps, that of time always.
function keyOf(spec: Spec, steps: Steps): string {
  if (spec.kind === "waterfall") return `waterfall ${spec.rows} ${steps.version} ${spec.now}`
  const absent = steps.states.indexOf("absent")
  let there = 0
  for (const s of steps.status) if (s !== absent) there++
  return spec.kind === "fan" ? `fan ${spec.parent} ${there}` : `graph ${there}`
}
