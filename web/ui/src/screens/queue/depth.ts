/** Depths is how many steps waited over time, at most for ten minutes and in 240 points. */
export interface Depths {
  from: number
  most: number
  at: (readonly [time: number, waiting: number])[]
}

const longest = 600_000 // ms
const mostPoints = 240

/** depths adds a point. Of many points each second one goes, the highest of each pair stays. */
export function depths(old: Depths | undefined, now: number, waiting: number): Depths {
  let at = [...(old?.at ?? [])]
  if (at.at(-1)?.[1] !== waiting || at.length === 0) at.push([now, waiting])
  const begins = now - longest
  const first = at.findLastIndex(([t]) => t <= begins)
  if (first > 0) at = at.slice(first)
  if (at.length > mostPoints) at = at.filter((p, i) => i === at.length - 1 || (i % 2 === 0 ? p[1] >= at[i + 1]![1] : p[1] > at[i - 1]![1]))
  return { from: Math.max(at[0]![0], begins), most: at.reduce((most, [, n]) => Math.max(most, n), 0), at }
}
