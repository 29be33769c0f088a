// Whether a text that an edit made means what was meant, and nothing else. Pure.
import { isScalar, isSeq, type Node, type Pair, type Scalar } from "yaml"
import { Source, type Change, type Path } from "./source"

export type Value = { [key: string]: unknown }

/** Meant is the value of a document as an edit means it to be. Apart: what is put in one place shows in no other one, and the value that it
 * began with stays; else it changes in all places that share it by an alias, as a change of the text does. */
export class Meant {
  constructor(private doc: Value, private readonly apart: boolean) {}

  get value(): Value { return this.doc }

  get(path: Path): unknown { return path.reduce<unknown>((at, part) => (at as Value | undefined)?.[part as string], this.doc) }

  /** put gives a place a value, and makes what is on the way there; undefined removes it. */
  put(path: Path, value: unknown): void {
    const own = <T>(v: T): T => (!this.apart || v === null || typeof v !== "object" ? v : ((Array.isArray(v) ? [...v] : { ...v }) as T))
    let at = (this.doc = own(this.doc))
    path.slice(0, -1).forEach((part, i) => {
      at = at[part as string] = own((at[part as string] ?? (typeof path[i + 1] === "number" ? [] : {})) as Value)
    })
    const key = path.at(-1)! as string
    if (value === undefined) {
      if (Array.isArray(at)) at.splice(Number(key), 1)
      else delete at[key]
    } else at[key] = value
  }
}

/** means reports whether the text that changes made of a source has the value that was meant. It throws what is wrong with a text that does
 * not parse. */
export function means(source: Source, text: string, changes: readonly Change[], mean: (doc: Meant) => void): boolean {
  const value = valueAfter(source, text, changes)
  if (value) {
    const meant = new Meant(source.value() as Value, true)
    mean(meant)
    if (same(value, meant.value, 0)) return true // else the whole text says why not
  }
  const meant = new Meant(structuredClone(source.value()) as Value, false)
  mean(meant)
  return canonical(structuredClone(Source.of(text).value())) === canonical(meant.value)
}

/** valueAfter is the value of the text that changes made of a source, read of a part of the text alone: of the items of a list at the top
 * that were changed, and their neighbours. What stands elsewhere is taken over from the source's value, and not to be changed. Undefined:
 * the whole text must be read.
 *
 * It is the value that the whole text has. YAML is read from front to back, and before the part nothing has changed: at its beginning,
 * which is the dash of an item or the key of the list, the reader is where it was. At its end stands the dash of the next item or the next
 * key, as before, and reading the part with such a one behind it has shown that the reader takes it for that. Only an alias could tell of
 * another place, and the marks of a document's beginning: texts that may have them are read as a whole. */
export function valueAfter(source: Source, text: string, changes: readonly Change[]): Value | undefined {
  if (changes.length === 0 || [source.text, text].some((t) => alias.test(t) || marks.test(t))) return undefined
  const part = partOf(source, changes)
  if (!part) return undefined
  const slice = text.slice(part.from, part.to + text.length - source.text.length)
  if (part.tail && !slice.endsWith("\n")) return undefined
  let read: Value
  try {
    read = new Source(part.head + slice + part.tail).value() as Value
  } catch {
    return undefined
  }
  const items = read[part.key]
  const ends = part.next !== undefined && part.next in read
  if (!Array.isArray(items) || Object.keys(read).length !== (ends ? 2 : 1)) return undefined
  if (part.next !== undefined && !(ends && read[part.next] === null)) return undefined
  if (part.goesOn && items.pop() !== null) return undefined
  const before = source.value() as Value
  const list = before[part.key] as unknown[]
  return { ...before, [part.key]: [...list.slice(0, part.first), ...items, ...list.slice(part.last)] }
}

// Every alias, and every line that begins or ends a document; they may match other text too.
const alias = /(?:^|[\s[\]{},:?-])\*[^\s,\]}]/m
const marks = /^(?:%|---|\.\.\.)|\ufeff/m

// Part is a part of a text: items [first, last) of the list of a key at the top. Head and tail stand for what is around it: the key, and
// the next item (goesOn) or the next key.
interface Part { key: string; first: number; last: number; from: number; to: number; head: string; tail: string; goesOn: boolean; next?: string }

function partOf(source: Source, changes: readonly Change[]): Part | undefined {
  const map = source.root.srcToken
  if (map?.type !== "block-map" || map.indent !== 0 || source.root.tag || source.root.anchor) return undefined
  if (!source.root.items.every((p) => isScalar(p.key) && typeof p.key.value === "string" && p.key.value !== "<<")) return undefined
  const from = Math.min(...changes.map((c) => c.from))
  const to = Math.max(...changes.map((c) => c.to))
  const at = source.root.items.findLastIndex((p) => (p.key as Node).range![0] < from)
  const [pair, after] = [source.root.items[at], source.root.items[at + 1]] as (Pair<Node, Node | null> | undefined)[]
  const key = pair && nameOf(source, pair)
  const next = after && nameOf(source, after)
  const list = pair?.value
  if (!key || (after && !next) || !isSeq(list) || list.srcToken?.type !== "block-seq" || list.tag || list.anchor) return undefined
  const { indent } = list.srcToken
  const dashes = list.srcToken.items.flatMap((i) => i.start.filter((t) => t.type === "seq-item-ind").map((t) => t.offset))
  const end = next ? next.from : source.text.length
  if (dashes.length !== list.items.length || dashes.some((d) => source.column(d) !== indent) || from < key.to + 2 || to > end) return undefined
  // One item more on either side: what was changed may run into it.
  const first = dashes.findLastIndex((d) => d < from) - 1
  const behind = dashes.findIndex((d) => d - indent >= to)
  const last = behind < 0 || behind + 1 >= dashes.length ? dashes.length : behind + 1
  const goesOn = last < dashes.length
  return {
    key: key.name, first: Math.max(0, first), last,
    from: first < 0 ? key.from : dashes[first]! - indent, head: first < 0 ? "" : key.text + ":\n",
    to: goesOn ? dashes[last]! - indent : end, tail: goesOn ? " ".repeat(indent) + "- ~\n" : next ? next.text + ": ~\n" : "",
    goesOn, next: goesOn ? undefined : next?.name,
  }
}

// nameOf is the key of a pair, if it is a plain one at the beginning of its line.
function nameOf(source: Source, { key }: Pair<Node, Node | null>): { name: string; text: string; from: number; to: number } | undefined {
  const { tag, anchor, value } = key as Scalar
  if (tag || anchor) return undefined
  const [from, to] = key.range!
  const text = source.text.slice(from, to)
  return source.column(from) === 0 && source.text[to] === ":" && !text.includes("\n") ? { name: value as string, text, from, to } : undefined
}

// same compares what two values do not share; the document and its lists are looked through.
function same(a: unknown, b: unknown, depth: number): boolean {
  if (a === b) return true
  if (depth === 2 || a === null || b === null || typeof a !== "object" || typeof b !== "object" || Array.isArray(a) !== Array.isArray(b)) return canonical(a) === canonical(b)
  const keys = Object.keys(a)
  return keys.length === Object.keys(b).length && keys.every((k) => k in b && same((a as Value)[k], (b as Value)[k], depth + 1))
}

/** canonical compares values without the order of their keys. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_, v) => {
    if (ArrayBuffer.isView(v)) return `bytes ${(v as Uint8Array).join()}`
    if (typeof v === "bigint") return String(v)
    if (v && typeof v === "object" && !Array.isArray(v)) return Object.fromEntries(Object.entries(v as Value).sort(([a], [b]) => (a < b ? -1 : 1)))
    return typeof v === "number" && !Number.isFinite(v) ? String(v) : v
  })
}
