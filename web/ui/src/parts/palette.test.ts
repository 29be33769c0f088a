// The loud states differ for everybody, and stand out against the ground (WCAG 2.2; Machado 2009 for colour blindness; CIE76).
import { readFileSync } from "node:fs"
import { expect, test } from "vitest"
import { loud, looks } from "../states"

const css = readFileSync(new URL("./tokens.css", import.meta.url), "utf8")

function tokens(theme: "light" | "dark"): Map<string, string> {
  const begin = theme === "light" ? css.indexOf(':root[data-theme="light"] {') : css.lastIndexOf(':root[data-theme="dark"] {')
  const block = css.slice(begin, css.indexOf("}", begin))
  return new Map([...block.matchAll(/(--[\w-]+): (#[0-9a-f]{6})/g)].map((m) => [m[1]!, m[2]!]))
}

type Three = [number, number, number]
const linear = (hex: string) =>
  [1, 3, 5].map((i) => {
    const v = parseInt(hex.slice(i, i + 2), 16) / 255
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4
  }) as Three
const times = (m: number[][], v: Three) => m.map((r) => Math.min(1, Math.max(0, r[0]! * v[0] + r[1]! * v[1] + r[2]! * v[2]))) as Three

const vision: Record<string, number[][]> = {
  normal: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protan: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deutan: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritan: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}

function lab(v: Three): Three {
  const [x, y, z] = times([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]], v)
  const f = (t: number) => (t > 216 / 24389 ? Math.cbrt(t) : (24389 / 27 / 116) * t + 16 / 116)
  const [fx, fy, fz] = [f(x / 0.95047), f(y), f(z / 1.08883)]
  return [116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)]
}

const contrast = (a: string, b: string) => {
  const [x, y] = [a, b].map((c) => {
    const [r, g, bl] = linear(c)
    return 0.2126 * r + 0.7152 * g + 0.0722 * bl
  }) as [number, number]
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05)
}

for (const theme of ["light", "dark"] as const) {
  const of = tokens(theme)

  test(`${theme}: the loud states differ by 25 at least, for everybody`, () => {
    for (const [name, matrix] of Object.entries(vision)) {
      for (const [i, a] of loud.entries()) {
        for (const b of loud.slice(i + 1)) {
          const [p, q] = [a, b].map((s) => lab(times(matrix, linear(of.get(looks[s].token)!)))) as [Three, Three]
          expect(Math.hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2]), `${name}: ${a} and ${b}`).toBeGreaterThanOrEqual(25)
        }
      }
    }
  })

  test(`${theme}: states stand out 3:1, text 4.5:1`, () => {
    for (const s of loud) expect(contrast(of.get(looks[s].token)!, of.get("--ground")!), s).toBeGreaterThanOrEqual(3)
    for (const text of ["--text", "--quiet", "--accent", "--danger", "--warn"]) {
      for (const ground of ["--ground", "--sunk", "--raised"]) {
        expect(contrast(of.get(text)!, of.get(ground)!), `${text} on ${ground}`).toBeGreaterThanOrEqual(4.5)
      }
    }
    expect(contrast(of.get("--on-accent")!, of.get("--accent")!)).toBeGreaterThanOrEqual(4.5)
    expect(contrast(of.get("--warn")!, of.get("--warn-ground")!)).toBeGreaterThanOrEqual(4.5)
    expect(contrast(of.get("--danger")!, of.get("--danger-ground")!)).toBeGreaterThanOrEqual(4.5)
    expect(contrast(of.get("--text")!, of.get("--chosen")!)).toBeGreaterThanOrEqual(4.5)
  })
}
