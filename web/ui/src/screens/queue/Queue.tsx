import { Link } from "wouter"
import { useSearchParams } from "../../url"
import { RunsQueue } from "./RunsQueue"
import { Waiting } from "./Waiting"
import { Workers } from "./Workers"

const tabs = [["", "Waiting"], ["workers", "Workers"], ["runs", "Pipeline runs"]] as const

export default function Queue() {
  const [search] = useSearchParams()
  const shown = search.tab ?? (search.worker ? "workers" : "")
  return (
    <div className="screen" data-full>
      <header>
        <h1>Queue</h1>
        <nav className="tabs" aria-label="Parts of the queue">
          {tabs.map(([tab, title]) => <Link key={tab} href={tab ? `/queue?tab=${tab}` : "/queue"} aria-current={shown === tab ? "page" : undefined}>{title}</Link>)}
        </nav>
      </header>
      {shown === "runs" ? <RunsQueue /> : shown === "workers" ? <Workers /> : <Waiting />}
    </div>
  )
}
