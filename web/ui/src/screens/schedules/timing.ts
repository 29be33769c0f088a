// When schedules fire, and the days of a calendar. Pure. What an expression means is the server's to say.
import type { Schemas } from "../../api/client"

export type Timing = Schemas["Timing"]

const two = (n: string) => n.padStart(2, "0")

/** timingWords says in a few words when a schedule fires. */
export function timingWords(t: Timing): string {
  switch (t.type) {
    case "cron": return t.expression ?? ""
    case "interval": return `every ${(t.expression ?? "").replace(/^@every\s+/, "")}`
    case "one_time": return `once, at ${t.run_at ?? t.expression ?? "?"}`
    case "after": return `after ${t.after?.job_id}${{ failure: " failed", any: " ended", success: " succeeded" }[t.after?.on ?? "success"]}`
    case "event": return `on events ${t.expression ?? ""}`
    case "webhook": return "when its webhook is called"
    default: return "by hand"
  }
}

/** gridOf are the days that a calendar shows, as the midnights of the reader's zone: a month in whole weeks from Monday, a week, a day. */
export function gridOf(view: "month" | "week" | "day", day: Date): Date[] {
  const midnight = (y: number, m: number, d: number) => new Date(y, m, d)
  const [y, m, d] = [day.getFullYear(), day.getMonth(), day.getDate()]
  if (view === "day") return [midnight(y, m, d)]
  const first = view === "week" ? d : 1
  const monday = first - ((midnight(y, m, first).getDay() + 6) % 7)
  const count = view === "week" ? 7 : Math.ceil((new Date(y, m + 1, 0).getDate() - monday + 1) / 7) * 7
  return Array.from({ length: count }, (_, i) => midnight(y, m, monday + i))
}

/** dayKey writes a day of the reader's zone: 2026-11-28. */
export const dayKey = (d: Date) => `${d.getFullYear()}-${two(String(d.getMonth() + 1))}-${two(String(d.getDate()))}`

/** hue is a colour that belongs to a name. */
export function hue(name: string): number {
  let h = 7
  for (const c of name) h = (h * 31 + c.codePointAt(0)!) % 360
  return h
}

/** zone is the reader's time zone, in which moments are written. */
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "local time"
