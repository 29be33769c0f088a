import { useMemo } from "react"
import { Link } from "wouter"
import type { Schemas } from "../../api/client"
import { formatMoment } from "../../format"
import { Button } from "../../parts/Button"
import { Loaded } from "../../parts/Loading"
import { useSearchParams } from "../../url"
import { useTargetWords } from "../run/names"
import { useFires, type Fire } from "./fires"
import { dayKey, gridOf, hue } from "./timing"

const views = ["month", "week", "day"] as const
type View = (typeof views)[number]
const shown: Record<View, number> = { month: 4, week: 20, day: 500 }
const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone

/** Calendar shows when schedules fire next, in the reader's zone. */
export function Calendar() {
  const [search, set] = useSearchParams()
  const view: View = views.find((v) => v === search.view) ?? "month"
  const parsed = new Date(`${search.day ?? ""}T12:00:00`)
  const day = Number.isNaN(parsed.getTime()) ? new Date() : parsed
  const grid = gridOf(view, day)
  const last = grid.at(-1)!
  const end = new Date(last.getFullYear(), last.getMonth(), last.getDate() + 1)
  const fires = useFires(grid[0]!, end)
  const step = (by: number) => {
    const next = view === "month" ? new Date(day.getFullYear(), day.getMonth() + by, 1) : new Date(day.getFullYear(), day.getMonth(), day.getDate() + by * (view === "week" ? 7 : 1))
    set({ day: dayKey(next) })
  }
  const title = view === "month" ? day.toLocaleDateString("en-GB", { month: "long", year: "numeric" }) : view === "week" ? `${dayKey(grid[0]!)} – ${dayKey(grid.at(-1)!)}` : day.toLocaleDateString("en-GB", { weekday: "long", day: "numeric", month: "long", year: "numeric" })
  return (
    <section aria-label="Calendar" className="calendar">
      <div className="row">
        <Button onClick={() => step(-1)} aria-label={`Previous ${view}`}>‹</Button>
        <Button onClick={() => set({ day: "" })}>Today</Button>
        <Button onClick={() => step(1)} aria-label={`Next ${view}`}>›</Button>
        <h2 aria-live="polite">{title}</h2>
        <span className="quiet">{ownZone}</span>
        <div className="chips" role="group" aria-label="How much" style={{ marginLeft: "auto" }}>
          {views.map((v) => <button key={v} type="button" className="chip" aria-pressed={v === view} onClick={() => set({ view: v })}>{v}</button>)}
        </div>
      </div>
      <Loaded of={fires} lines={10}>
        {(f) => (
          <>
            <Days view={view} grid={grid} month={day.getMonth()} of={f} onDay={(d) => set({ view: "day", day: dayKey(d) }, { push: true })} />
            {f.hours.length > 0 && <p className="quiet">{f.total.toLocaleString("en-US")} fires are too many to show one by one: how many each day has is shown. A shorter range shows them.</p>}
            {f.left_out > 0 && <p className="quiet">{f.left_out} schedules fire too often to count in this range.</p>}
            {f.total === 0 && <p className="quiet">No schedule fires in this range.</p>}
          </>
        )}
      </Loaded>
    </section>
  )
}

function byDay<T extends { at: string | null }>(list: T[]): Map<string, T[]> {
  const found = new Map<string, T[]>()
  for (const it of list) {
    if (!it.at) continue
    const key = dayKey(new Date(it.at))
    const day = found.get(key)
    if (day) day.push(it)
    else found.set(key, [it])
  }
  return found
}

function Days({ view, grid, month, of, onDay }: { view: View; grid: Date[]; month: number; of: Schemas["Fires"]; onDay: (d: Date) => void }) {
  const fires = useMemo(() => byDay(of.fires), [of])
  const counted = useMemo(() => byDay(of.hours), [of])
  const clocks = useMemo(() => byDay(of.clock_changes), [of])
  const today = dayKey(new Date())
  const starts = useTargetWords()
  return (
    <ol className="days" data-view={view}>
      {grid.map((d, i) => {
        const all = fires.get(dayKey(d)) ?? []
        const hours = counted.get(dayKey(d)) ?? []
        const total = all.length + hours.reduce((n, h) => n + h.fires, 0)
        const list = view === "day" ? all.map((f) => ({ ...f, times: 1 })) : grouped(all)
        return (
          <li key={dayKey(d)} data-other={view === "month" && d.getMonth() !== month} aria-current={dayKey(d) === today ? "date" : undefined}>
            <div className="day"><span>{view === "day" ? "" : d.toLocaleDateString("en-GB", view === "week" ? { weekday: "short", day: "numeric", month: "short" } : i < 7 ? { weekday: "short", day: "numeric" } : { day: "numeric" })}</span>{total > 1 && <span className="quiet" title={`${total} fires`}>{total.toLocaleString("en-US")}</span>}</div>
            {(clocks.get(dayKey(d)) ?? []).map((c) => <div key={c.timezone} className="clocks" title={`In ${c.timezone} clocks go ${c.offset_after > c.offset_before ? "forward: a time may not occur, and fires right after the gap" : "back: a time may occur twice, and fires once"}, unless the schedule says otherwise.`}>⚠ clocks change: {c.timezone}</div>)}
            {view === "day" && <Hours of={[...all.map((f) => ({ at: f.at, fires: 1 })), ...hours]} />}
            {list.slice(0, shown[view]).map((f) => (
              <Link key={f.job_id + f.at} className="fire" href={`/schedules/${encodeURIComponent(f.job_id)}`} style={{ borderLeftColor: `hsl(${hue(starts(f))} 60% 50%)` }} title={`${formatMoment(f.at!)} ${f.name}: ${starts(f)}`}>
                <span className="mono">{formatMoment(f.at!).slice(11, 16)}</span> {f.name || f.job_id}{f.times > 1 && <span className="quiet"> × {f.times}</span>}
              </Link>
            ))}
            {list.length > shown[view] && (view === "day" ? <span className="quiet">+ {list.length - shown.day} more</span> : <button type="button" className="more" onClick={() => onDay(d)}>+ {list.length - shown[view]} more</button>)}
          </li>
        )
      })}
    </ol>
  )
}

// Of each schedule the first fire of a day, with how many there are.
function grouped(fires: Fire[]): (Fire & { times: number })[] {
  const found = new Map<string, Fire & { times: number }>()
  for (const f of fires) {
    const first = found.get(f.job_id)
    if (first) first.times++
    else found.set(f.job_id, { ...f, times: 1 })
  }
  return [...found.values()]
}

// The heat of a day: how many fires each hour has.
function Hours({ of }: { of: { at: string | null; fires: number }[] }) {
  const counts = Array.from({ length: 24 }, () => 0)
  for (const f of of) if (f.at) counts[new Date(f.at).getHours()]! += f.fires
  const top = Math.max(1, ...counts)
  return (
    <div className="hours" role="img" aria-label={`Fires by hour: ${counts.map((n, h) => (n ? `${h}:00 ${n}` : "")).filter(Boolean).join(", ") || "none"}`}>
      {counts.map((n, h) => <i key={h} style={{ height: `${(100 * n) / top}%` }} />)}
    </div>
  )
}
