// Rows as comma-separated values. Pure.

/** csvOf has a line of titles and one for each row. A text that a spreadsheet would take for a formula gets an apostrophe. */
export function csvOf(titles: string[], rows: (string | number)[][]): string {
  const cell = (value: string | number) => {
    const text = typeof value === "number" || /^-?\d+(\.\d+)?$/.test(value) ? String(value) : /^[=+\-@\t\r]/.test(value) ? `'${value}` : value
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
  }
  return [titles, ...rows].map((row) => row.map(cell).join(",") + "\r\n").join("")
}

/** daysBetween are the days of a range, as in 2026-11-28. */
export function daysBetween(from: string, to: string): string[] {
  const out: string[] = []
  for (let at = Date.parse(from); at < Date.parse(to) && out.length < 400; at += 86_400_000) out.push(new Date(at).toISOString().slice(0, 10))
  return out
}
