import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "react"
import { gestures } from "../../field/gestures"
import { tokenOf, useTheme } from "../../field/paint"
import { inside } from "../../field/pick"
import { paintPixels } from "../../field/pixels"
import { fit, formatView, pan, parseView, zoom } from "../../field/view"
import type { View } from "../../field/raster"
import { useSearchParams } from "../../url"
import { countries, graticule, type Detail } from "./outlines"
import { boxOf, down, farthest, latitudeAt, outside, parts, scaleBar, type Box, type Kind, type Placed } from "./projection"

// From this many pixels a degree on, borders are drawn from the finer data.
const close = 18
const fewBoxes = 4000

interface Props {
  placed: Placed
  kind: Kind
  centre: number
  box?: Box
  /** The next drag draws a box. */
  choosing: boolean
  chosen: (box: Box) => void
}

/** MapCanvas draws the globe's outlines and the footprints above them: each has a canvas, as only the second changes with the data. */
export function MapCanvas({ placed, kind, centre, box, choosing, chosen }: Props) {
  const host = useRef<HTMLDivElement>(null)
  const land = useRef<HTMLCanvasElement>(null)
  const prints = useRef<HTMLCanvasElement>(null)
  const [search, setSearch] = useSearchParams()
  const [size, setSize] = useState({ width: 0, height: 0 })
  const [view, setView] = useState<View | undefined>(() => parseView(search.z))
  const [lines, setLines] = useState<{ land: Path2D; grid: Path2D }>()
  const theme = useTheme()
  const touched = useRef(false)

  useEffect(() => {
    const watch = new ResizeObserver(([e]) => { if (e) setSize({ width: e.contentRect.width, height: e.contentRect.height }) })
    watch.observe(host.current!)
    return () => watch.disconnect()
  }, [])
  const edge = -down(kind, farthest[kind])
  const whole = useCallback(() => fit([-180, -edge, 180, edge], size.width, size.height, false, 1e6), [edge, size])
  useEffect(() => { if (size.width > 0) setView((v) => (v && touched.current ? v : parseView(search.z) ?? whole())) }, [size, whole]) // eslint-disable-line

  const detail: Detail = view && view.sx > close ? "50m" : "110m"
  useEffect(() => {
    let on = true
    void Promise.all([countries(detail, kind, centre), graticule(kind, centre)]).then(([land, grid]) => { if (on) setLines({ land, grid }) })
    return () => { on = false }
  }, [detail, kind, centre])

  useEffect(() => {
    if (!view || !touched.current) return
    const timer = setTimeout(() => setSearch({ z: formatView(view) }), 400)
    return () => clearTimeout(timer)
  }, [view, setSearch])

  const move = useCallback((next: (v: View) => View) => {
    touched.current = true
    setView((v) => v && next(v))
  }, [])
  const by = useCallback((dx: number, dy: number) => move((v) => pan(v, dx, dy, [-180, -edge, 180, edge], size.width, size.height)), [edge, move, size])
  const scale = useCallback((factor: number, x: number, y: number) => {
    const least = whole().sx / 2
    move((v) => pan(zoom(v, factor, x, y, "both", { least, most: 200_000 }), 0, 0, [-180, -edge, 180, edge], size.width, size.height))
  }, [edge, move, size, whole])
  const around = useCallback((x: number, y: number, x1 = x, y1 = y, margin = 2) => {
    if (!view) return
    chosen(boxOf(kind, centre, view.x + (x - margin) / view.sx, view.y + (y - margin) / view.sy, view.x + (x1 + margin) / view.sx, view.y + (y1 + margin) / view.sy))
  }, [view, kind, centre, chosen])
  useEffect(() => (choosing ? undefined : gestures(host.current!, { pan: by, zoom: scale, scroll: () => false, click: (x, y) => around(x, y), hover: () => {} })), [choosing, by, scale, around])

  useLayoutEffect(() => {
    if (!view || !size.width || !lines) return
    const frame = requestAnimationFrame(() => {
      const ratio = Math.min(2, window.devicePixelRatio || 1)
      for (const el of [land.current!, prints.current!]) {
        const [w, h] = [Math.round(size.width * ratio), Math.round(size.height * ratio)]
        if (el.width !== w || el.height !== h) [el.width, el.height] = [w, h]
      }
      drawOutlines(land.current!.getContext("2d", { alpha: false })!, view, ratio, lines, edge)
      drawPrints(prints.current!.getContext("2d")!, view, ratio, placed, box && outside(placed, box, kind, centre))
      prints.current!.dataset.drawn = String(placed.layout.n)
    })
    return () => cancelAnimationFrame(frame)
  }, [view, size, lines, placed, box, kind, centre, theme, edge])

  const keys = (e: React.KeyboardEvent) => {
    const step = 80
    const act: Record<string, () => void> = {
      ArrowLeft: () => by(step, 0), ArrowRight: () => by(-step, 0), ArrowUp: () => by(0, step), ArrowDown: () => by(0, -step),
      "+": () => scale(1.5, size.width / 2, size.height / 2), "-": () => scale(1 / 1.5, size.width / 2, size.height / 2), "0": () => { touched.current = false; setView(whole()); setSearch({ z: undefined }) },
    }
    if (!act[e.key]) return
    e.preventDefault()
    act[e.key]!()
  }
  const bar = view && scaleBar(view.sx, latitudeAt(kind, view.y + size.height / 2 / view.sy), 140)
  return (
    <div className="map-host" ref={host} tabIndex={0} role="application" aria-label="Map: arrow keys move it, plus and minus zoom, 0 shows all" onKeyDown={keys}>
      <canvas ref={land} aria-hidden="true" />
      <canvas ref={prints} className="map-prints" role="img" aria-label={`${placed.layout.n} footprints`} />
      {box && view && <Marked box={box} kind={kind} centre={centre} view={view} />}
      {choosing && <Lasso done={(x0, y0, x1, y1) => around(x0, y0, x1, y1, 0)} />}
      <div className="map-tools">
        <button type="button" className="button" aria-label="Zoom in" onClick={() => scale(2, size.width / 2, size.height / 2)}>+</button>
        <button type="button" className="button" aria-label="Zoom out" onClick={() => scale(0.5, size.width / 2, size.height / 2)}>−</button>
      </div>
      {bar && <div className="map-scale" aria-label={`Scale: ${bar.text}`}><i style={{ width: bar.pixels }} />{bar.text}</div>}
    </div>
  )
}

function Marked({ box, kind, centre, view: v }: { box: Box; kind: Kind; centre: number; view: View }) {
  const [top, bottom] = [down(kind, box[3]), down(kind, box[1])]
  return <>{parts(box[0], box[2], centre).map(([from, to]) => (
    <div key={from} className="map-box" style={{ left: (from - v.x) * v.sx, top: (top - v.y) * v.sy, width: Math.max(4, (to - from) * v.sx), height: Math.max(4, (bottom - top) * v.sy) }} />
  ))}</>
}

/** Lasso takes one drag as a box. */
function Lasso({ done }: { done: (x0: number, y0: number, x1: number, y1: number) => void }) {
  const [drag, setDrag] = useState<[number, number, number, number]>()
  const at = (e: React.PointerEvent<HTMLElement>): [number, number] => {
    const r = e.currentTarget.getBoundingClientRect()
    return [e.clientX - r.left, e.clientY - r.top]
  }
  return (
    <div className="map-lasso"
      onPointerDown={(e) => { e.currentTarget.setPointerCapture(e.pointerId); setDrag([...at(e), ...at(e)]) }}
      onPointerMove={(e) => { const to = at(e); setDrag((d) => d && [d[0], d[1], ...to]) }}
      onPointerUp={(e) => { if (drag) done(drag[0], drag[1], ...at(e)); setDrag(undefined) }}
      onPointerCancel={() => setDrag(undefined)}>
      {drag && <div className="map-box" style={{ left: Math.min(drag[0], drag[2]), top: Math.min(drag[1], drag[3]), width: Math.abs(drag[2] - drag[0]), height: Math.abs(drag[3] - drag[1]) }} />}
    </div>
  )
}

function drawOutlines(ctx: CanvasRenderingContext2D, v: View, ratio: number, lines: { land: Path2D; grid: Path2D }, edge: number) {
  const { width, height } = ctx.canvas
  ctx.setTransform(1, 0, 0, 1, 0, 0)
  ctx.fillStyle = tokenOf("--ground")
  ctx.fillRect(0, 0, width, height)
  const [sx, sy] = [v.sx * ratio, v.sy * ratio]
  ctx.setTransform(sx, 0, 0, sy, -v.x * sx, -v.y * sy)
  ctx.lineWidth = ratio / sx
  ctx.strokeStyle = tokenOf("--line")
  ctx.stroke(lines.grid)
  ctx.strokeStyle = tokenOf("--line-strong")
  ctx.strokeRect(-180, -edge, 360, 2 * edge)
  ctx.strokeStyle = tokenOf("--quiet")
  ctx.stroke(lines.land)
}

let image: ImageData | undefined

function drawPrints(ctx: CanvasRenderingContext2D, v: View, ratio: number, { layout, status }: Placed, dim?: Uint8Array) {
  const { width, height } = ctx.canvas
  const at = { x: v.x, y: v.y, sx: v.sx * ratio, sy: v.sy * ratio }
  const fill = [tokenOf("--state-completed"), tokenOf("--state-failed")]
  ctx.setTransform(1, 0, 0, 1, 0, 0)
  ctx.clearRect(0, 0, width, height)
  const seen = inside(layout, layout.index, at.x, at.y, at.x + width / at.sx, at.y + height / at.sy, fewBoxes + 1)
  if (seen.length > fewBoxes) {
    if (!image || image.width !== width || image.height !== height) image = ctx.createImageData(width, height)
    const out = new Uint32Array(image.data.buffer)
    out.fill(0)
    paintPixels(out, width, height, { layout, status, dim }, at, { fill, loud: [0, 1], ground: tokenOf("--ground") }, Math.round(3 * ratio))
    ctx.putImageData(image, 0, 0)
    return
  }
  for (const state of [0, 1]) { // failed ones last, so that nothing hides them
    ctx.fillStyle = ctx.strokeStyle = fill[state]!
    const least = (state ? 3 : 2) * ratio
    for (const i of seen) {
      if (status[i] !== state) continue
      const [x, y, w, h] = [(layout.x[i]! - at.x) * at.sx, (layout.y[i]! - at.y) * at.sy, Math.max(least, layout.w[i]! * at.sx), Math.max(least, layout.h[i]! * at.sy)]
      ctx.globalAlpha = dim?.[i] ? 0.06 : 0.3
      ctx.fillRect(x, y, w, h)
      ctx.globalAlpha = dim?.[i] ? 0.2 : 1
      ctx.strokeRect(x, y, w, h)
    }
  }
  ctx.globalAlpha = 1
}
