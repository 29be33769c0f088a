// Where an item of a list or a key of a mapping is put in or taken out of the text. Pure.
import { isMap, isScalar, type Node, type Scalar, type YAMLMap, type YAMLSeq } from "yaml"
import { renderBlock, renderInline, renderText } from "./render"
import { isFlow, pairOf, Refusal, untouchable, type Change, type Source } from "./source"

/** insertPair adds a key at the end of a mapping. */
export function insertPair(source: Source, map: YAMLMap, key: string, value: unknown): Change[] {
  const name = source.json ? JSON.stringify(key) : renderText(key)
  if (isFlow(map)) return intoFlow(source, map, map.items.length, `${name}: ${renderInline(value, source.json)}`)
  const token = map.srcToken
  if (token?.type !== "block-map") throw new Refusal("the text has no place for the key here", map.range?.[0])
  const at = behind(source, lastOf(map))
  const pad = " ".repeat(token.indent)
  return [line(source, at, pad + name + ":" + renderBlock(value, token.indent + 2, source.eol))]
}

/** removePair takes a key and its value out. */
export function removePair(source: Source, map: YAMLMap, key: string): Change[] {
  const pair = pairOf(map, key)
  if (!pair) return []
  const index = map.items.indexOf(pair)
  if (isFlow(map)) return outOfFlow(source, map, index, pair.key, pair.value)
  const from = pair.key.range![0]
  const next = map.items[index + 1]
  if (source.text.slice(source.lineStart(from), from).trim() === "") {
    return [{ from: source.lineStart(from), to: behind(source, pair.value ?? pair.key), insert: "" }]
  }
  // The first key stands behind a dash: the next one takes its place.
  if (!next) throw new Refusal("it is the only key here: change it in the text", from)
  return [{ from, to: (next.key as Node).range![0], insert: "" }]
}

/** insertItem adds an item to a list, before the one at an index or at the end. */
export function insertItem(source: Source, list: YAMLSeq, index: number, value: unknown): Change[] {
  if (isFlow(list)) return intoFlow(source, list, index, renderInline(value, source.json))
  const token = list.srcToken
  if (token?.type !== "block-seq") throw new Refusal("the text has no place for it here", list.range?.[0])
  const at = index === 0 ? itemLines(source, list, 0).from : itemLines(source, list, index - 1).to
  return [line(source, at, " ".repeat(token.indent) + "-" + renderBlock(value, token.indent + 2, source.eol, true))]
}

/** removeItem takes an item out, with the comment above it. */
export function removeItem(source: Source, list: YAMLSeq, index: number): Change[] {
  const node = list.items[index] as Node
  untouchable(node)
  if (isFlow(list)) return outOfFlow(source, list, index, node, node)
  const { from, to } = itemLines(source, list, index)
  // Of two blank lines that would meet, one goes too.
  const blank = (at: number) => at < source.text.length && source.text.slice(at, source.lineEnd(at)).trim() === ""
  const between = from > 0 && blank(source.lineStart(from - 1)) && blank(to)
  return [{ from, to: between ? source.lineEnd(to) : to, insert: "" }]
}

/** itemLines are the whole lines of an item of a list with a line for each, from the comment right above it. */
export function itemLines(source: Source, list: YAMLSeq, index: number): { from: number; to: number } {
  const token = list.srcToken
  if (token?.type !== "block-seq") throw new Refusal("the list is not written with a line for each item", list.range?.[0])
  const items = token.items.filter((i) => i.start.some((t) => t.type === "seq-item-ind"))
  const dash = items[index]?.start.find((t) => t.type === "seq-item-ind")
  if (!dash) throw new Refusal("the text has no such item", list.range?.[0])
  let from = source.lineStart(dash.offset)
  if (source.text.slice(from, dash.offset).trim() !== "") throw new Refusal("the item stands behind something else on its line: change it in the text", dash.offset)
  for (;;) { // comments above, as far as they are of the same indent
    const above = source.lineStart(from - 1)
    const text = source.text.slice(above, from)
    if (from === 0 || !/^ *#/.test(text) || text.search(/#/) !== token.indent) break
    if (index === 0 && above <= (list.range?.[0] ?? 0) - 1 && source.text.slice(source.lineStart(list.range![0]), list.range![0]).trim() !== "") break
    from = above
  }
  const node = list.items[index] as Node | null
  const to = node?.range && source.valueEnd(node) > dash.offset ? behind(source, node) : source.lineEnd(dash.offset)
  return { from, to }
}

/** reindent moves lines to the right; lines without text stay empty. */
export const reindent = (text: string, by: number) => text.replace(/^(?=[^\r\n])/gm, " ".repeat(by))

// lastOf is the node that ends a mapping.
function lastOf(map: YAMLMap): Node {
  const pair = map.items.at(-1)
  const node = (pair?.value ?? pair?.key) as Node | undefined
  if (!node?.range) throw new Refusal("the text has no place for the key here", map.range?.[0])
  return node
}

// behind is the beginning of the line after a node's last one.
function behind(source: Source, node: Node): number {
  let last = node
  while (isMap(last) && !isFlow(last) && last.items.length > 0) {
    const pair = last.items.at(-1)!
    last = ((pair.value as Node | null)?.range ? pair.value : pair.key) as Node
  }
  if (isScalar(last) && String((last as Scalar).type).startsWith("BLOCK")) {
    const end = last.range![1] // a block scalar ends with its newline; blank lines behind it are its own or nobody's
    return source.text[end - 1] === "\n" ? afterText(source, last.range![0], end) : source.lineEnd(end)
  }
  return source.lineEnd(Math.max(source.valueEnd(last), last.range![0]))
}

// afterText is the end of the last line of a block scalar that has text, unless it keeps its blank lines ("|+").
function afterText(source: Source, from: number, end: number): number {
  if (/^[|>][0-9-]*\+/.test(source.text.slice(from, from + 4))) return end
  let at = end
  while (at > from && /\s/.test(source.text[at - 1]!)) at--
  return source.lineEnd(at)
}

// line puts whole lines in at the beginning of a line, or behind a last line without an end.
function line(source: Source, at: number, text: string): Change {
  const open = at > 0 && source.text[at - 1] !== "\n"
  return { from: at, to: at, insert: open ? source.eol + text : text + source.eol }
}

function intoFlow(source: Source, node: YAMLMap | YAMLSeq, index: number, text: string): Change[] {
  const parts = node.items.map((i) => ("key" in (i as object) ? { from: ((i as any).key as Node).range![0], node: ((i as any).value ?? (i as any).key) as Node } : { from: (i as Node).range![0], node: i as Node }))
  const next = parts[index]
  if (next) return [{ from: next.from, to: next.from, insert: text + ", " }]
  const last = parts.at(-1)
  if (!last) return [{ from: node.range![0] + 1, to: node.range![1] - 1, insert: text }]
  const end = source.valueEnd(last.node)
  // On lines of their own: the new one gets one too.
  const begin = source.lineStart(last.from)
  const alone = begin > node.range![0] && source.text.slice(begin, last.from).trim() === ""
  return [{ from: end, to: end, insert: alone ? "," + source.eol + source.text.slice(begin, last.from) + text : ", " + text }]
}

function outOfFlow(source: Source, node: YAMLMap | YAMLSeq, index: number, first: Node, last: Node | null): Change[] {
  const from = first.range![0]
  const end = source.valueEnd(last?.range ? last : first)
  if (node.items.length === 1) return [{ from, to: end, insert: "" }]
  const startOf = (i: unknown) => ("key" in (i as object) ? ((i as any).key as Node) : (i as Node)).range![0]
  if (index + 1 < node.items.length) return [{ from, to: startOf(node.items[index + 1]), insert: "" }]
  const before = node.items[index - 1]
  const prior = ("key" in (before as object) ? (((before as any).value as Node | null)?.range ? (before as any).value : (before as any).key) : before) as Node
  return [{ from: source.valueEnd(prior), to: end, insert: "" }]
}
