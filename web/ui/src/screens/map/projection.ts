// From degrees to a plane and back. Both projections are cylindrical: x is the longitude, so that a box on the globe is a box here, and
// the field's rasteriser draws it. One unit is a degree at the equator (Mercator) or at 37.5° (equal area, Hobo–Dyer). Pure.
import type { Layout } from "../../field/layouts"
import { indexOf } from "../../field/pick"

export type Kind = "mercator" | "equal"

const rad = Math.PI / 180
const standard = Math.cos(37.5 * rad) ** 2
/** Mercator has no poles: it ends where the world is a square. */
export const farthest: Record<Kind, number> = { mercator: 85.0511287798066, equal: 90 }

const clamp = (v: number, most: number) => Math.max(-most, Math.min(most, v))

/** down is how far below the equator a latitude is drawn. */
export function down(kind: Kind, latitude: number): number {
  const phi = clamp(latitude, farthest[kind]) * rad
  return kind === "equal" ? -Math.sin(phi) / standard / rad : -Math.log(Math.tan(Math.PI / 4 + phi / 2)) / rad
}

/** latitudeAt is the inverse of down; beyond the edge it is that of the edge. */
export function latitudeAt(kind: Kind, y: number): number {
  const most = -down(kind, farthest[kind])
  const v = -clamp(y, most) * rad
  return kind === "equal" ? Math.asin(clamp(v * standard, 1)) / rad : (2 * Math.atan(Math.exp(v)) - Math.PI / 2) / rad
}

/** turned is a longitude as seen from the one in the centre: from −180 to 180. */
export function turned(longitude: number, centre: number): number {
  const t = ((((longitude - centre + 180) % 360) + 360) % 360) - 180
  return t === -180 && longitude > centre ? 180 : t
}

/** parts are the spans of a box that goes east from west, which may be less: two where the edge of the map cuts it. */
export function parts(west: number, east: number, centre: number): [number, number][] {
  const width = east >= west ? east - west : east - west + 360
  if (width >= 360) return [[-180, 180]]
  const from = turned(west, centre) === 180 && width > 0 ? -180 : turned(west, centre)
  return from + width <= 180 ? [[from, from + width]] : [[from, 180], [-180, from + width - 360]]
}

export interface Footprints {
  n: number
  total: number
  state: Uint8Array
  west: Float32Array
  south: Float32Array
  east: Float32Array
  north: Float32Array
}

export interface Placed {
  layout: Layout
  /** The row of each box: one that is cut has two boxes. */
  row: Uint32Array
  /** Its state. */
  status: Uint8Array
}

// Points and lines have a size all the same: a box without one is drawn nowhere.
const least = 1e-4

/** place arranges footprints on the plane. */
export function place(f: Footprints, kind: Kind, centre: number): Placed {
  const room = 2 * f.n
  const [x, y, w, h] = [new Float32Array(room), new Float32Array(room), new Float32Array(room), new Float32Array(room)]
  const row = new Uint32Array(room)
  let n = 0
  const add = (i: number, from: number, to: number, top: number, bottom: number) => {
    x[n] = from
    y[n] = top
    w[n] = Math.max(least, to - from)
    h[n] = Math.max(least, bottom - top)
    row[n++] = i
  }
  for (let i = 0; i < f.n; i++) {
    const [west, east] = [f.west[i]!, f.east[i]!]
    const [top, bottom] = [down(kind, f.north[i]!), down(kind, f.south[i]!)]
    const from = west - centre < -180 ? west - centre + 360 : west - centre
    if (east >= west && from + east - west < 180) add(i, from, from + east - west, top, bottom) // nearly all
    else for (const [start, end] of parts(west, east, centre)) add(i, start, end, top, bottom)
  }
  const boxes = { n, x: x.slice(0, n), y: y.slice(0, n), w: w.slice(0, n), h: h.slice(0, n) }
  const status = new Uint8Array(n)
  for (let k = 0; k < n; k++) status[k] = f.state[row[k]!]!
  return { layout: { ...boxes, frames: new Uint32Array(0), gaps: [], index: indexOf(boxes) }, row: row.slice(0, n), status }
}

export type Box = [west: number, south: number, east: number, north: number]

/** boxOf is the box on the globe between two places of the plane. */
export function boxOf(kind: Kind, centre: number, x0: number, y0: number, x1: number, y1: number): Box {
  const [left, right] = [clamp(Math.min(x0, x1), 180), clamp(Math.max(x0, x1), 180)]
  const back = (x: number) => turned(x + centre, 0)
  const round = (v: number) => Math.round(v * 1e5) / 1e5
  const west = left <= -180 && right >= 180 ? -180 : back(left)
  const east = left <= -180 && right >= 180 ? 180 : back(right)
  return [round(west), round(latitudeAt(kind, Math.max(y0, y1))), round(east), round(latitudeAt(kind, Math.min(y0, y1)))]
}

/** parseBox reads a box of an address. */
export function parseBox(text: string | undefined): Box | undefined {
  const n = text?.split(",").map(Number)
  const good = n?.length === 4 && n.every((v, i) => Number.isFinite(v) && Math.abs(v) <= (i % 2 ? 90 : 180)) && n[1]! <= n[3]!
  return good && text?.split(",").every((t) => t.trim() !== "") ? (n as Box) : undefined
}

/** outside marks the boxes that do not meet a box on the globe. */
export function outside(p: Placed, box: Box, kind: Kind, centre: number): Uint8Array {
  const { layout: l } = p
  const [top, bottom] = [down(kind, box[3]), down(kind, box[1])]
  const spans = parts(box[0], box[2], centre)
  const hit = new Uint8Array(l.n ? p.row[l.n - 1]! + 1 : 0) // by row: both boxes of one that is cut
  for (let i = 0; i < l.n; i++) {
    if (l.y[i]! > bottom || l.y[i]! + l.h[i]! < top) continue
    if (spans.some(([from, to]) => l.x[i]! <= to && l.x[i]! + l.w[i]! >= from)) hit[p.row[i]!] = 1
  }
  return Uint8Array.from(p.row, (r) => (hit[r] ? 0 : 1))
}

/** scaleBar is a round length that takes at most so many pixels at a latitude, of which a degree of longitude has so many. */
export function scaleBar(perDegree: number, latitude: number, most: number): { pixels: number; text: string } {
  const perKm = perDegree / (111.32 * Math.max(0.01, Math.cos(latitude * rad)))
  const room = most / perKm
  const ten = 10 ** Math.floor(Math.log10(room))
  const km = [5, 2, 1].map((f) => f * ten).find((v) => v <= room) ?? ten
  return { pixels: km * perKm, text: km >= 1 ? `${km} km` : `${Math.round(km * 1000)} m` }
}
