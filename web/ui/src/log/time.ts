// The time that logs, tables and waterfalls show a part of: in the address, so that a link shows the same. Pure.
import { formatMoment } from "../format"
import type { Search } from "../url"

/** Time is from one moment to another, in milliseconds since 1970. */
export interface Time { from: number; to: number }

const earliest = 0
/** The last moment there is. */
export const latest = 253_402_300_799_999 // of the year 9999

/** parseTime reads the time of an address; undefined: there is none, or it is none. */
export function parseTime(search: Search): Time | undefined {
  const from = search.from ? Date.parse(search.from) : NaN
  const to = search.to ? Date.parse(search.to) : NaN
  return from >= earliest && to <= latest && from < to ? { from, to } : undefined
}

/** searchOf writes a time into an address; undefined takes it away. */
export const searchOf = (t: Time | undefined): Search =>
  t ? { from: new Date(Math.floor(t.from)).toISOString(), to: new Date(Math.max(Math.floor(t.from) + 1, Math.ceil(t.to))).toISOString() } : { from: undefined, to: undefined }

/** sayTime writes a time for people, without the day where both are of the same. */
export function sayTime(t: Time): string {
  const [a, b] = [formatMoment(t.from, true), formatMoment(t.to, true)]
  return `${a.slice(11)} – ${a.slice(0, 10) === b.slice(0, 10) ? b.slice(11) : b}`
}

/** bothTimes is what two times have in common: an empty one if that is nothing. */
export function bothTimes(a: Time | undefined, b: Time | undefined): Time | undefined {
  if (!a || !b) return a ?? b
  const from = Math.max(a.from, b.from)
  return { from, to: Math.max(from, Math.min(a.to, b.to)) }
}
