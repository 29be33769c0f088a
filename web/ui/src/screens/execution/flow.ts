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

/** rate writes items a second. */
export function rate(n: number | undefined): string | undefined {
  if (n === undefined || !Number.isFinite(n)) return undefined
  return `${n >= 10 ? Math.round(n).toLocaleString("en-US") : n.toFixed(1)}/s`
}
