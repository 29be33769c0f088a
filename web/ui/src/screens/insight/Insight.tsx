import { Link } from "wouter"
import { PickField } from "../../parts/Fields"
import { useSearchParams } from "../../url"
import { Costs } from "./Costs"
import { SLA } from "./SLA"
import "./insight.css"

const spans = [["1", "Today"], ["7", "7 days"], ["30", "30 days"], ["90", "90 days"], ["365", "A year"]] as const

/** sinceOf is the time so many days ago, to the whole day, so that an answer stays the same for a day. */
export const sinceOf = (days: number) => new Date(Math.floor(Date.now() / 86_400_000) * 86_400_000 - (days - 1) * 86_400_000).toISOString()

/** Insight shows what executions cost and whether they keep their SLA. */
export default function Insight() {
  const [search, set] = useSearchParams()
  const sla = search.tab === "sla"
  const days = spans.some(([d]) => d === search.days) ? search.days! : "30"
  const here = (tab?: string) => `/insight${tab || days !== "30" ? "?" : ""}${[days !== "30" && `days=${days}`, tab && `tab=${tab}`].filter(Boolean).join("&")}`
  return (
    <div className="screen">
      <header>
        <h1>Cost and SLA</h1>
        <div className="insight-span"><PickField label="Time" value={days} onChange={(d) => set({ days: d === "30" ? undefined : d })} choices={spans} /></div>
      </header>
      <nav className="tabs" aria-label="Cost and SLA">
        <Link href={here()} aria-current={sla ? undefined : "page"}>Cost</Link>
        <Link href={here("sla")} aria-current={sla ? "page" : undefined}>SLA</Link>
      </nav>
      {sla ? <SLA days={Number(days)} /> : <Costs days={Number(days)} />}
    </div>
  )
}
