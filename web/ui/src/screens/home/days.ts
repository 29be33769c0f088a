// Counts of ended executions as days. Pure.

interface Bucket { from: string | null; ended: number; completed: number; completed_with_failures: number; failed: number; timed_out: number; cost?: string; p95_seconds?: number }

export interface Day { day: string; ended: number; completed: number; withFailures: number; bad: number; p95?: number }

/** daysOf has a day for each of the range, also where nothing ended. */
export function daysOf(s: { from: string | null; to: string | null; buckets: Bucket[] }): Day[] {
  const there = new Map(s.buckets.map((b) => [(b.from ?? "").slice(0, 10), b]))
  const out: Day[] = []
  for (let at = Date.parse(s.from ?? ""); at < Date.parse(s.to ?? ""); at += 86_400_000) {
    const day = new Date(at).toISOString().slice(0, 10)
    const b = there.get(day)
    out.push({ day, ...sumOf(b ? [b] : []), p95: b?.p95_seconds })
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
