import { useVirtualizer } from "@tanstack/react-virtual"
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent } from "react"
import { formatCount } from "../format"
import { tokenOf, useTheme } from "../field/paint"
import { Button } from "../parts/Button"
import { Skeleton } from "../parts/Loading"
import { ProblemBox } from "../parts/Problem"
import { say } from "../parts/Toasts"
import { useSearchParams } from "../url"
import { Histogram } from "./Histogram"
import { LogLine } from "./LogLine"
import { LogTools } from "./LogTools"
import { bothTimes, parseTime, type Time } from "./time"
import { useLog } from "./useLog"
import "./log.css"

interface Props {
  execution: string
  step?: string
  /** Only lines of this time. */
  during?: Time
  /** Lines still come. */
  live: boolean
  /** The number of the execution's last commit that is known. */
  version: number
  started: string | null
  onStep?: (key: string) => void
}

const height = 18

// The size of the list until it is measured, so that lines that are there at once are drawn with the frame around them: mostly what the
// window has below the bars above it, and then nothing has to be drawn twice.
const bars = 138
const about = () => ({ width: 1000, height: Math.max(200, window.innerHeight - bars) })

const afterwards = 50 // ms behind the frame of the first lines

// So many lines are drawn beyond those in view: fewer in the first picture, which is there sooner.
const beyond = { first: 3, then: 20 }

/** LogView is a log: filters above it, lines of which only those in view are on the page. */
export function LogView({ execution, step, during, live, version, started, onStep }: Props) {
  const [search, setSearch] = useSearchParams()
  const line = Number(search.line) || undefined
  const reading = useRef(line !== undefined)
  const [away, setAway] = useState(reading.current)
  const time = bothTimes(during, parseTime(search))
  const log = useLog({ execution, step, from: time?.from, to: time?.to, level: search.level, q: search.q, regex: search.rx === "1", line }, live, version, reading)
  const theme = useTheme()
  const ground = useMemo(() => tokenOf("--sunk"), [theme])
  const wrap = search.wrap === "1"
  const host = useRef<HTMLDivElement>(null)
  const { lines } = log.part
  const painted = usePainted(!log.loading || lines.length > 0)
  const list = useVirtualizer({ count: lines.length, getScrollElement: () => host.current, estimateSize: () => height, overscan: painted ? beyond.then : beyond.first, getItemKey: (i) => lines[i]!.seq, initialRect: about(), initialOffset: () => Math.max(0, lines.length * height - about().height) })
  const items = list.getVirtualItems()

  // Reading: the line at the top stays where it is. Else the last line is in view.
  const anchor = useRef<{ seq: number; off: number } | undefined>(undefined)
  const opened = useRef("")
  useLayoutEffect(() => {
    if (lines.length === 0) return
    const key = `${line}`
    if (line !== undefined && opened.current !== key) {
      const i = lines.findIndex((l) => l.seq >= line)
      if (i < 0 ? log.part.after : i === 0 && lines[0]!.seq > line && log.part.before) return // the part with the line is being read
      opened.current = key
      if (i >= 0) list.scrollToIndex(i, { align: "center" })
      return
    }
    if (!reading.current && !search.q) list.scrollToIndex(lines.length - 1, { align: "end" })
    else if (anchor.current) {
      const i = lines.findIndex((l) => l.seq >= anchor.current!.seq)
      const to = i < 0 ? undefined : list.getOffsetForIndex(i, "start")
      if (to && Math.abs(to[0] + anchor.current.off - (host.current?.scrollTop ?? 0)) > 1) list.scrollToOffset(to[0] + anchor.current.off)
    }
  }, [lines, list, line, search.q])
  useEffect(() => { if (line !== undefined) { reading.current = true; setAway(true) } }, [line])

  const scrolled = () => {
    const el = host.current!
    const first = list.getVirtualItems().find((v) => v.end > el.scrollTop)
    anchor.current = first && lines[first.index] ? { seq: lines[first.index]!.seq, off: el.scrollTop - first.start } : undefined
    const end = el.scrollHeight - el.scrollTop - el.clientHeight < 24 && !log.part.after
    reading.current = !end
    if (away === end) setAway(!end)
    if (end && log.fresh > 0) log.toEnd()
    if (el.scrollTop < 400) void log.readBack()
    if (el.scrollHeight - el.scrollTop - el.clientHeight < 400) void log.readOn()
  }
  const toEnd = () => {
    reading.current = false
    setAway(false)
    if (line !== undefined) setSearch({ line: undefined })
    log.toEnd()
    if (lines.length > 0) list.scrollToIndex(lines.length - 1, { align: "end" })
  }
  const onLink = useCallback((seq: number) => {
    opened.current = `${seq}`
    setSearch({ line: String(seq) })
    const url = new URL(window.location.href)
    url.searchParams.set("line", String(seq))
    void navigator.clipboard?.writeText(url.href).then(() => say("The link to this line is copied."), () => { /* not allowed: it is in the address */ })
  }, [setSearch])

  const key = (e: KeyboardEvent) => {
    const by = e.key === "j" ? 1 : e.key === "k" ? -1 : 0
    const now = lines.findIndex((l) => l.seq === line)
    if (by !== 0 && lines.length > 0) {
      const next = now < 0 ? Math.max(0, lines.findIndex((l) => l.seq >= (anchor.current?.seq ?? 0))) : Math.max(0, Math.min(lines.length - 1, now + by))
      opened.current = `${lines[next]!.seq}`
      reading.current = true
      setSearch({ line: opened.current })
      list.scrollToIndex(next, { align: "auto" })
    } else if (e.key === "Enter" && now >= 0) onLink(lines[now]!.seq)
    else if (e.key === "o" && now >= 0) onStep?.(lines[now]!.step_id)
    else if (e.key === "End") toEnd()
    else return
    e.preventDefault()
    e.stopPropagation()
  }

  return (
    <section className="log" aria-label={step ? `Log of ${step}` : "Log"}>
      <LogTools execution={execution} step={step} time={time} log={log} />
      {!step && <Histogram when={painted} execution={execution} version={version} line={line} onJump={(seq) => setSearch({ line: String(seq), q: undefined })} />}
      {log.problem && <ProblemBox problem={log.problem} again={log.again} />}
      <div className="log-body">
        <div ref={host} className="log-lines" data-wrap={wrap || undefined} tabIndex={0} role="log" aria-live="off" aria-label="Lines. J and K choose one, Enter copies a link to it, O opens its step" onScroll={scrolled} onKeyDown={key}>
          {log.loading && lines.length === 0 ? <Skeleton lines={4} /> : null}
          {!log.loading && lines.length === 0 && !log.problem && <p className="empty">{search.q || search.level || time ? "No line matches." : live ? "There is no line yet." : "There are no lines."}</p>}
          <div style={{ height: list.getTotalSize(), position: "relative" }}>
            {items.map((v) => (
              <div key={v.key} data-index={v.index} ref={list.measureElement} className="log-row" style={{ transform: `translateY(${v.start}px)` }}>
                <LogLine line={lines[v.index]!} ground={ground} from={search.rel === "1" && started ? Date.parse(started) : undefined} withStep={!step} chosen={lines[v.index]!.seq === line} q={search.rx === "1" ? undefined : search.q} fields={search.fields === "1"} onLink={onLink} onStep={onStep} />
              </div>
            ))}
          </div>
        </div>
        {away && (live || log.part.after || log.fresh > 0) && !search.q && (
          <div className="log-end"><Button onClick={toEnd}>↓ {log.fresh > 0 ? `${formatCount(log.fresh)} new ${log.fresh === 1 ? "line" : "lines"}` : "to the end"}</Button></div>
        )}
      </div>
      {search.q && log.more && <div className="row"><Button onClick={() => void log.readOn()}>Search on</Button></div>}
    </section>
  )
}

/** usePainted is true once what is there has been painted, and stays so: what is wanted less waits for that. */
function usePainted(there: boolean): boolean {
  const [painted, set] = useState(false)
  useEffect(() => {
    if (!there || painted) return
    let timer: ReturnType<typeof setTimeout>
    const frame = requestAnimationFrame(() => { timer = setTimeout(() => set(true), afterwards) })
    return () => { cancelAnimationFrame(frame); clearTimeout(timer) }
  }, [there, painted])
  return painted
}
