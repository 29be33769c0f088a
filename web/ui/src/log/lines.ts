// The part of a log that the page holds: lines in order of their seq, each once, at most so many. Pure.
import type { Schemas } from "../api/client"

export type Line = Schemas["LogLine"]

export const mostLines = 5000

export interface Part {
  lines: Line[]
  /** There are lines before the first one, or behind the last one, that are not held. */
  before: boolean
  after: boolean
}

export const empty: Part = { lines: [], before: false, after: false }

/** append adds lines behind those that are held; too many are dropped at the beginning. Lines that are there already are left out. */
export function append(part: Part, more: Line[], after: boolean, most = mostLines): Part {
  const last = part.lines.at(-1)?.seq ?? -1
  const fresh = more.every((l, i) => l.seq > (i === 0 ? last : more[i - 1]!.seq)) ? more : more.filter((l) => l.seq > last).sort((a, b) => a.seq - b.seq).filter((l, i, all) => i === 0 || all[i - 1]!.seq !== l.seq)
  if (fresh.length === 0) return part.after === after ? part : { ...part, after }
  const lines = part.lines.concat(fresh)
  const over = Math.max(0, lines.length - most)
  return { lines: over ? lines.slice(over) : lines, before: part.before || over > 0, after }
}

/** prepend adds lines before those that are held; too many are dropped at the end. */
export function prepend(part: Part, more: Line[], before: boolean, most = mostLines): Part {
  const first = part.lines[0]?.seq ?? Infinity
  const fresh = more.filter((l) => l.seq < first)
  const lines = fresh.concat(part.lines)
  return { lines: lines.length > most ? lines.slice(0, most) : lines, before, after: part.after || lines.length > most }
}
