import { expect, test } from "vitest"
import { contrast, parse, plain, rgb } from "./ansi"
import { append, empty, mostLines, prepend, type Line } from "./lines"
import { heights, tell } from "./Histogram"

const esc = "\x1b["

test("colours of terminals are kept, and stand out 4.5:1 on every ground", () => {
  for (const ground of ["#f5f6f8", "#0d1015"]) {
    for (let n = 0; n < 256; n++) {
      for (const code of [`38;5;${n}`, `48;5;${n}`, `38;2;${n};${255 - n};${(n * 7) % 256}`, `7;38;5;${n}`, `38;5;${n};48;5;${255 - n}`]) {
        const [span] = parse(`${esc}${code}mtext`, ground)
        expect(span!.text).toBe("text")
        if (span!.color) expect(contrast(rgb(span!.color), rgb(span!.background ?? ground)), code).toBeGreaterThanOrEqual(4.5)
      }
    }
    for (const n of [...Array(8).keys()].flatMap((i) => [30 + i, 90 + i])) expect(contrast(rgb(parse(`${esc}${n}mx`, ground)[0]!.color!), rgb(ground))).toBeGreaterThanOrEqual(4.5)
  }
})

test("styles begin and end where the sequences say so", () => {
  expect(parse(`a${esc}1;31mb${esc}22mc${esc}0md`, "#ffffff")).toEqual([{ text: "a" }, { text: "b", bold: true, color: expect.any(String) }, { text: "c", color: expect.any(String) }, { text: "d" }])
  expect(parse(`${esc}4munder${esc}mplain`, "#ffffff")).toEqual([{ text: "under", underline: true }, { text: "plain" }])
  expect(parse(`${esc}8mhidden${esc}28mshown`, "#ffffff")).toEqual([{ text: "shown" }])
})

test("all other sequences are removed, and markup stays text", () => {
  for (const [line, want] of [
    [`${esc}2J${esc}10;5Hmoved${esc}K`, "moved"], [`\x1b]0;title\x07text`, "text"], [`\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\`, "link"], [`${esc}?25lhidden cursor`, "hidden cursor"], ["\x1b(Bascii", "ascii"], ["50%\r100%\x08", "50%100%"],
    [`<img src=x onerror=alert(1)>${esc}31m<b>`, "<img src=x onerror=alert(1)><b>"], [`cut off ${esc}31`, "cut off "], ["tab\tstays", "tab\tstays"],
  ] as const) {
    expect(parse(line, "#ffffff").map((s) => s.text).join("")).toBe(want)
    expect(plain(line)).toBe(want)
  }
})

test("a line with very many sequences has a bounded number of parts and all its text", () => {
  const spans = parse(Array.from({ length: 5000 }, (_, i) => `${esc}${31 + (i % 6)}mx`).join(""), "#ffffff")
  expect(spans.length).toBeLessThanOrEqual(501)
  expect(spans.map((s) => s.text).join("")).toHaveLength(5000)
})

const lines = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => ({ seq: from + i, level: "info", message: "", step_id: "s", timestamp: null, metadata: {} }) as Line)
const seqs = (l: Line[]) => l.map((x) => x.seq)

test("lines that come twice are there once, in order", () => {
  let part = append(empty, lines(1, 5), false)
  part = append(part, [...lines(3, 7), ...lines(5, 6)], false)
  expect(seqs(part.lines)).toEqual([1, 2, 3, 4, 5, 6])
  part = prepend(part, lines(0, 3), false)
  expect(seqs(part.lines)).toEqual([0, 1, 2, 3, 4, 5, 6])
})

test("at most 5,000 lines are held, without a gap", () => {
  let part = append(empty, lines(10_000, 14_000), false)
  part = append(part, lines(14_000, 16_000), false)
  expect([part.lines.length, part.lines[0]!.seq, part.lines.at(-1)!.seq, part.before, part.after]).toEqual([mostLines, 11_000, 15_999, true, false])
  part = prepend(part, lines(10_000, 11_000), true)
  expect([part.lines.length, part.lines[0]!.seq, part.lines.at(-1)!.seq, part.before, part.after]).toEqual([mostLines, 10_000, 14_999, true, true])
})

test("one error among a thousand lines is seen in the histogram, and said", () => {
  const span = { debug: 0, error: 1, first_seq: 1, from: "2026-01-02T03:04:05.006Z", info: 999, lines: 1000, until_seq: 1001, warning: 0 }
  expect(heights(span, 1000)).toEqual([8, 0, 99.9, 0])
  expect(tell(span)).toMatch(/^\d\d:\d\d:05\.006, 1,000 lines, 1 error$/)
})
