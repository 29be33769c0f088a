// What executions of a pipeline usually take, and where one of them stands in that. Pure.

export interface Usual { p50: number; p95: number }

/** usualOf has what the completed executions of each stored pipeline took: half of them, and 95 % of them, at most. */
export function usualOf(buckets: { pipeline_id?: string; p50_seconds?: number; p95_seconds?: number }[]): Map<string, Usual> {
  const out = new Map<string, Usual>()
  for (const b of buckets) if (b.pipeline_id && b.p50_seconds !== undefined && b.p95_seconds !== undefined) out.set(b.pipeline_id, { p50: b.p50_seconds, p95: b.p95_seconds })
  return out
}

/** barOf gives the places of the usual span and of a duration in a bar, in percent. What took more than twice the span's end is at the end. */
export function barOf(u: Usual, took: number): { from: number; to: number; at: number; late: boolean } {
  const whole = Math.max(2 * u.p95, 1e-9)
  const place = (s: number) => Math.min(100, (100 * Math.max(0, s)) / whole)
  return { from: place(u.p50), to: place(u.p95), at: place(took), late: took > u.p95 }
}
