// Escape sequences of terminals in log lines: colours are kept, all others removed. Pure; what it gives is text, never markup.

export interface Style {
  color?: string
  background?: string
  bold?: boolean
  dim?: boolean
  italic?: boolean
  underline?: boolean
  strike?: boolean
}
export interface Span extends Style { text: string }

type RGB = [number, number, number]

/** The 16 colours of terminals, which are adjusted to their ground like all others. */
const basic: RGB[] = [[0, 0, 0], [194, 54, 33], [37, 150, 36], [150, 130, 0], [40, 80, 200], [180, 50, 180], [20, 140, 160], [190, 190, 190], [110, 110, 110], [240, 70, 60], [50, 190, 60], [220, 190, 40], [90, 130, 255], [240, 90, 240], [40, 200, 220], [255, 255, 255]]

interface Now { fg?: RGB; bg?: RGB; bold?: boolean; dim?: boolean; italic?: boolean; underline?: boolean; strike?: boolean; inverse?: boolean; hidden?: boolean }

const most = 500 // spans of a line; the rest of it has the style of the last one

// A control sequence, an operating system command (title, link), another escape, or a control character but tab.
// eslint-disable-next-line no-control-regex
const sequence = /\x1b\[([0-9;:?<=>!]*)[ -/]*(?:([@-~])|$)|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b[ -/]*[0-~]?|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]/g

/** parse gives the parts of a line with their styles; colours stand out 4.5:1 from the ground, a colour #rrggbb. */
export function parse(line: string, ground: string): Span[] {
  if (!/[\x00-\x08\x0b-\x1f\x7f-\x9f]/.test(line)) return line ? [{ text: line }] : []
  const out: Span[] = []
  const now: Now = {}
  let at = 0
  const add = (text: string) => {
    if (!text || now.hidden) return
    const style = styleOf(now, rgb(ground))
    const last = out.at(-1)
    if (last && (out.length >= most || same(last, style))) last.text += text
    else out.push({ text, ...style })
  }
  for (const m of line.matchAll(sequence)) {
    add(line.slice(at, m.index))
    at = m.index + m[0].length
    if (m[2] === "m" && !/[?<=>!]/.test(m[1]!)) graphics(m[1]!, now)
  }
  add(line.slice(at))
  return out
}

/** plain is a line without its sequences. */
export const plain = (line: string) => line.replace(sequence, "")

const same = (a: Style, b: Style) => a.color === b.color && a.background === b.background && a.bold === b.bold && a.dim === b.dim && a.italic === b.italic && a.underline === b.underline && a.strike === b.strike

// graphics applies the numbers of one sequence (SGR).
function graphics(text: string, now: Now) {
  const n = text.split(/[;:]/).slice(0, 64).map((t) => (t === "" ? 0 : Number(t)))
  for (let i = 0; i < n.length; i++) {
    const c = n[i]!
    if (c === 0) for (const k of Object.keys(now) as (keyof Now)[]) delete now[k]
    else if (c === 1) now.bold = true
    else if (c === 2) now.dim = true
    else if (c === 3) now.italic = true
    else if (c === 4) now.underline = true
    else if (c === 7) now.inverse = true
    else if (c === 8) now.hidden = true
    else if (c === 9) now.strike = true
    else if (c === 22) now.bold = now.dim = false
    else if (c === 23) now.italic = false
    else if (c === 24) now.underline = false
    else if (c === 27) now.inverse = false
    else if (c === 28) now.hidden = false
    else if (c === 29) now.strike = false
    else if (c === 39) delete now.fg
    else if (c === 49) delete now.bg
    else if (c >= 30 && c <= 37) now.fg = basic[c - 30]!
    else if (c >= 40 && c <= 47) now.bg = basic[c - 40]!
    else if (c >= 90 && c <= 97) now.fg = basic[c - 82]!
    else if (c >= 100 && c <= 107) now.bg = basic[c - 92]!
    else if (c === 38 || c === 48) {
      const [colour, used] = extended(n, i + 1)
      if (colour) now[c === 38 ? "fg" : "bg"] = colour
      i += used
    }
  }
}

// extended reads 5;n and 2;r;g;b.
function extended(n: number[], at: number): [RGB | undefined, number] {
  const byte = (v: number | undefined) => Math.max(0, Math.min(255, v ?? 0))
  if (n[at] === 5) return [indexed(byte(n[at + 1])), 2]
  if (n[at] === 2) return [[byte(n[at + 1]), byte(n[at + 2]), byte(n[at + 3])], 4]
  return [undefined, 0]
}

function indexed(n: number): RGB {
  if (n < 16) return basic[n]!
  if (n >= 232) return [8 + (n - 232) * 10, 8 + (n - 232) * 10, 8 + (n - 232) * 10]
  const step = (v: number) => (v === 0 ? 0 : 55 + v * 40)
  return [step(Math.floor((n - 16) / 36)), step(Math.floor((n - 16) / 6) % 6), step((n - 16) % 6)]
}

function styleOf(now: Now, ground: RGB): Style {
  let { fg, bg } = now
  if (now.inverse) [fg, bg] = [bg ?? ground, fg ?? (luminance(ground) > 0.2 ? [20, 25, 31] : [231, 235, 240])]
  const style: Style = {}
  if (bg) style.background = css(bg)
  if (fg) style.color = css(legible(fg, bg ?? ground))
  else if (bg) style.color = luminance(bg) > 0.179 ? "#000000" : "#ffffff"
  for (const k of ["bold", "dim", "italic", "underline", "strike"] as const) if (now[k]) style[k] = true
  return style
}

export const rgb = (colour: string): RGB => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16)) as RGB
const css = (c: RGB) => "#" + c.map((v) => v.toString(16).padStart(2, "0")).join("")

export function luminance(c: RGB): number {
  const [r, g, b] = c.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4)) as RGB
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

export const contrast = (a: RGB, b: RGB) => {
  const [x, y] = [luminance(a), luminance(b)]
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05)
}

/** legible moves a colour towards black or white until it stands out 4.5:1. */
export function legible(c: RGB, ground: RGB): RGB {
  if (contrast(c, ground) >= 4.5) return c
  const end = luminance(ground) > 0.179 ? 0 : 255
  for (let part = 0.05; part < 1; part += 0.05) {
    const moved = c.map((v) => Math.round(v + (end - v) * part)) as RGB
    if (contrast(moved, ground) >= 4.5) return moved
  }
  return [end, end, end]
}
