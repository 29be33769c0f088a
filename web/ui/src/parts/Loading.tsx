import type { UseQueryResult } from "@tanstack/react-query"
import { useEffect, useState, type ReactNode } from "react"
import type { Problem } from "../api/client"
import { ProblemBox } from "./Problem"

/** Skeleton stands where lines will be. It shows after 200 ms and does not move the page. */
export function Skeleton({ lines = 3 }: { lines?: number }) {
  return (
    <div role="status" aria-label="loading" style={{ display: "grid", gap: 10, padding: 12 }}>
      {Array.from({ length: lines }, (_, i) => (
        <div key={i} className="skeleton" style={{ width: `${90 - ((i * 17) % 40)}%` }} />
      ))}
    </div>
  )
}

/** Loaded shows what was asked for: a skeleton until it is there, the problem if it cannot be had, old data while a newer answer fails. */
export function Loaded<T>({ of, children, lines }: { of: UseQueryResult<T, Problem>; lines?: number; children: (data: T) => ReactNode }) {
  if (of.data !== undefined) return <>{children(of.data)}</>
  if (of.error) return <ProblemBox problem={of.error} again={() => void of.refetch()} />
  return <><Skeleton lines={lines} /><Late /></>
}

const patience = 5_000 // ms after which a page says that it waits

// Late says that the answer is late: a server that hangs keeps its connections, and nothing else would tell.
function Late() {
  const [late, setLate] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), patience)
    return () => clearTimeout(timer)
  }, [])
  return <p role="status" className="quiet" style={{ padding: "0 12px" }}>{late && "The server has not answered yet."}</p>
}
