import { memo, useEffect, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent, type PointerEvent } from "react"
import { StateMark } from "../../parts/State"
import { lookAt, valuesAt, type Plan, type Table } from "./partitions"

const rowHeight = 26
const over = 4 // rows and columns beside those in view

interface Props {
  table: Table
  plan: Plan
  /** The partition with the focus; -1: none yet. */
  cursor: number
  onCursor: (at: number) => void
  /** The states that stand out; none: all do. */
  lit: readonly string[]
  /** Called with the partition under the pointer and where it is on the page, and with -1 when it has left. */
  onHover: (at: number, x: number, y: number) => void
}

/** PartitionGrid shows partitions by shape and colour; only those in view are in the page. Arrow keys move. */
export function PartitionGrid({ table, plan, cursor, onCursor, lit, onHover }: Props) {
  const ref = useRef<HTMLDivElement>(null)
  const [view, setView] = useState({ left: 0, top: 0, width: 1000, height: 500 })
  const longest = useMemo(() => {
    let [row, column] = [0, 0]
    for (let r = 0; r < Math.min(plan.rows, 2_000); r++) row = Math.max(row, plan.rowName(r).length)
    for (let c = 0; c < Math.min(plan.columns, 2_000); c++) column = Math.max(column, plan.columnName(c).length)
    return { row, column }
  }, [plan])
  const head = Math.min(view.width < 500 ? 130 : 260, Math.max(48, 24 + Math.ceil(7.3 * longest.row)))
  const wide = Math.max(26, 14 + Math.ceil(7.3 * longest.column))
  // Names of columns lie where there is room for all of them, else they stand.
  const stands = longest.column > 2 && plan.columns * wide > view.width - head
  const cell = stands ? 26 : wide
  const top = longest.column === 0 ? 0 : stands ? 16 + Math.ceil(7.3 * Math.min(13, longest.column)) : rowHeight
  const measure = () => {
    const el = ref.current
    if (el) setView((old) => {
      const now = { left: el.scrollLeft, top: el.scrollTop, width: el.clientWidth, height: el.clientHeight }
      return Object.entries(now).every(([k, v]) => old[k as keyof typeof old] === v) ? old : now
    })
  }
  useLayoutEffect(() => {
    measure()
    const watched = new ResizeObserver(measure)
    watched.observe(ref.current!)
    return () => watched.disconnect()
  }, [])
  const [row, column] = cursor >= 0 ? plan.place(cursor) : [-1, -1]
  // What has the focus is in view. Where nothing has, the newest are: of a calendar the last partition, with days as columns of its month.
  useEffect(() => {
    const el = ref.current!
    if (row < 0) {
      const [r, c] = table.by.length === 1 && table.grid.length > 0 ? plan.place(table.grid.length - 1) : [0, plan.columns - 1]
      el.scrollTop = top + (r + 1) * rowHeight - el.clientHeight
      el.scrollLeft = head + (c + 1) * cell - el.clientWidth
      return
    }
    const [x, y] = [head + column * cell, top + row * rowHeight]
    if (y < el.scrollTop + top) el.scrollTop = y - top
    else if (y + rowHeight > el.scrollTop + el.clientHeight) el.scrollTop = y + rowHeight - el.clientHeight
    if (x < el.scrollLeft + head) el.scrollLeft = x - head
    else if (x + cell > el.scrollLeft + el.clientWidth) el.scrollLeft = x + cell - el.clientWidth
  }, [row, column, head, cell, top])

  const move = (down: number, right: number) => {
    if (row < 0) { go(0, 0, 1); return }
    go(row + down, column + right, down + right < 0 ? -1 : 1)
  }
  // A folded calendar has no partition before its first and after its last one: there the nearest is taken.
  const go = (r: number, c: number, towards: 1 | -1) => {
    r = Math.max(0, Math.min(plan.rows - 1, r))
    c = Math.max(0, Math.min(plan.columns - 1, c))
    for (let i = 0; i < plan.columns; i++) {
      const at = [plan.at(r, c + i * towards), plan.at(r, c - i * towards)].find((found, k) => found >= 0 && c + (k ? -i : i) * towards >= 0 && c + (k ? -i : i) * towards < plan.columns)
      if (at !== undefined) { onCursor(at); return }
    }
  }
  const page = Math.max(1, Math.floor((view.height - top) / rowHeight) - 1)
  const onKeyDown = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return
    const moves: Record<string, () => void> = {
      ArrowUp: () => move(-1, 0), ArrowDown: () => move(1, 0), ArrowLeft: () => move(0, -1), ArrowRight: () => move(0, 1),
      PageUp: () => move(-page, 0), PageDown: () => move(page, 0), Home: () => go(Math.max(0, row), 0, 1), End: () => go(Math.max(0, row), plan.columns - 1, -1),
    }
    if (!moves[e.key]) return
    e.preventDefault()
    moves[e.key]!()
  }
  const placed = (e: PointerEvent) => (e.target as Element).closest<HTMLElement>("[data-at]")
  const first = Math.max(0, Math.floor(view.top / rowHeight) - over)
  const last = Math.min(plan.rows - 1, Math.ceil((view.top + view.height) / rowHeight) + over)
  // In steps of eight, so that a row is made anew now and then while one scrolls sideways.
  const from = Math.max(0, (Math.floor(view.left / cell / 8) - 1) * 8)
  const to = Math.min(plan.columns, (Math.ceil((view.left + view.width) / cell / 8) + 1) * 8)
  const shown = Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i)
  return (
    <div ref={ref} className="p-grid" role="grid" tabIndex={0} aria-label="Partitions" aria-rowcount={plan.rows + 1} aria-colcount={plan.columns + 1} aria-activedescendant={row >= first && row <= last && column >= from && column < to ? `partition-${cursor}` : undefined}
      style={{ height: `min(65vh, ${top + plan.rows * rowHeight + 18}px)`, scrollPaddingTop: top }}
      onScroll={() => { measure(); onHover(-1, 0, 0) }} onKeyDown={onKeyDown} onFocus={(e) => { if (row < 0 && e.target === e.currentTarget && e.currentTarget.matches(":focus-visible")) go(0, plan.columns - 1, -1) }}
      onPointerMove={(e) => { const box = placed(e)?.getBoundingClientRect(); onHover(box ? Number(placed(e)!.dataset.at) : -1, box?.left ?? 0, box?.bottom ?? 0) }}
      onPointerLeave={() => onHover(-1, 0, 0)}
      onClick={(e) => { const found = (e.target as Element).closest<HTMLElement>("[data-at]"); if (found) onCursor(Number(found.dataset.at)) }}>
      <div style={{ width: head + plan.columns * cell, height: top + plan.rows * rowHeight }} role="presentation">
        <div role="rowgroup" className="p-top" style={{ height: top, visibility: top ? undefined : "hidden" }}>
          <div role="row" aria-rowindex={1}>
            <div role="columnheader" aria-colindex={1} className="p-corner" style={{ width: head, height: top }}><span className="hidden-text">{table.by.slice(0, -1).join(", ") || table.by[0]}</span></div>
            {Array.from({ length: to - from }, (_, i) => from + i).map((c) => (
              <div role="columnheader" key={c} aria-colindex={c + 2} className="p-column mono" data-stands={stands || undefined} style={{ left: head + c * cell, width: cell, height: top }} title={plan.columnName(c)}><span>{plan.columnName(c)}</span></div>
            ))}
          </div>
        </div>
        <div role="rowgroup">
          {shown.map((r) => <Line key={r} row={r} name={plan.rowName(r)} top={top + r * rowHeight} head={head} cell={cell} from={from} to={to} plan={plan} table={table} lit={lit} at={r === row ? cursor : -1} />)}
        </div>
      </div>
    </div>
  )
}

interface LineProps { row: number; name: string; top: number; head: number; cell: number; from: number; to: number; plan: Plan; table: Table; lit: readonly string[]; at: number }

const Line = memo(function Line({ row, name, top, head, cell, from, to, plan, table, lit, at: cursor }: LineProps) {
  const cells = []
  for (let c = from; c < to; c++) {
    const at = plan.at(row, c)
    if (at < 0) continue
    cells.push(<Cell key={c} at={at} column={c} letter={table.grid[at]!} axes={table.axes} chosen={at === cursor} lit={lit} left={head + c * cell} width={cell} />)
  }
  return (
    <div role="row" aria-rowindex={row + 2} className="p-row" style={{ transform: `translateY(${top}px)`, width: head + plan.columns * cell }}>
      <div role="rowheader" aria-colindex={1} className="p-name mono" style={{ width: head }} title={name}>{name}</div>
      {cells}
    </div>
  )
})

interface CellProps { at: number; column: number; letter: string; axes: string[][]; chosen: boolean; lit: readonly string[]; left: number; width: number }

const Cell = memo(function Cell({ at, column, letter, axes, chosen, lit, left, width }: CellProps) {
  const look = lookAt(letter)
  return (
    <div role="gridcell" id={`partition-${at}`} data-at={at} data-state={look.state} aria-colindex={column + 2} aria-selected={chosen} aria-label={`${valuesAt(axes, at).join(" ")}: ${look.state}`} className="p-cell" data-dim={lit.length > 0 && !lit.includes(look.state) ? "" : undefined} style={{ left, width }}>
      <StateMark state={look.mark} size={14} />
    </div>
  )
})
