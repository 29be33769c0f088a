import { expect, test } from "vitest"
import { boxOf, down, latitudeAt, outside, parseBox, parts, place, scaleBar, turned, type Footprints, type Kind } from "./projection"

const kinds: Kind[] = ["mercator", "equal"]

const footprints = (boxes: number[][]): Footprints => ({
  n: boxes.length, total: boxes.length, state: new Uint8Array(boxes.length),
  west: Float32Array.from(boxes, (b) => b[0]!), south: Float32Array.from(boxes, (b) => b[1]!), east: Float32Array.from(boxes, (b) => b[2]!), north: Float32Array.from(boxes, (b) => b[3]!),
})

test("latitudes go to the plane and back; north is up", () => {
  for (const kind of kinds) {
    for (let lat = -85; lat <= 85; lat += 5) expect(latitudeAt(kind, down(kind, lat))).toBeCloseTo(lat, 8)
    expect(down(kind, 10)).toBeLessThan(down(kind, -10))
  }
  expect(down("mercator", 90)).toBeCloseTo(-180, 6)
  expect(latitudeAt("mercator", -1e9)).toBeCloseTo(85.0511, 4)
  expect(latitudeAt("equal", -1e9)).toBe(90)
})

test("equal area: bands of the same area on the globe are of the same height", () => {
  const height = (a: number, b: number) => down("equal", a) - down("equal", b)
  for (const s of [0, 0.2, 0.4, 0.6, 0.8]) {
    const [a, b] = [Math.asin(s), Math.asin(Math.min(1, s + 0.2))].map((v) => (v * 180) / Math.PI) as [number, number]
    expect(height(a, b)).toBeCloseTo(height(0, (Math.asin(0.2) * 180) / Math.PI), 6)
  }
})

test("Mercator keeps angles: a small square is one", () => {
  for (const lat of [0, 30, 60, 80]) {
    const tall = (down("mercator", lat) - down("mercator", lat + 0.001)) / 0.001
    expect(tall * Math.cos((lat * Math.PI) / 180)).toBeCloseTo(1, 3)
  }
})

test("longitudes as seen from a centre", () => {
  expect([turned(170, 0), turned(-170, 180), turned(170, 180), turned(180, 0), turned(-180, 0), turned(0, 180)]).toEqual([170, 10, -10, 180, -180, -180])
})

test("a box over the antimeridian is cut at the edge, and whole where that is elsewhere", () => {
  expect(parts(170, -170, 0)).toEqual([[170, 180], [-180, -170]])
  expect(parts(170, -170, 180)).toEqual([[-10, 10]])
  expect(parts(-10, 10, 180)).toEqual([[170, 180], [-180, -170]])
  expect(parts(-180, 180, 0)).toEqual([[-180, 180]])
  expect(parts(-180, 180, 90)).toEqual([[-180, 180]])
  expect(parts(180, -179, 0)).toEqual([[-180, -179]])
  expect(parts(179, 180, 0)).toEqual([[179, 180]])
  expect(parts(5, 5, 0)).toEqual([[5, 5]])
})

test("footprints are boxes; a cut one has two, and nothing spans the map", () => {
  const p = place(footprints([[0, 0, 1, 1], [179, -5, -179, 5], [10, 10, 10, 10]]), "equal", 0)
  expect([...p.row]).toEqual([0, 1, 1, 2])
  expect(Math.max(...p.layout.w)).toBeLessThanOrEqual(1)
  expect(Math.min(...p.layout.w, ...p.layout.h)).toBeGreaterThan(0)
  expect(place(footprints([[179, -5, -179, 5]]), "mercator", 180).layout.w[0]).toBe(2)
})

test("a box of the plane is one on the globe, and selects what it meets", () => {
  for (const kind of kinds) {
    for (const centre of [0, 180]) {
      const f = footprints([[0, 0, 1, 1], [179, -5, -179, 5], [-60, 20, -50, 30]])
      const p = place(f, kind, centre)
      const over = boxOf(kind, centre, turned(178, centre), down(kind, -1), turned(179.5, centre), down(kind, 1))
      expect(over[0]).toBeCloseTo(178, 4)
      expect(over[3]).toBeCloseTo(1, 4)
      const rows = [...outside(p, over, kind, centre)].flatMap((out, i) => (out ? [] : [p.row[i]]))
      expect([...new Set(rows)]).toEqual([1])
      expect(boxOf(kind, centre, -180, 500, 180, -500)[2]).toBe(180)
    }
  }
  expect(boxOf("equal", 180, -10, 0, 10, 1).slice(0, 3)).toEqual([170, expect.anything(), -170])
})

test("boxes of addresses", () => {
  expect(parseBox("1,2,3,4")).toEqual([1, 2, 3, 4])
  expect(parseBox("170,-1,-170,1")).toEqual([170, -1, -170, 1])
  for (const bad of [undefined, "", "1,2,3", "1,5,3,4", "181,0,0,0", "a,b,c,d", ",,,", "1,2,,4"]) expect(parseBox(bad)).toBeUndefined()
})

test("the scale is a round length that fits", () => {
  expect(scaleBar(4, 0, 120)).toEqual({ pixels: expect.closeTo(71.9, 1), text: "2000 km" })
  expect(scaleBar(4, 60, 120).text).toBe("1000 km")
  expect(scaleBar(100_000, 0, 120).text).toBe("100 m")
})
