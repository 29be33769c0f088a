// Counts of ended executions as a row of times. Pure.
import { formatMoment } from "../../format"

interface Bucket { from: string | null; ended: number; completed: number; completed_with_failures: number; failed: number; timed_out: number; cost?: string; p50_seconds?: number; p95_seconds?: number }
interface Stats { bucket: "minute" | "hour" | "day" | "all"; from: string | null; to: string | null; buckets: Bucket[] }

export interface Time { at: string; ended: number; completed: number; withFailures: number; bad: number; cost: number; p50?: number; p95?: number }

const sizes = { minute: 60_000, hour: 3_600_000, day: 86_400_000, all: Infinity }

/** ranges are those that one can choose, with the buckets that the server counts by. */
export const ranges = { "1h": { name: "The last hour", bucket: "minute", hours: 1 }, "24h": { name: "The last 24 hours", bucket: "hour", hours: 24 }, "7d": { name: "The last 7 days", bucket: "hour", hours: 168 }, "14d": { name: "The last 14 days", bucket: "day", hours: 336 } } as const

export type Range = keyof typeof ranges

/** timesOf has an entry for each minute, hour or day of the range, also where nothing ended. Days are named in UTC, as they are counted. */
export function timesOf(s: Stats): Time[] {
  const there = new Map(s.buckets.map((b) => [Date.parse(b.from ?? ""), b]))
  const out: Time[] = []
  for (let at = Date.parse(s.from ?? ""); at < Date.parse(s.to ?? ""); at += sizes[s.bucket]) {
    const b = there.get(at)
    out.push({ at: s.bucket === "day" ? new Date(at).toISOString().slice(0, 10) : formatMoment(at).slice(0, 16), ...sumOf(b ? [b] : []), p50: b?.p50_seconds, p95: b?.p95_seconds })
  }
  return out
}

/** sumOf adds up: completed are those with failures too. */
export function sumOf(buckets: Bucket[]): { ended: number; completed: number; withFailures: number; bad: number; cost: number } {
  const sum = { ended: 0, completed: 0, withFailures: 0, bad: 0, cost: 0 }
  for (const b of buckets) {
    sum.ended += b.ended
    sum.completed += b.completed + b.completed_with_failures
    sum.withFailures += b.completed_with_failures
    sum.bad += b.failed + b.timed_out
    sum.cost += Number(b.cost ?? 0)
  }
  return sum
}

/** costSince adds up what ended from a time on: of whole hours, so where a time zone is off by half an hour, from half an hour before. */
export const costSince = (buckets: Bucket[], at: number) => sumOf(buckets.filter((b) => Date.parse(b.from ?? "") > at - sizes.hour)).cost
