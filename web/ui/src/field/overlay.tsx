// A field on the page: draws when something moved or changed, and turns pointer, wheel and keys into views and selections.
import { useCallback, useEffect, useLayoutEffect, useRef, useState, useSyncExternalStore, type ReactNode } from "react"
import { parseSearch, useSetSearch } from "../url"
import { gestures } from "./gestures"
import { drawChosen, drawLabels } from "./labels"
import type { Naming } from "./names"
import { at, inside, type Bounds } from "./pick"
import { draw, heightOf, type Paint, type Scene, type View } from "./raster"
import { neighbour } from "./walk"
import { fit, formatView, pan, parseView, reveal, within, zoom } from "./view"

interface Props {
  label: string
  scene: Scene
  paint: Paint
  states: string[]
  names: Naming
  selected: number
  /** Something is selected that cannot be shown yet: arrow keys are kept until it is. */
  pending?: boolean
  onSelect: (index: number) => void
  cards?: boolean
  /** Time runs from left to right: the wheel zooms that direction only. */
  timeline?: boolean
  /** How large a unit may be at first, in pixels. Defaults to 1. */
  largest?: number
  /** Pixels that are left free below where everything is shown: the buttons are there. */
  clear?: number
  /** Written above the field for a view: a ruler, for instance. */
  above?: (view: View, width: number) => ReactNode
  /** Written over the field for a view: names of lanes, what is outside of a time. */
  over?: (view: View, width: number, height: number) => ReactNode
  /** The keys of the attempts or steps that are drawn, for who does not see them. Defaults to arrow keys between steps. */
  help?: string
  /** Elements for the boxes in view, in their own coordinates, where they are few and large enough. --k is by how much a target has to
   * be larger so that it is as large as without zoom. */
  layer?: (visible: number[]) => ReactNode
  /** What is said of the step under the pointer. */
  tip: (index: number) => ReactNode
}

const maxElements = 250
const mostEarly = 16 // arrow keys that are kept

// slow notes when a frame was drawn while moving, and says whether one of twenty frames takes more than 50 ms.
function slow(times: number[], now: number): boolean {
  times.push(now)
  if (times.length > 60) times.shift()
  const gaps = times.slice(1).map((t, i) => t - times[i]!).filter((d) => d < 200).sort((a, b) => a - b)
  return gaps.length > 40 && gaps[Math.floor(gaps.length * 0.95)]! > 50
}

export function FieldView(p: Props) {
  const host = useRef<HTMLDivElement>(null)
  const canvas = useRef<HTMLCanvasElement>(null)
  const [size, setSize] = useState({ width: 0, height: 0 })
  const setSearch = useSetSearch()
  const [asked] = useState(() => parseView(parseSearch(window.location.search).z))
  const [view, setView] = useState<View | undefined>(asked)
  const [tip, setTip] = useState<{ x: number; y: number; index: number } | null>(null)
  const [inMemory, setInMemory] = useState(false)
  const names = useSyncExternalStore(p.names.onChange, p.names.revision)
  const bounds = useRef<Bounds>([0, 0, 1, 1])
  const touched = useRef(asked !== undefined) // until then the view follows the bounds

  useLayoutEffect(() => {
    const el = host.current!
    const watch = new ResizeObserver(() => setSize({ width: el.clientWidth, height: el.clientHeight }))
    watch.observe(el)
    return () => watch.disconnect()
  }, [])

  const whole = useCallback(() => fit(bounds.current, size.width, size.height - (p.clear ?? 0), p.timeline ?? false, p.largest, p.scene.beside), [size, p.timeline, p.largest, p.scene.beside, p.clear])
  useLayoutEffect(() => {
    bounds.current = [...p.scene.layout.index.bounds]
    const lanes = p.scene.layout.spans?.lanes
    if (lanes?.length) bounds.current[1] = Math.min(bounds.current[1], lanes[0]!.y)
    if (size.width > 0 && !touched.current) setView(whole())
  }, [p.scene.layout, size, whole])

  const latest = useRef({ p, view, size })
  latest.current = { p, view, size }
  const move = useCallback((next: (v: View) => View) => {
    touched.current = true
    setView((v) => v && next(v))
  }, [])

  // The view goes into the address when it rests.
  useEffect(() => {
    if (!view || !touched.current) return
    const timer = setTimeout(() => setSearch({ z: formatView(view) }), 400)
    return () => clearTimeout(timer)
  }, [view, setSearch])

  // What is selected elsewhere (a key, a link, the table) comes into view, in the frame that frames it.
  const shown = useRef(-1)
  useLayoutEffect(() => {
    const { layout } = p.scene
    if (p.selected < 0 || !view || !size.width || shown.current === p.selected || !layout.w[p.selected]) return
    shown.current = p.selected
    const from = touched.current ? view : whole()
    const next = within(reveal(from, layout.x[p.selected]!, layout.y[p.selected]!, layout.w[p.selected]!, layout.h[p.selected]!, size.width, size.height), layout.index.bounds, size.width, size.height)
    if (next.x !== from.x || next.y !== from.y || next.sx !== from.sx) move(() => next)
  }, [p.selected, p.scene, view, size, move, whole])

  const elements = p.layer && view && view.sx >= 0.6 ? inside(p.scene.layout, p.scene.layout.index, view.x, view.y, view.x + size.width / view.sx, view.y + size.height / view.sy, maxElements + 1) : []
  const bare = elements.length > 0 && elements.length <= maxElements

  const frames = useRef<number[]>([])
  const drawn = useRef<View>(undefined)
  useLayoutEffect(() => {
    const el = canvas.current
    if (!el || !view || size.width === 0) return
    const frame = requestAnimationFrame((now) => {
      const ratio = Math.min(2, window.devicePixelRatio || 1)
      const [w, h] = [Math.round(size.width * ratio), Math.round(size.height * ratio)]
      if (el.width !== w || el.height !== h) [el.width, el.height] = [w, h]
      const ctx = el.getContext("2d", { alpha: false, willReadFrequently: inMemory })!
      const { labelled, mode } = draw(ctx, bare ? { ...p.scene, bare } : p.scene, view, p.paint, ratio)
      if (labelled.length > 0) drawLabels(ctx, p.scene, view, p.paint, ratio, labelled, { states: p.states, cards: p.cards ?? false }, p.names)
      drawChosen(ctx, p.scene, view, p.paint, ratio, p.selected)
      el.dataset.mode = mode
      el.dataset.drawn = String(Number(el.dataset.drawn ?? 0) + 1)
      // Browsers whose canvas is on a slow graphics card are quicker in memory.
      if (drawn.current !== view && slow(frames.current, now)) setInMemory(true)
      drawn.current = view
    })
    return () => cancelAnimationFrame(frame)
  }, [p.scene, p.paint, p.states, p.selected, p.names, p.cards, view, size, names, inMemory, bare])

  const under = useCallback((x: number, y: number) => {
    const { p, view } = latest.current
    if (!view) return -1
    const found = at(p.scene.layout, p.scene.layout.index, view.x + x / view.sx, view.y + y / view.sy, 4 / view.sx, 4 / view.sy)
    return found >= 0 && p.paint.fill[p.scene.status[found]!] ? found : -1 // not there at this moment
  }, [])

  const scale = useCallback((factor: number, x: number, y: number, both: boolean) => {
    const { p, size } = latest.current
    const least = Math.min(whole().sx, whole().sy) / 2
    const most = p.timeline ? 20 : Math.max(2, 60 / heightOf(p.scene.layout))
    move((v) => pan(zoom(v, factor, x, y, p.timeline && !both ? "x" : "both", { least, most }), 0, 0, bounds.current, size.width, size.height))
  }, [move, whole])

  useEffect(() => gestures(host.current!, {
    pan: (dx, dy) => move((v) => pan(v, dx, dy, bounds.current, latest.current.size.width, latest.current.size.height)),
    zoom: (factor, x, y, both) => scale(factor, x, y, both && !latest.current.p.scene.beside),
    scroll: (dy) => {
      const { p, size, view } = latest.current
      const b = bounds.current
      if (!p.scene.beside || !view || (b[3] - b[1]) * view.sy <= size.height) return false
      move((v) => within({ ...v, y: v.y + dy / v.sy }, b, size.width, size.height))
      return true
    },
    click: (x, y) => {
      const i = under(x, y)
      shown.current = i
      latest.current.p.onSelect(i)
    },
    hover: (x, y) => {
      const i = x < 0 ? -1 : under(x, y)
      if (i >= 0) latest.current.p.names.want([i])
      setTip(i < 0 ? null : { x, y, index: i })
    },
  }), [move, scale, under])

  const key = (e: React.KeyboardEvent) => {
    const middle = [size.width / 2, size.height / 2] as const
    const arrows: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }
    const arrow = arrows[e.key]
    if (arrow && e.shiftKey) move((v) => pan(v, -arrow[0] * 80, -arrow[1] * 80, bounds.current, size.width, size.height))
    else if (arrow && p.pending) {
      if (early.current.length < mostEarly) early.current.push(arrow)
    } else if (arrow) {
      const next = neighbour(p.scene, p.selected, arrow[0], arrow[1])
      if (next >= 0) p.onSelect(next)
    } else if (e.key === "+" || e.key === "=") scale(1.3, ...middle, false)
    else if (e.key === "-") scale(1 / 1.3, ...middle, false)
    else if (e.key === "0") {
      touched.current = true
      setView(whole())
    } else return
    e.preventDefault()
  }

  // Arrow keys that came before what is selected.
  const early = useRef<[number, number][]>([])
  useEffect(() => {
    if (p.pending || early.current.length === 0) return
    let to = p.selected
    for (const [dx, dy] of early.current.splice(0)) {
      const next = neighbour(p.scene, to, dx, dy)
      if (next >= 0) to = next
    }
    if (to >= 0 && to !== p.selected) p.onSelect(to)
  }, [p.pending, p.selected])

  const chosen = p.names.get(p.selected)
  return (
    <div className="field">
      {p.above && view && p.above(view, size.width)}
      <div ref={host} className="field-host" role="application" tabIndex={0} aria-label={`${p.label}. ${p.help ?? "Arrow keys move between steps"}, plus and minus zoom, 0 shows everything, T shows a table`} onKeyDown={key}>
        <canvas key={String(inMemory)} ref={canvas} aria-hidden="true" />
        {bare && view && <div className="field-layer" style={{ transform: `translate(${-view.x * view.sx}px, ${-view.y * view.sy}px) scale(${view.sx})`, "--k": Math.max(1, 1 / view.sx) } as React.CSSProperties}>{p.layer!(elements)}</div>}
        {p.over && view && size.width > 0 && p.over(view, size.width, size.height)}
        {tip && <div className="field-tip" style={{ left: Math.min(tip.x + 14, size.width - 220), top: Math.min(tip.y + 14, size.height - 60) }}>{p.tip(tip.index)}</div>}
      </div>
      <div className="field-buttons">
        <button type="button" className="button" aria-label="Zoom in" onClick={() => scale(1.5, size.width / 2, size.height / 2, false)}>+</button>
        <button type="button" className="button" aria-label="Zoom out" onClick={() => scale(1 / 1.5, size.width / 2, size.height / 2, false)}>−</button>
        <button type="button" className="button" aria-label="Show everything" onClick={() => setView(whole())}>⤢</button>
      </div>
      <span className="hidden-text" aria-live="polite">{chosen ? `${chosen.step_id}, ${p.states[p.scene.status[p.selected]!] ?? ""}` : ""}</span>
    </div>
  )
}
