// A long list, page by page: the first page is live, later ones are kept as they were read, the one in view is read again with the first.
import { useCallback, useEffect, useMemo, useRef, useState } from "react"
import { Problem, queries, useAsk } from "./client"

export interface Page<T> { rows: T[]; next?: string }

interface Kept<T> extends Page<T> { cursor: string }

interface Options<T> {
  id: (row: T) => string
  /** The order of the list, where rows are added at its beginning: negative if a comes before b. */
  order?: (a: T, b: T) => number
  enabled?: boolean
}

/** joinPages makes one list of pages, without rows twice. Rows that were pushed off the first page by newer ones stay. */
export function joinPages<T>(head: T[], more: boolean, kept: T[], { id, order }: Pick<Options<T>, "id" | "order">): T[] {
  const seen = new Set(head.map(id))
  const end = head.at(-1)
  // Without a next page the first one is all there is.
  const rest = more ? kept.filter((row) => !seen.has(id(row)) && (!order || !end || order(end, row) < 0)) : []
  const found = new Map(rest.map((row) => [id(row), row]))
  return [...head, ...found.values()]
}

/** usePages reads a list as far as it is looked at. Give onEnd and onView to Rows. */
export function usePages<T>(key: readonly unknown[], ask: (cursor: string | undefined, signal: AbortSignal) => Promise<Page<T>>, o: Options<T>) {
  const name = JSON.stringify(key)
  const first = useAsk(key, (signal) => ask(undefined, signal), { enabled: o.enabled })
  const [tail, setTail] = useState<{ name: string; pages: Kept<T>[]; problem?: Problem }>({ name, pages: [] })
  const latest = useRef({ ask, o, tail, busy: false, view: 0, before: [] as T[] })
  const pages = tail.name === name ? tail.pages : []
  Object.assign(latest.current, { ask, o, tail })
  const next = pages.length ? pages.at(-1)!.next : first.data?.next

  const load = useCallback(async (cursor: string) => {
    const now = latest.current
    if (now.busy) return
    now.busy = true
    try {
      const page = await queries.fetchQuery({ queryKey: [...(JSON.parse(name) as unknown[]), "page", cursor], queryFn: ({ signal }) => now.ask(cursor, signal), staleTime: 0, gcTime: 0 })
      setTail((old) => {
        const kept = old.name === name ? old.pages : []
        const at = kept.findIndex((p) => p.cursor === cursor)
        const fresh = { cursor, ...page }
        return { name, pages: at < 0 ? [...kept, fresh] : kept.with(at, { ...fresh, next: kept[at]!.next ?? fresh.next }) }
      })
    } catch (err) {
      if (err instanceof Problem) setTail((old) => ({ name, pages: old.name === name ? old.pages : [], problem: err }))
    } finally {
      now.busy = false
    }
  }, [name])

  // Rows pushed off the first page since the second was read would be missing between them: they are kept.
  const pushed = useRef<{ name: string; rows: T[] }>({ name, rows: [] })
  if (pushed.current.name !== name) pushed.current = { name, rows: [] }
  const rows = useMemo(() => {
    if (!first.data) return undefined
    if (pages.length && o.order) pushed.current.rows = joinPages(first.data.rows, true, [...latest.current.before, ...pushed.current.rows], o).slice(first.data.rows.length, 2_000)
    latest.current.before = first.data.rows
    const joined = joinPages(first.data.rows, Boolean(first.data.next), [...pages.flatMap((p) => p.rows), ...pushed.current.rows], o)
    return o.order && pushed.current.rows.length ? joined.sort(o.order) : joined
  }, [first.data, pages])

  useEffect(() => {
    let at = latest.current.view - (first.data?.rows.length ?? 0)
    if (at < 0) return
    for (const page of pages) {
      if (at < page.rows.length) { void load(page.cursor); return }
      at -= page.rows.length
    }
    // Only when the first page was read again.
  }, [first.dataUpdatedAt])

  const onEnd = useCallback(() => { if (next) void load(next) }, [next, load])
  const onView = useCallback((index: number) => { latest.current.view = index }, [])
  return { first, rows, more: Boolean(next), next, pages: pages.length + 1, problem: tail.name === name ? tail.problem : undefined, onEnd, onView }
}
