// Events as a list for people: usual ones in a row become one line. Pure.
import type { Schemas } from "../../api/client"

type Event = Schemas["HistoryEvent"]

export interface Entry {
  key: string
  event: Event
  /** Of a folded line: the last event, and how many there are. */
  last?: Event
  count: number
}

/** quiet are the events that every step has when all goes well. */
export const quiet = (type: string) => /queued|started|dispatched|running|completed|taken_over|created|skipped/.test(type)

const least = 4 // fewer are not folded

/** fold makes one entry of usual events that come one after the other, of the same type or of a few types in turns. */
export function fold(events: Event[]): Entry[] {
  const out: Entry[] = []
  let from = 0
  const flush = (to: number) => {
    const byType = new Map<string, Event[]>()
    for (let i = from; i < to; i++) {
      const list = byType.get(events[i]!.event_type) ?? []
      byType.set(events[i]!.event_type, list.concat(events[i]!))
    }
    if ([...byType.values()].every((l) => l.length < least)) for (let i = from; i < to; i++) out.push({ key: `${events[i]!.version}.${i}`, event: events[i]!, count: 1 })
    else for (const [type, list] of byType) out.push({ key: `${list[0]!.version}.${from}.${type}`, event: list[0]!, last: list.at(-1), count: list.length })
    from = to
  }
  events.forEach((e, i) => {
    if (!quiet(e.event_type) || !e.step_id) {
      flush(i)
      out.push({ key: `${e.version}.${i}`, event: e, count: 1 })
      from = i + 1
    } else if (i - from >= 500) flush(i)
  })
  flush(events.length)
  return out
}
