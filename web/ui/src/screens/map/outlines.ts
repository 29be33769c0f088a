// Countries and the graticule as paths on the plane. Natural Earth's 1:110m comes with the map, 1:50m when one looks closer.
import { geoGraticule10, geoPath, geoProjection, type GeoPermissibleObjects } from "d3-geo"
import { mesh } from "topojson-client"
import type { GeometryCollection, Topology } from "topojson-specification"
import { down, type Kind } from "./projection"

export type Detail = "110m" | "50m"

const atlas: Record<Detail, () => Promise<{ default: unknown }>> = {
  "110m": () => import("world-atlas/countries-110m.json"),
  "50m": () => import("world-atlas/countries-50m.json"),
}

const degrees = 180 / Math.PI
const kept = new Map<string, Promise<Path2D>>()

// d3 cuts lines at the edge of the map, wherever that is. A unit of its plane is a degree of ours; so small a precision
// is that of straight lines only, whose bends are resampled.
function drawn(shape: GeoPermissibleObjects, kind: Kind, centre: number): Path2D {
  const raw = (lambda: number, phi: number): [number, number] => [lambda, -down(kind, phi * degrees) / degrees]
  const projection = geoProjection(raw).rotate([-centre, 0]).scale(degrees).translate([0, 0]).precision(0.05)
  return new Path2D(geoPath(projection)(shape) ?? "")
}

function keep(key: string, make: () => Promise<Path2D>): Promise<Path2D> {
  const found = kept.get(key)
  if (found) return found
  const made = make()
  kept.set(key, made)
  made.catch(() => kept.delete(key))
  return made
}

/** countries is the borders and coasts. */
export const countries = (detail: Detail, kind: Kind, centre: number) =>
  keep(`${detail} ${kind} ${centre}`, async () => {
    const topology = (await atlas[detail]()).default as Topology<{ countries: GeometryCollection }>
    return drawn(mesh(topology, topology.objects.countries), kind, centre)
  })

/** graticule is the lines of every ten degrees. */
export const graticule = (kind: Kind, centre: number) => keep(`graticule ${kind} ${centre}`, async () => drawn(geoGraticule10(), kind, centre))
