// What keeps the focus of a windowed list in its row, and the rows in their places, while rows come, go and change their order.
import { defaultRangeExtractor, type Range } from "@tanstack/react-virtual"
import { useCallback, useLayoutEffect, useRef, type FocusEvent, type RefObject } from "react"

/** How many rows before and after those in view are in the page. */
export const overscan = 12

interface Held { key: string; index: number }

/** useFocus knows the row that has the focus by its key. Give extract to the virtualizer, and the handlers to the list. */
export function useFocus<T>(list: RefObject<HTMLElement | null>, rows: T[], keyOf: (row: T) => string, rowHeight: number) {
  const held = useRef<Held | undefined>(undefined)
  const wanted = useRef<string | undefined>(undefined) // the focus goes there as soon as the row is in the page
  const top = useRef<Held & { next?: string } | undefined>(undefined) // the row that stays in its place
  const find = (key: string) => rows.findIndex((row) => keyOf(row) === key)
  const at = (i: number) => (rows[i] === undefined ? undefined : keyOf(rows[i]))
  const rowAt = (index: number) => list.current?.querySelector<HTMLElement>(`[data-index="${index}"]`)

  const key = wanted.current ?? held.current?.key
  const index = key === undefined ? -1 : find(key)
  // The row with the focus stays in the page wherever the list is scrolled to: a row that is taken out loses it.
  const extract = useCallback((range: Range) => {
    const seen = defaultRangeExtractor(range)
    return index < 0 || seen.includes(index) ? seen : [...seen, index].sort((a, b) => a - b)
  }, [index])

  const reach = (row: HTMLElement) => {
    wanted.current = undefined
    row.focus({ preventScroll: true })
    row.scrollIntoView({ block: "nearest" })
  }

  useLayoutEffect(() => {
    const el = list.current
    const before = top.current
    if (!el || !before || at(before.index) === before.key || el.scrollTop === 0 && !held.current) return
    const now = find(before.key)
    // Another order is no reason to follow one row: only where its neighbour has moved with it.
    if (now >= 0 && at(now + 1) === before.next) el.scrollTop += (now - before.index) * rowHeight
  }, [rows])

  // After every change of the page: what it looks at is not state.
  useLayoutEffect(() => {
    const el = list.current
    if (!el) return
    if (wanted.current !== undefined) {
      const row = index < 0 ? undefined : rowAt(index)
      if (row) reach(row)
      else if (index < 0) wanted.current = undefined
    } else if (held.current) {
      if (index >= 0) held.current.index = index
      // A row that is gone leaves the focus to the one in its place.
      if (document.activeElement === document.body) rowAt(Math.min(held.current.index, rows.length - 1))?.focus({ preventScroll: true })
    }
    const mine = held.current?.index ?? -1
    const stays = mine >= 0 && Math.abs(2 * mine * rowHeight - 2 * el.scrollTop - el.clientHeight) <= el.clientHeight ? mine : Math.ceil(el.scrollTop / rowHeight)
    top.current = at(stays) === undefined ? undefined : { key: at(stays)!, index: stays, next: at(stays + 1) }
  })

  return {
    extract,
    /** go gives a row the focus; false if it is not in the page yet: then it gets it once the list is scrolled there. */
    go(to: number) {
      const row = rowAt(to)
      if (row) reach(row)
      else wanted.current = keyOf(rows[to]!)
      return Boolean(row)
    },
    onFocus(e: FocusEvent<HTMLElement>) {
      const i = Number((e.target as HTMLElement).closest<HTMLElement>("[data-index]")?.dataset.index ?? NaN)
      held.current = rows[i] === undefined ? undefined : { key: keyOf(rows[i]), index: i }
    },
    onBlur(e: FocusEvent<HTMLElement>) {
      if (document.activeElement !== e.target) held.current = undefined // else the window lost it, and will give it back
    },
  }
}
