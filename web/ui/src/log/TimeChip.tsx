import { useSearchParams } from "../url"
import { parseTime, sayTime, searchOf } from "./time"

/** TimeChip is the time that is shown, while it is not all; it takes the limit away. */
export function TimeChip() {
  const [search, setSearch] = useSearchParams()
  const time = parseTime(search)
  if (!time) return null
  return <button type="button" className="button" aria-pressed="true" title="Show all times" onClick={() => setSearch(searchOf(undefined))}><span className="hidden-text">Only the time </span>{sayTime(time)} ✕</button>
}
