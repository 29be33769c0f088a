// Joining two people's changes of a text. Pure.

/** merged joins two people's changes of a text where they touch other lines; undefined where both changed the same ones. */
export function merged(base: string, theirs: string, mine: string): string | undefined {
  if (theirs === base) return mine
  if (mine === base || mine === theirs) return theirs
  const [b, t, m] = [base, theirs, mine].map((s) => s.split("\n")) as [string[], string[], string[]]
  const span = (x: string[]) => {
    let from = 0
    while (from < b.length && from < x.length && b[from] === x[from]) from++
    let end = 0
    while (end < b.length - from && end < x.length - from && b[b.length - 1 - end] === x[x.length - 1 - end]) end++
    return { from, to: b.length - end, lines: x.slice(from, x.length - end) }
  }
  const [p, q] = [span(t), span(m)].sort((x, y) => x.from - y.from) as [ReturnType<typeof span>, ReturnType<typeof span>]
  if (p.to >= q.from) return undefined
  return [...b.slice(0, p.from), ...p.lines, ...b.slice(p.to, q.from), ...q.lines, ...b.slice(q.to)].join("\n")
}
