// A log as a file: read page by page.
import { send } from "../api/client"
import { save } from "../parts/save"
import { plain } from "./ansi"
import type { Line } from "./lines"
import type { Time } from "./time"

const mostLines = 1_000_000

/** download reads a log and saves it as text. It tells how many lines it has, and ends when the signal says so. */
export async function download(execution: string, filter: { step?: string; time?: Time; level?: string }, onLines: (n: number) => void, signal: AbortSignal) {
  const parts: string[] = []
  let count = 0
  let cursor = ""
  do {
    const query = new URLSearchParams({ limit: "10000", ...(cursor ? { cursor } : {}), ...(filter.step ? { step_id: filter.step } : {}), ...(filter.level ? { level: filter.level } : {}), ...(filter.time ? { since: new Date(filter.time.from).toISOString(), until: new Date(filter.time.to).toISOString() } : {}) })
    const got = (await (await send(`api/v1/executions/${encodeURIComponent(execution)}/logs?${query}`, { signal })).json()) as { logs: Line[]; next_cursor?: string }
    parts.push(got.logs.map((l) => `${l.timestamp} ${l.level} ${l.step_id}: ${plain(l.message)}\n`).join(""))
    onLines((count += got.logs.length))
    cursor = got.next_cursor ?? ""
  } while (cursor && count < mostLines)
  save(parts, `${execution}${filter.step ? "-" + filter.step.replace(/[^\w.-]+/g, "_") : ""}.log`)
}
