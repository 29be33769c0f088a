import { useVirtualizer } from "@tanstack/react-virtual"
import { useEffect, useRef, useSyncExternalStore, type ReactNode } from "react"
import { overscan, useFocus } from "./rowFocus"

export interface Column<T> {
  title: string
  /** CSS grid track: "1fr", "120px", "minmax(80px, 2fr)". */
  width: string
  show: (row: T) => ReactNode
  /** Left out where the page is narrower than this, in pixels. */
  from?: number
}

interface Props<T> {
  label: string
  rows: T[]
  columns: Column<T>[]
  keyOf: (row: T) => string
  selected?: string
  onOpen: (row: T) => void
  /** Called when the end comes near: more rows can be asked for. */
  onEnd?: () => void
  /** Called with the row in the middle of the view. */
  onView?: (index: number) => void
  /** With it each row has a box to choose it: by Space, by Shift up to here. */
  chosen?: ReadonlySet<string>
  onChoose?: (keys: Set<string>) => void
  /** What the box of a row is called. */
  nameOf?: (row: T) => string
  rowHeight?: number
  /** As high as its rows, and at most so many pixels; left out: as high as what it is in. */
  fit?: number
}

const headHeight = 30 // pixels
const twoLines = 44 // pixels; parts.css lets the texts of a phone's rows take two lines

const onResize = (changed: () => void) => {
  window.addEventListener("resize", changed)
  return () => window.removeEventListener("resize", changed)
}

/**
 * Rows is a windowed list: only what is in view is in the page. J and K move, Enter opens. Rows that come or go while somebody works in it
 * take nothing away: the row with the focus keeps it and its place, and a list that is scrolled stays where it is.
 */
export function Rows<T>({ label, rows, columns, keyOf, selected, onOpen, onEnd, onView, chosen, onChoose, nameOf = keyOf, rowHeight: usual = 32, fit }: Props<T>) {
  const ref = useRef<HTMLDivElement>(null)
  const width = useSyncExternalStore(onResize, () => window.innerWidth, () => 1440)
  const rowHeight = width <= 640 ? Math.max(usual, twoLines) : usual
  const focus = useFocus(ref, rows, keyOf, rowHeight)
  const list = useVirtualizer({ count: rows.length, getScrollElement: () => ref.current, estimateSize: () => rowHeight, overscan, rangeExtractor: focus.extract })
  const measured = useRef(rowHeight)
  useEffect(() => {
    if (measured.current !== rowHeight) list.measure()
    measured.current = rowHeight
  }, [list, rowHeight])
  const shown = columns.filter((c) => !c.from || width >= c.from)
  const template = (onChoose ? "24px " : "") + shown.map((c) => c.width).join(" ")
  const items = list.getVirtualItems()
  const { startIndex, endIndex } = list.range ?? { startIndex: 0, endIndex: 0 }
  const last = Math.min(rows.length - 1, endIndex + overscan)
  const middle = (startIndex + endIndex) >> 1
  useEffect(() => { onView?.(middle) }, [middle, onView])
  const anchor = useRef("")
  const choose = (index: number, upTo: boolean) => {
    const now = new Set(chosen)
    const on = !now.has(keyOf(rows[index]!))
    const start = upTo ? rows.findIndex((row) => keyOf(row) === anchor.current) : -1
    const [from, to] = start < 0 ? [index, index] : [Math.min(index, start), Math.max(index, start)]
    for (const row of rows.slice(from, to + 1)) on ? now.add(keyOf(row)) : now.delete(keyOf(row))
    anchor.current = keyOf(rows[index]!)
    onChoose?.(now)
  }
  useEffect(() => {
    if (onEnd && rows.length > 0 && last >= rows.length - 20) onEnd()
  }, [last, rows.length, onEnd])
  const move = (from: number, by: number) => {
    const to = Math.max(0, Math.min(rows.length - 1, from + by))
    if (!focus.go(to)) list.scrollToIndex(to)
  }
  return (
    <div ref={ref} className="rows" data-two={rowHeight === twoLines || undefined} style={{ height: fit ? Math.min(fit, headHeight + rowHeight * rows.length) : "100%" }} role="grid" aria-label={label} aria-rowcount={rows.length + 1} onFocus={focus.onFocus} onBlur={focus.onBlur}>
      <div className="rows-head" role="row" style={{ gridTemplateColumns: template }}>
        {onChoose && <div role="columnheader"><input type="checkbox" aria-label="Choose all that are loaded" checked={rows.length > 0 && rows.every((row) => chosen?.has(keyOf(row)))} onChange={(e) => onChoose(new Set(e.target.checked ? rows.map(keyOf) : []))} /></div>}
        {shown.map((c) => <div key={c.title} role="columnheader">{c.title}</div>)}
      </div>
      <div style={{ height: list.getTotalSize(), position: "relative" }} role="rowgroup">
        {items.map((item) => {
          const row = rows[item.index]!
          const key = keyOf(row)
          return (
            <div
              key={key} role="row" tabIndex={0} data-index={item.index} aria-rowindex={item.index + 2} aria-selected={key === selected || chosen?.has(key) === true} className="rows-row"
              style={{ gridTemplateColumns: template, height: rowHeight, transform: `translateY(${item.start}px)` }}
              onClick={() => onOpen(row)}
              onKeyDown={(e) => {
                if (e.target !== e.currentTarget) return
                if (e.key === "Enter") { e.preventDefault(); onOpen(row) } // else Enter goes on to what opens
                else if (e.key === " " && onChoose) { e.preventDefault(); choose(item.index, e.shiftKey) }
                else if (e.key === "j" || e.key === "ArrowDown") { e.preventDefault(); move(item.index, 1) }
                else if (e.key === "k" || e.key === "ArrowUp") { e.preventDefault(); move(item.index, -1) }
              }}
            >
              {onChoose && (
                <div role="gridcell" onClick={(e) => e.stopPropagation()}>
                  <input type="checkbox" aria-label={`Choose ${nameOf(row)}`} tabIndex={-1} checked={chosen?.has(key) === true} onChange={() => {}} onClick={(e) => choose(item.index, e.shiftKey)} />
                </div>
              )}
              {shown.map((c) => <div key={c.title} role="gridcell">{c.show(row)}</div>)}
            </div>
          )
        })}
      </div>
    </div>
  )
}
