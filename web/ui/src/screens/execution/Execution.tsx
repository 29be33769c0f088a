import { memo, useCallback, useEffect, useMemo, useRef, useState } from "react"
import { Link, Redirect, useLocation } from "wouter"
import { formatSearch, parseSearch, useSearchParams, type Search } from "../../url"
import { useKeys } from "../../keys"
import { useBehind } from "../../parts/painted"
import { Loaded } from "../../parts/Loading"
import { askSoon, Problem, type Schemas } from "../../api/client"
import { complain, say } from "../../parts/Toasts"
import { ended, lookOf } from "../../states"
import { Names } from "../../field/names"
import type { Path } from "../../field/paths"
import { nextIn } from "../../field/steps"
import { LogView } from "../../log/LogView"
import { readSoon } from "../../log/useLog"
import { detail, graph, useDetail, useGraph, useLiveExecution } from "./ask"
import type { Params } from "../screens"
import { Select } from "./Select"
import { selectText, useSelection } from "./selection"
import { useTries } from "./tries"
import { togglePath, type Expr } from "../../selection/parse"
import { parseTime } from "../../log/time"
import { TimeChip } from "../../log/TimeChip"
import { useChanges, useThen } from "./changes"
import { fetchSoon, useField } from "./field"
import { Events } from "./Events"
import { Failure } from "./Failure"
import { FanTab } from "./FieldTabs"
import { GraphTab } from "./GraphTab"
import { Counts, Header } from "./Header"
import { ChosenContext, PageContext, tabs, usePage, type Chosen, type PageState, type Tab } from "./page"
import { Replay, versionOf } from "./Replay"
import { Side } from "./Side"
import { Source } from "./Source"
import { StepTable } from "./StepTable"
import { Streams } from "./Streams"
import { WaterfallTab } from "./Waterfall"
import "./execution.css"

const wholeId = 36

// besides asks for what the page shows beside the execution itself: not after that.
function besides({ id, tab }: Params): Promise<unknown> | undefined {
  if (id?.length !== wholeId) return undefined
  const search = parseSearch(window.location.search)
  if (search.all === "1" && search.at === undefined) fetchSoon(id)
  return tab === "log" && window.location.search === "" ? readSoon(id) : undefined
}

/** soon asks for what the first picture of the page has. */
export function soon(params: Params): Promise<unknown> {
  return Promise.all([askSoon(detail(params.id!)), askSoon(graph(params.id!, [], versionOf(parseSearch(window.location.search).at))), besides(params)])
}

/** Execution is the page of one execution; the beginning of an id leads to the whole. */
export default function Execution({ params }: { params: Params }) {
  const asked = useDetail(params.id!)
  const [search] = useSearchParams()
  useGraph(params.id!, [], versionOf(search.at))
  useState(() => { void besides(params) })
  return (
    <Loaded of={asked} lines={10}>
      {(x) => x.execution_id === params.id
        ? <Page key={x.execution_id} x={x} tab={params.tab ?? "graph"} />
        : <Redirect replace to={`/executions/${x.execution_id}${params.tab ? "/" + params.tab : ""}${window.location.search}`} />}
    </Loaded>
  )
}

function Page({ x, tab }: { x: Schemas["ExecutionDetail"]; tab: string }) {
  const { page, chosen, step } = usePageState(x, tab)
  useEffect(() => { document.title = `${lookOf(x.status).word} · ${x.pipeline} · Stepwell` }, [x.status, x.pipeline, tab])
  usePageKeys(page, chosen.index, step)
  return (
    <PageContext value={page}>
      <ChosenContext value={chosen}>
        <Views tab={tab} />
      </ChosenContext>
    </PageContext>
  )
}

// Views is drawn when what the page shares changes: a step that is chosen alone is first framed, and then shown.
const Views = memo(function Views({ tab }: { tab: string }) {
  const page = usePage()
  const { id, x, goTo, step, live, at } = page
  const graph = useGraph(id, [], at)
  if (tab === "log") return (
    <div className="log-page">
      <header>
        <Link href={`/executions/${id}${step ? `?step=${encodeURIComponent(step)}` : ""}`}>← {x.pipeline}</Link>
        <h1 className="clip">{step ? <>Log of <span className="mono">{step}</span></> : "Log"}</h1>
        {step && <button type="button" className="button" data-kind="bare" onClick={() => page.select(undefined)}>all steps</button>}
        <TimeChip />
      </header>
      <LogView key={step ?? ""} execution={id} step={step} live={!ended(x.status)} version={graph.data?.version ?? 0} started={x.started_at} onStep={(s) => page.select(s)} />
    </div>
  )
  const shown = tabs.find((t) => t === tab) ?? "graph"
  return (
    <div className="x" data-side={step !== undefined || undefined}>
      <Header />
      <Counts />
      {(x.error || x.status === "completed_with_failures") && step === undefined && at === undefined && <Failure />}
      <div className="x-tabline">
      <nav className="tabs x-tabs" aria-label="Views">
        {tabs.filter((t) => t !== "streams" || shown === t || graph.data?.nodes.some((n) => n.kind === "stream")).map((t) => <a key={t} href={`executions/${id}/${t}`} aria-current={t === shown ? "page" : undefined} onClick={(e) => { if (!e.metaKey && !e.ctrlKey) { e.preventDefault(); goTo(t, { z: undefined }) } }}>{t}</a>)}
        <a href={`executions/${id}/log`} onClick={(e) => { if (!e.metaKey && !e.ctrlKey) { e.preventDefault(); goTo("log") } }}>log</a>
      </nav>
      {shown !== "events" && shown !== "streams" && <Select />}
      </div>
      <div className="x-body">
        <div className="x-main">
          {shown === "graph" && <GraphTab />}
          {shown === "waterfall" && <WaterfallTab />}
          {shown === "fan" && <FanTab />}
          {shown === "table" && <StepTable />}
          {shown === "events" && <Events />}
          {shown === "streams" && <Streams />}
          {shown === "source" && <Source />}
        </div>
        {step !== undefined && <Side key={step} step={step} />}
      </div>
      {shown !== "events" && shown !== "source" && <Replay />}
      <span className="hidden-text" role="status">{live.beat > 0 ? lookOf(x.status).word : ""}</span>
    </div>
  )
})

const lost = (s: string) => s === "failed" || s === "timed_out"

const others = (search: Search) => formatSearch({ ...search, step: undefined, line: undefined, attempt: undefined })

// usePageState gives what the page shares, the step to frame, and the key of that one, which is in the address.
function usePageState(x: Schemas["ExecutionDetail"], tab: string): { page: PageState; chosen: Chosen; step: string | undefined } {
  const id = x.execution_id
  const [now, setSearch] = useSearchParams()
  const before = useBehind(now)
  const search = now !== before && others(now) === others(before) ? before : now
  const [, navigate] = useLocation()
  const at = versionOf(search.at)
  const graph = useGraph(id, [], at)
  const { live, told } = useLiveExecution(id, x.status, graph.data?.nodes.some((n) => n.kind === "stream") ? "steps and items" : "steps")
  const [moved, move] = useState<number>()
  const moment = moved ?? at
  const changes = useChanges(id, moment)
  const other = useFirst(tab === "log")
  const held = useField(id, !ended(x.status), (search.all === "1" || graph.data !== undefined || graph.error !== null) && !other, live.beat, told, changes.failed ? at : undefined)
  const field = useThen(held, changes, moment)
  const names = useMemo(() => new Names(id), [id])
  useEffect(() => () => names.close(), [names])
  const { step, attempt } = now
  const [index, setIndex] = useState(-1)
  const [looked, setLooked] = useState<string>() // the step of which it is known which one it is, or that there is none
  const select = useCallback((key: string | undefined) => setSearch({ step: key, line: undefined, attempt: undefined }, { push: true }), [setSearch])
  const selectIndex = useCallback((i: number, attempt?: string) => {
    setIndex(i)
    const known = names.get(i)
    if (known) {
      setLooked(known.step_id) // with the rest: the page is drawn once
      return setSearch({ step: known.step_id, line: undefined, attempt }, { push: true })
    }
    names.find(i).then((s) => { if (s) setSearch({ step: s.step_id, line: undefined, attempt }, { push: true }) }, complain)
  }, [names, setSearch])
  useEffect(() => {
    if (step === undefined) {
      setIndex(-1)
      return
    }
    const found = (i: number) => { setIndex(i); setLooked(step) }
    if (names.indexOf(step) >= 0) return found(names.indexOf(step))
    let stale = false
    names.locate(step).then((i) => { if (!stale) found(i) }, (err: unknown) => {
      if (!stale) setLooked(step)
      if (!(err instanceof Problem && err.status === 0)) complain(err)
    })
    return () => { stale = true }
  }, [step, names])
  const goTo = useCallback((tab: Tab | "log", change: Search = {}) => {
    navigate(`/executions/${id}/${tab}${formatSearch({ ...parseSearch(window.location.search), ...change })}`)
  }, [navigate, id])
  const selection = useSelection(id, search, field.steps, tab === "table" && search.of !== undefined)
  const time = useMemo(() => parseTime(search), [search.from, search.to])
  const tries = useTries(id, field, tab === "waterfall" || (tab === "table" && time !== undefined))
  const page = useMemo<PageState>(
    () => ({ id, x, live, field, names, at, moment, move, replay: changes.failed ? undefined : changes.replay, unfolded: changes.failed, search, setSearch, step: search.step, select, selectIndex, selection, time, tries, goTo }),
    [id, x, live, field, names, at, moment, changes, search, setSearch, select, selectIndex, selection, time, tries, goTo],
  )
  const pending = step !== undefined && index < 0 && looked !== step
  return { page, chosen: useMemo(() => ({ index, attempt, pending }), [index, attempt, pending]), step }
}

const first = 500 // ms for what a page is opened for

/** useFirst is true as long as a page that was opened for something else than the steps shows that. */
function useFirst(other: boolean): boolean {
  const [over, set] = useState(!other)
  useEffect(() => {
    const timer = setTimeout(() => set(true), first)
    return () => clearTimeout(timer)
  }, [])
  return other && !over
}

const patience = 1000 // ms for the panel of a step that has just been chosen

function toWhy(until: number) {
  const why = document.querySelector<HTMLElement>(".x-why")
  if (!why) {
    if (performance.now() < until) requestAnimationFrame(() => toWhy(until))
    return
  }
  why.closest("details")?.setAttribute("open", "")
  why.setAttribute("tabindex", "-1")
  why.focus()
}

const calm = 200 // ms after which the page is at rest

function usePageKeys(page: PageState, index: number, step: string | undefined) {
  const { field, names, selectIndex, select, setSearch, goTo, selection } = page
  const before = useRef("graph")
  // The names of the failures that the keys lead to next are asked for beforehand.
  useEffect(() => {
    const { steps } = field
    if (!steps) return
    const timer = setTimeout(() => {
      const wanted = steps.states.map(lost)
      const near: number[] = []
      for (const by of [1, -1] as const) {
        for (let i = index < 0 && by < 0 ? 0 : index, k = 0; k < 3; k++) {
          i = nextIn(steps.status, wanted, i, by)
          if (i < 0 || near.includes(i)) break
          near.push(i)
        }
      }
      names.want(near)
    }, calm)
    return () => clearTimeout(timer)
  }, [field.desk, index, names])
  const jump = (by: 1 | -1, wanted: (state: string) => boolean, none: string) => {
    if (!field.steps) return
    const next = nextIn(field.steps.status, field.steps.states.map(wanted), index < 0 && by < 0 ? 0 : index, by)
    if (next < 0) say(none)
    else selectIndex(next)
  }
  const there = (s: string) => s !== "absent"
  const along = (path: Path) => {
    if (path !== "critical" && step === undefined) return say("Choose a step first.")
    const part: Expr = path === "critical" ? { kind: "critical" } : { kind: "flow", up: path === "up", down: path === "down", of: { kind: "match", field: "step", pattern: step! } }
    setSearch(selectText(togglePath(selection.text, part)))
  }
  useKeys([
    { keys: "c", does: "The critical path, and all", act: () => along("critical") },
    { keys: "u", does: "What the step depends on, and all", act: () => along("up") },
    { keys: "d", does: "What depends on the step, and all", act: () => along("down") },
    { keys: "]", does: "Next failure", act: () => jump(1, lost, "No step has failed.") },
    { keys: "[", does: "Previous failure", act: () => jump(-1, lost, "No step has failed.") },
    { keys: "j", does: "Next step", act: () => jump(1, there, "There is no step.") },
    { keys: "k", does: "Previous step", act: () => jump(-1, there, "There is no step.") },
    { keys: "t", does: "The same as a table, and back", act: () => {
      const now = /\/executions\/[^/]+\/(\w+)/.exec(window.location.pathname)?.[1] ?? "graph"
      if (now !== "table") before.current = now
      goTo(now === "table" ? (before.current as Tab) : "table", { z: undefined })
    } },
    { keys: "l", does: "Log of the step, or of all", act: () => (step === undefined ? goTo("log") : setSearch({ side: "log" })) },
    { keys: "w", does: "Why", act: () => toWhy(performance.now() + patience) },
    { keys: "Escape", does: "Close the step, or the filter", act: () => (step !== undefined ? select(undefined) : selection.text ? setSearch(selectText(undefined)) : undefined) },
    ...(["graph", "waterfall", "fan", "table", "events"] as const).map((tab, i) => ({ keys: String(i + 1), does: `Show ${tab}`, act: () => goTo(tab, { z: undefined }) })),
  ])
}
