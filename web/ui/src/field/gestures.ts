// Pointer and wheel on an element as moves, zooms and clicks.
interface Acts {
  pan: (dx: number, dy: number) => void
  /** Both: in both directions, also where the wheel alone zooms one. */
  zoom: (factor: number, x: number, y: number, both: boolean) => void
  /** The wheel without a key: whether it scrolls. */
  scroll: (dy: number) => boolean
  click: (x: number, y: number) => void
  /** x is −1 when the pointer has left. */
  hover: (x: number, y: number) => void
}

/** gestures listens until the function that it gives is called. */
export function gestures(el: HTMLElement, acts: Acts): () => void {
  const held = new Map<number, { x: number; y: number }>()
  let moved = 0
  const place = (e: PointerEvent | WheelEvent) => {
    const box = el.getBoundingClientRect()
    return { x: e.clientX - box.left, y: e.clientY - box.top }
  }
  const down = (e: PointerEvent) => {
    if (e.button !== 0) return
    held.set(e.pointerId, place(e))
    moved = 0
    acts.hover(-1, -1)
  }
  const move = (e: PointerEvent) => {
    const now = place(e)
    const before = held.get(e.pointerId)
    if (!before) {
      if (held.size === 0) acts.hover(now.x, now.y)
      return
    }
    const other = [...held.entries()].find(([id]) => id !== e.pointerId)?.[1]
    if (other) {
      const [was, is] = [Math.hypot(before.x - other.x, before.y - other.y), Math.hypot(now.x - other.x, now.y - other.y)]
      if (was > 0) acts.zoom(is / was, (now.x + other.x) / 2, (now.y + other.y) / 2, true)
    } else {
      moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y)
      if (moved > 3 && !el.hasPointerCapture(e.pointerId)) el.setPointerCapture(e.pointerId)
      if (moved > 3) acts.pan(now.x - before.x, now.y - before.y)
    }
    if (moved > 3 || other) held.set(e.pointerId, now)
  }
  const up = (e: PointerEvent) => {
    const was = held.get(e.pointerId)
    held.delete(e.pointerId)
    // Elements in the field have clicks of their own.
    if (was && moved <= 3 && e.type === "pointerup" && !(e.target as Element).closest("button, a")) acts.click(was.x, was.y)
  }
  const leave = () => { if (held.size === 0) acts.hover(-1, -1) }
  const wheel = (e: WheelEvent) => {
    e.preventDefault()
    const { x, y } = place(e)
    if (e.shiftKey) acts.pan(-(e.deltaX || e.deltaY), 0)
    else if (e.ctrlKey || e.metaKey || !acts.scroll(e.deltaY)) acts.zoom(Math.exp(-Math.max(-200, Math.min(200, e.deltaY)) * 0.002), x, y, e.ctrlKey || e.metaKey)
  }
  el.addEventListener("pointerdown", down)
  el.addEventListener("pointermove", move)
  el.addEventListener("pointerup", up)
  el.addEventListener("pointercancel", up)
  el.addEventListener("pointerleave", leave)
  el.addEventListener("wheel", wheel, { passive: false })
  return () => {
    el.removeEventListener("pointerdown", down)
    el.removeEventListener("pointermove", move)
    el.removeEventListener("pointerup", up)
    el.removeEventListener("pointercancel", up)
    el.removeEventListener("pointerleave", leave)
    el.removeEventListener("wheel", wheel)
  }
}
