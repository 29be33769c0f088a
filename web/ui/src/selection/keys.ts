// The keys of all steps, with their actions and queues, read from columns. Pure.
import type { Table } from "../field/columns"

export interface Keys {
  /** By index of the step; "": it has none yet. */
  key: string[]
  action: Uint16Array
  actions: string[]
  queue: Uint16Array
  queues: string[]
}

/** readKeys reads the tables of successive rows. */
export function readKeys(tables: Table[]): Keys {
  const n = tables.reduce((sum, t) => sum + t.header.rows, 0)
  const out: Keys = { key: [], action: new Uint16Array(n), actions: [], queue: new Uint16Array(n), queues: [] }
  const utf8 = new TextDecoder()
  let from = 0
  for (const t of tables) {
    const [text, shared, length] = [t.column("key") ?? new Uint8Array(0), t.column("key_shared"), t.column("key_length")]
    const bytes = new Uint8Array(1 << 16)
    let [at, before] = [0, ""]
    for (let row = 0; row < t.header.rows; row++) {
      const [same, own] = [shared?.[row] ?? 0, length?.[row] ?? 0]
      if (same + own === 0) {
        out.key.push("")
        continue
      }
      if (same + own > bytes.length || at + own > text.length) throw new Error(`these are no keys: that of row ${row} is cut off`)
      let ascii = true
      for (let k = 0; k < own; k++) if ((bytes[same + k] = text[at + k]!) > 127) ascii = false
      at += own
      // As characters where they are as many as bytes.
      before = ascii && before.length >= same && isASCII(before) ? before.slice(0, same) + String.fromCharCode(...bytes.subarray(same, same + own)) : utf8.decode(bytes.subarray(0, same + own))
      out.key.push(before)
    }
    from = merge(t, "action", t.header.actions ?? [""], out.action, out.actions, from)
    merge(t, "queue", t.header.queues ?? [""], out.queue, out.queues, from - t.header.rows)
  }
  return out
}

const beyond = /[^\0-\x7f]/ // eslint-disable-line no-control-regex
const isASCII = (text: string) => !beyond.test(text)

// Each table has its own list of names.
function merge(t: Table, column: string, names: string[], into: Uint16Array, all: string[], from: number): number {
  const place = names.map((name) => {
    if (!all.includes(name)) all.push(name)
    return all.indexOf(name)
  })
  const values = t.column(column)
  for (let row = 0; row < t.header.rows; row++) into[from + row] = place[values?.[row] ?? 0] ?? 0
  return from + t.header.rows
}
