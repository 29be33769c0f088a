// How the modules of a stream stand beside each other. Pure.

/** columnsOf puts each module one column behind the last of those whose items it takes. */
export function columnsOf<M extends { step_id: string; inputs: string[] }>(modules: M[]): M[][] {
  const at = new Map<string, number>()
  const columns: M[][] = []
  for (const m of modules) { // each comes behind its inputs
    const column = 1 + Math.max(-1, ...m.inputs.map((id) => at.get(id) ?? -1))
    at.set(m.step_id, column)
    ;(columns[column] ??= []).push(m)
  }
  return columns
}

/** counted says what the numbers of failures count, in the same words wherever they stand. */
export const counted = {
  streams: "The tab streams counts failures: each step at which an item failed, so an item that failed in two branches counts twice, and items without a bbox count too.",
  map: "The map counts items with a bbox, each once: it is failed if it failed in any branch.",
}

/** rate writes items a second. */
export function rate(n: number | undefined): string | undefined {
  if (n === undefined || !Number.isFinite(n)) return undefined
  return `${n >= 10 ? Math.round(n).toLocaleString("en-US") : n.toFixed(1)}/s`
}
