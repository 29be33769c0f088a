import { expect, test } from "vitest"
import { arrange } from "./layouts"
import { packed, paintPixels } from "./pixels"
import type { Scene, View } from "./raster"
import { fan } from "./synthetic.test-data"
import { triesOf, type Tries } from "./tries"
import { queuedCode, tryStates, waitingCode, type Rows } from "./waterfall"

const states = ["completed", "failed", "running", "skipped", "queued"]
const fill = tryStates.map((s, i) => (s === "absent" ? undefined : `#${(0x203040 + i * 0x0a0b0c).toString(16)}`))
const loud = tryStates.map((s) => (s === "failed" ? 2 : s === "running" ? 1 : 0))
const paint = { fill, loud, ground: "#ffffff", waits: { queued: "#8888ff", backoff: "#ff8800", waiting: "#ff00ff" } }

// mix and plain say the same as paintPixels, box by box and pixel by pixel.
const mix = (a: number, b: number, of: number) => [24, 16, 8, 0].reduce((sum, shift) => (sum | (shift === 24 ? 0xff000000 : Math.round(((a >>> shift) & 255) * of + ((b >>> shift) & 255) * (1 - of)) << shift)) >>> 0, 0)

function plain(width: number, height: number, { layout: l, status, dim }: Scene, v: View, least: number): Uint32Array {
  const ground = packed(paint.ground)
  const out = new Uint32Array(width * height).fill(ground)
  const spans = l.spans!
  const frames = new Set(l.frames)
  const shown = Array.from({ length: l.n }, (_, i) => i).filter((i) => l.w[i]! > 0 && !frames.has(i) && fill[status[i]!])
  for (const [colour, of, from, to] of [["#8888ff", 0.4, (i: number) => l.x[i]!, (i: number) => spans.run[i]!], ["#ff8800", 0.7, (i: number) => (status[i] === waitingCode ? Infinity : spans.rest[i]!), (i: number) => l.x[i]! + l.w[i]!], ["#ff00ff", 0.7, (i: number) => (status[i] === waitingCode ? spans.rest[i]! : Infinity), (i: number) => l.x[i]! + l.w[i]!]] as const) {
    for (const i of shown) {
      const y = Math.floor((l.y[i]! - v.y) * v.sy)
      if (dim?.[i] || y < 0 || y >= height || to(i) <= from(i)) continue
      for (let x = Math.max(0, Math.floor((from(i) - v.x) * v.sx)); x < Math.min(width, Math.floor((to(i) - v.x) * v.sx)); x++) out[y * width + x] = mix(packed(colour), ground, of)
    }
  }
  for (let pass = 0; pass <= 2; pass++) {
    const size = pass ? least : 1
    for (const i of shown) {
      if ((dim?.[i] ? 0 : loud[status[i]!]) !== pass || status[i] === queuedCode) continue
      const colour = dim?.[i] ? mix(packed(fill[status[i]!]!), ground, 0.15) : packed(fill[status[i]!]!)
      let [x0, y0] = [Math.trunc((spans.run[i]! - v.x) * v.sx), Math.trunc((l.y[i]! - v.y) * v.sy)]
      let [x1, y1] = [Math.max(x0 + size, Math.trunc((spans.rest[i]! - v.x) * v.sx)), Math.max(y0 + size, Math.trunc((l.y[i]! + l.h[i]! - v.y) * v.sy))]
      if (x1 <= 0 || y1 <= 0 || x0 >= width || y0 >= height) continue
      if (x0 < 0) [x0, x1] = [0, Math.max(x1, size)]
      if (y0 < 0) [y0, y1] = [0, Math.max(y1, size)]
      if (x1 > width) [x0, x1] = [Math.max(0, Math.min(x0, width - size)), width]
      if (y1 > height) [y0, y1] = [Math.max(0, Math.min(y0, height - size)), height]
      for (let y = y0; y < y1; y++) out.fill(colour, y * width + x0, y * width + x1)
    }
  }
  return out
}

// Numbers that are the same in every run.
function series(seed: number) {
  return (below: number) => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((seed / 2 ** 32) * below)
  }
}

test("pictures of attempts are those that one gets box by box, at any place and size", () => {
  const next = series(7)
  const steps = fan(400)
  for (let round = 0; round < 120; round++) {
    const rows = (["packed", "worker", "queue", "step"] as Rows[])[round % 4]!
    const base = triesOf(steps)
    const t: Tries = { ...base, outcomes: ["", ...states, "waiting"], outcome: Uint8Array.from({ length: base.n }, () => (next(9) ? next(4) : states.length + 1)), queued: new Uint32Array(base.n), started: new Uint32Array(base.n), ended: new Uint32Array(base.n), backoff: new Uint32Array(base.n) }
    for (let i = 0; i < t.n; i++) {
      t.queued[i] = 1 + next(2000)
      t.started[i] = next(5) === 0 ? 0 : t.queued[i]! + next(round % 3 ? 1 : 200)
      t.ended[i] = t.started[i] && t.outcome[i]! > 0 ? t.started[i]! + next(120) : 0
      t.backoff[i] = round % 5 ? 0 : next(90)
    }
    const layout = arrange(steps, { kind: "waterfall", rows, now: steps.began + 2500 }, t)
    const dim = next(2) ? Uint8Array.from({ length: layout.n }, () => next(2)) : undefined
    const scene: Scene = { layout, status: layout.spans!.state, dim }
    const [width, height] = [60 + next(200), 40 + next(120)]
    for (const sy of [1, 2, 0.5, 0.23, 0.1, 0.03]) {
      const [x0, y0, x1, y1] = layout.index.bounds
      const view = { x: x0 + ((x1 - x0) * next(100)) / 100 - next(50), y: y0 + ((y1 - y0) * next(100)) / 100 - next(60) / sy, sx: [0.02, 0.3, 1, 7][next(4)]!, sy }
      const out = new Uint32Array(width * height).fill(packed(paint.ground))
      paintPixels(out, width, height, scene, view, paint, 3)
      const wanted = plain(width, height, scene, view, 3)
      expect(out.findIndex((p, i) => p !== wanted[i]), `round ${round}, rows ${rows}, ${JSON.stringify(view)}`).toBe(-1)
    }
  }
}, 60_000)
