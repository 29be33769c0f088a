// A log as one reads it: opened at its end, at a line or with a search, read on in both directions, and followed.
import { useCallback, useEffect, useRef, useState } from "react"
import { Problem, send } from "../api/client"
import { follow } from "../screens/execution/follow"
import { append, empty, mostLines, prepend, type Line, type Part } from "./lines"

export interface Ask {
  execution: string
  step?: string
  level?: string
  q?: string
  regex?: boolean
  /** Only lines of this time, in milliseconds since 1970. */
  from?: number
  to?: number
  /** The seq of a line to open at. */
  line?: number
}

interface Page { logs: Line[]; next_cursor?: string; previous_cursor?: string; searched?: number }

const page = 500

/** The end of a log at which it opens; the page is given with it where the address says no more (asks, in screens.ts). */
const end = 200

/** As many hits of a search are got by themselves. */
const enough = 100

export interface Log {
  part: Part
  loading: boolean
  problem?: Problem
  /** With a search: how many lines have been looked at, and whether there are more to look at. */
  searched: number
  more: boolean
  /** readBack and readOn get the lines before and behind those that are held. */
  readBack: () => Promise<void>
  readOn: () => Promise<void>
  again: () => void
  toEnd: () => void
  connected: boolean
  /** Lines that have come since one has scrolled up. */
  fresh: number
}

async function read(a: Ask, extra: Record<string, string>, signal?: AbortSignal): Promise<Page> {
  const query = new URLSearchParams(extra)
  if (a.step) query.set("step_id", a.step)
  if (a.level) query.set("level", a.level)
  if (a.from !== undefined && a.to !== undefined) {
    query.set("since", new Date(a.from).toISOString())
    query.set("until", new Date(a.to).toISOString())
  }
  if (a.q) query.set("q", a.q)
  if (a.q && a.regex) query.set("regex", "true")
  return (await (await send(`api/v1/executions/${encodeURIComponent(a.execution)}/logs?${query}`, { signal })).json()) as Page
}

// The request that was sent before the log is on the page, with its answer.
let early: { execution: string; answer: Promise<Page>; got?: Page } | undefined

/** readSoon asks, once, for the lines at which a log opens that nothing is chosen in, beside what else its page asks for. The promise is
 * kept when the answer is there, with lines or without. */
export function readSoon(execution: string): Promise<void> {
  if (early?.execution === execution) return Promise.resolve()
  const asked: typeof early = { execution, answer: read({ execution }, { tail: String(end) }) }
  early = asked
  setTimeout(() => { if (early === asked) early = undefined }, 5_000)
  return asked.answer.then((got) => { asked.got = got }, () => { /* the log that waits for it shows the problem */ })
}

// take gives what was asked for soon, once.
function take(a: Ask): typeof early {
  const was = early
  early = undefined
  return was?.execution === a.execution && !a.step && !a.level && !a.q && !a.line && a.from === undefined ? was : undefined
}

const partOf = (got: Page): Part => ({ lines: got.logs, before: Boolean(got.previous_cursor), after: Boolean(got.next_cursor) })

/** useLog reads a log. Live: lines that come are added as long as the end of the log is held and nothing is searched for; while one
 * reads further up (held), only as many as there is room for, and the others are counted. */
export function useLog(ask: Ask, live: boolean, version: number, reading: { readonly current: boolean }): Log {
  const soon = useRef<typeof early>(undefined)
  const [part, setPart] = useState<Part>(() => { soon.current = take(ask); return soon.current?.got ? partOf(soon.current.got) : empty })
  const [state, set] = useState<{ loading: boolean; problem?: Problem; searched: number; cursor?: string }>({ loading: part === empty, searched: 0 })
  const [tries, setTries] = useState(0)
  const [toEnd, setToEnd] = useState(false)
  const [connected, setConnected] = useState(true)
  const [fresh, setFresh] = useState(0)
  const [starts, setStarts] = useState(0) // how often the execution has begun to run: it is followed to its end even if that is known already
  useEffect(() => { if (live) setStarts((n) => n + 1) }, [live])
  const held = useRef(part)
  held.current = part
  const busy = useRef(false)
  const wanted = toEnd ? undefined : ask.line
  // A line that is held needs no other part of the log.
  const rest = JSON.stringify({ ...ask, line: undefined, tries })
  const around = useRef({ rest, line: wanted })
  const inHand = wanted !== undefined && part.lines.length > 0 && part.lines[0]!.seq <= wanted && wanted <= part.lines.at(-1)!.seq
  if (!inHand || around.current.rest !== rest) around.current = { rest, line: wanted }
  const at = around.current.line
  const key = `${rest} ${at}`
  const latest = useRef(key)
  latest.current = key

  useEffect(() => { setToEnd(false) }, [ask.line])
  useEffect(() => {
    const given = soon.current
    soon.current = undefined
    if (given?.got && held.current !== empty) return // it is shown
    const stop = new AbortController()
    set({ loading: true, searched: 0 })
    setPart(empty)
    setFresh(0)
    const first = async () => {
      if (ask.q) {
        const got = await read(ask, { limit: String(page) }, stop.signal)
        setPart({ lines: got.logs, before: false, after: Boolean(got.next_cursor) })
        set({ loading: false, searched: got.searched ?? 0, cursor: got.next_cursor })
        return
      }
      const got = await (given?.answer ?? read(ask, at ? { around: String(at), context: "250" } : { tail: String(end) }, stop.signal))
      if (stop.signal.aborted) return
      setPart(partOf(got))
      set({ loading: false, searched: 0 })
    }
    first().catch((err: unknown) => {
      if (stop.signal.aborted) return
      set({ loading: false, searched: 0, problem: err as Problem })
      if (err instanceof Problem && err.status === 0) setTimeout(() => { if (latest.current === key) setTries((n) => n + 1) }, 1000)
    })
    return () => stop.abort()
  }, [key])

  // The end of the log was perhaps read before the execution's end, which the page knows and so does not wait for: what came in between
  // is asked for once.
  const closed = !live && starts === 0 && !state.loading && !state.problem && !ask.q && !at
  useEffect(() => {
    if (!closed) return
    const timer = setTimeout(() => {
      const last = held.current.lines.at(-1)
      if (held.current.after) return
      read(ask, last ? { around: String(last.seq), context: "200" } : { tail: String(end) })
        .then((got) => { if (latest.current === key) setPart((p) => append(p, got.logs, Boolean(got.next_cursor))) }, () => { /* the log is as good as it was */ })
    }, 300)
    return () => clearTimeout(timer)
  }, [key, closed])

  const readBack = useCallback(async () => {
    const { lines, before } = held.current
    if (busy.current || !before || !lines[0]) return
    busy.current = true
    try {
      const got = await read(ask, { before: String(lines[0].seq), limit: String(page) })
      if (latest.current === key) setPart((p) => prepend(p, got.logs, Boolean(got.previous_cursor)))
    } catch {
      // tried again when one scrolls on
    } finally {
      busy.current = false
    }
  }, [key])

  const readOn = useCallback(async () => {
    const { lines, after } = held.current
    const last = lines.at(-1)
    if (busy.current || !after || (!last && !ask.q)) return
    busy.current = true
    try {
      if (ask.q) {
        const got = await read(ask, { cursor: state.cursor ?? "", limit: String(page) })
        if (latest.current !== key) return
        setPart((p) => append(p, got.logs, Boolean(got.next_cursor)))
        set((s) => ({ ...s, searched: s.searched + (got.searched ?? 0), cursor: got.next_cursor }))
      } else {
        // The line itself comes again, and is left out: so no cursor has to be kept while lines are dropped at the ends.
        const got = await read(ask, { around: String(last!.seq), context: String(page) })
        if (latest.current !== key) return
        setPart((p) => append(p, got.logs, Boolean(got.next_cursor)))
      }
    } catch {
      // tried again when one scrolls on
    } finally {
      busy.current = false
    }
  }, [key, state.cursor])

  // One request searches for half a second at most. Until there is something to look at, the next one follows by itself.
  useEffect(() => { if (ask.q && state.cursor && held.current.lines.length < enough) void readOn() }, [readOn])

  // What comes is collected for a moment, so that a thousand lines a second draw the page a few times.
  const following = starts > 0 && !ask.q && !state.loading && !state.problem
  useEffect(() => {
    if (!following) return
    let waiting: Line[] = []
    let timer: ReturnType<typeof setTimeout> | undefined
    const flush = () => {
      timer = undefined
      const lines = waiting
      waiting = []
      if (reading.current) setFresh((n) => n + lines.length)
      setPart((p) => (p.after ? p : reading.current && p.lines.length + lines.length > mostLines ? { ...p, after: true } : append(p, lines, false)))
    }
    const { lines, after } = held.current
    const stop = follow(ask.execution, {
      since: after ? "latest" : `${version}-${lines.at(-1)?.seq ?? 0}`, step: ask.step, level: ask.level, onLink: setConnected,
      onMessage: (m) => {
        if (m.type !== "log") return
        const line = { metadata: {}, ...m.data, seq: Number(/-(\d+)/.exec(m.seq)?.[1] ?? 0) } as Line
        const at = Date.parse(line.timestamp ?? "")
        if (ask.from !== undefined && ask.to !== undefined && !(at >= ask.from && at < ask.to)) return
        waiting.push(line)
        if (waiting.length > mostLines) waiting.shift()
        timer ??= setTimeout(flush, 100)
      },
    })
    return () => {
      stop()
      clearTimeout(timer)
      if (waiting.length > 0) flush()
    }
  }, [key, following, starts, part.after])

  return { part, ...state, more: Boolean(state.cursor), readBack, readOn, again: () => setTries((n) => n + 1), toEnd: () => { setFresh(0); if (held.current.after) { setToEnd(true); setTries((n) => n + 1) } }, connected, fresh }
}
