import { Link } from "wouter"
import { useSearchParams } from "../../url"
import { RunsQueue } from "./RunsQueue"
import { Workers } from "./Workers"

export default function Queue() {
  const [search] = useSearchParams()
  const runs = search.tab === "runs"
  return (
    <div className="screen" data-full>
      <header>
        <h1>Queue</h1>
        <nav className="tabs" aria-label="Parts of the queue">
          <Link href="/queue" aria-current={runs ? undefined : "page"}>Workers</Link>
          <Link href="/queue?tab=runs" aria-current={runs ? "page" : undefined}>Pipeline runs</Link>
        </nav>
      </header>
      {runs ? <RunsQueue /> : <Workers />}
    </div>
  )
}
