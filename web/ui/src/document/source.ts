// A pipeline's text with the positions of what is in it. Pure: text in, positions out.
import { isAlias, isMap, isPair, isScalar, isSeq, parseDocument, type Document, type Node, type Pair, type Scalar, type YAMLMap, type YAMLSeq } from "yaml"

export type Path = readonly (string | number)[]

/** Change replaces text[from, to) by insert. */
export interface Change { from: number; to: number; insert: string }

/** Refusal says why an edit is not made, and where the cause stands. */
export class Refusal extends Error {
  constructor(message: string, readonly at?: number) { super(message) }
}

/** StepPlace is a step of the text. Key is as in the API: id, group.id, finally.id, on_failure.id. */
export interface StepPlace { key: string; id: string; path: Path; node: YAMLMap; list: YAMLSeq; index: number }

// The texts that were parsed last: an edit begins with the one that is shown, and what it makes is shown then.
const latest: Source[] = []
const kept = 3

/** Source is a text that parses, or the constructor throws a Refusal. */
export class Source {
  /** of is the source of a text, parsed once as long as it is one of the last few. Nobody changes it. */
  static of(text: string): Source {
    const found = latest.find((s) => s.text === text) ?? new Source(text)
    latest.splice(0, latest.length, found, ...latest.filter((s) => s !== found).slice(0, kept - 1))
    return found
  }

  readonly doc: Document
  readonly json: boolean
  readonly eol: string

  constructor(readonly text: string) {
    this.doc = parseDocument(text, { keepSourceTokens: true, merge: true, uniqueKeys: true, logLevel: "error" })
    const bad = this.doc.errors[0]
    if (bad) throw new Refusal(bad.message.split("\n")[0]!, bad.pos[0])
    if (!isMap(this.doc.contents)) throw new Refusal("the text is not a pipeline: it has no keys", 0)
    this.json = /^\s*\{\s*"/.test(text)
    this.eol = text.includes("\r\n") ? "\r\n" : "\n"
  }

  get root(): YAMLMap { return this.doc.contents as YAMLMap }

  private read?: { value: unknown }
  private places?: readonly StepPlace[]

  /** value is what the text means. Nobody changes it. */
  value(): unknown { return (this.read ??= { value: this.doc.toJS({ maxAliasCount: 10_000 }) }).value }

  /** node is what stands at a path, undefined if nothing does. Nothing behind an alias or a merge key is found. */
  node(path: Path): Node | undefined {
    let at: Node | null | undefined = this.root
    for (const part of path) {
      if (isMap(at) && typeof part === "string") at = pairOf(at, part)?.value as Node | undefined
      else if (isSeq(at) && typeof part === "number") at = at.items[part] as Node | undefined
      else return undefined
    }
    return at ?? undefined
  }

  /** steps are all steps of the text, in its order. */
  steps(): readonly StepPlace[] { return (this.places ??= this.walked()) }

  private walked(): StepPlace[] {
    const found: StepPlace[] = []
    const walk = (map: YAMLMap, name: string, prefix: string, path: Path, depth: number) => {
      const list = pairOf(map, name)?.value
      if (!isSeq(list) || depth > 20) return
      list.items.forEach((node, index) => {
        if (!isMap(node)) return
        const id = String((pairOf(node, "id")?.value as Scalar | undefined)?.value ?? "")
        const place: Path = [...path, name, index]
        found.push({ key: prefix + id, id, path: place, node, list: list as YAMLSeq, index })
        walk(node, "steps", prefix + id + ".", place, depth + 1)
      })
    }
    walk(this.root, "steps", "", [], 0)
    walk(this.root, "finally", "finally.", [], 0)
    walk(this.root, "on_failure", "on_failure.", [], 0)
    return found
  }

  /** step is the step with a key. */
  step(key: string): StepPlace {
    const found = this.steps().filter((s) => s.key === key)
    if (found.length === 0) throw new Refusal(`there is no step ${key} in the text`)
    if (found.length > 1) throw new Refusal(`two steps are called ${key}`, found[1]!.node.range![0])
    return found[0]!
  }

  lineStart(at: number): number { return this.text.lastIndexOf("\n", at - 1) + 1 }

  /** lineEnd is behind the newline of the line, or the end of the text. */
  lineEnd(at: number): number {
    const n = this.text.indexOf("\n", at)
    return n < 0 ? this.text.length : n + 1
  }

  column(at: number): number { return at - this.lineStart(at) }

  /** valueEnd is where a node's own text ends, without blanks, comments and newlines behind it. */
  valueEnd(node: Node): number {
    let end = node.range![1]
    while (end > node.range![0] && /\s/.test(this.text[end - 1]!)) end--
    return end
  }
}

/** pairOf is the pair of a key that stands in the map itself. */
export function pairOf(map: YAMLMap, key: string): Pair<Node, Node | null> | undefined {
  return map.items.find((p): p is Pair<Node, Node | null> => isPair(p) && isScalar(p.key) && String(p.key.value) === key)
}

/** untouchable refuses nodes whose change would change other places too, or whose meaning the page does not know. */
export function untouchable(node: Node | null | undefined): void {
  if (!node) return
  if (isAlias(node)) throw new Refusal(`the value is the alias *${node.source}: change it where it is written`, node.range?.[0])
  const { anchor, tag } = node as Scalar
  if (anchor) throw new Refusal(`the value has the anchor &${anchor}: others use it, change it in the text`, node.range?.[0])
  if (tag && !tag.startsWith("tag:yaml.org,2002:")) throw new Refusal(`the value has the tag ${tag}: change it in the text`, node.range?.[0])
  const source = (node as Scalar).srcToken
  if (source && tag && /^tag:yaml\.org,2002:(binary|timestamp|set|omap|pairs)$/.test(tag)) throw new Refusal(`the value has the tag ${tag}: change it in the text`, node.range?.[0])
}

/** isFlow reports whether a collection is written with braces or brackets. */
export const isFlow = (node: Node) => (node as YAMLMap).flow === true

/** applyChanges gives the text after changes, which must not overlap. */
export function applyChanges(text: string, changes: readonly Change[]): string {
  let out = ""
  let at = 0
  for (const c of [...changes].sort((a, b) => a.from - b.from || a.to - b.to)) {
    if (c.from < at) throw new Refusal("two parts of the edit overlap", c.from)
    out += text.slice(at, c.from) + c.insert
    at = c.to
  }
  return out + text.slice(at)
}

let hears: ((text: string) => void) | undefined

/** foretold makes an edit whose text is told before it is checked, which takes as long as parsing it. The edit may still be refused. */
export function foretold<T>(hear: (text: string) => void, make: () => T): T {
  hears = hear
  try {
    return make()
  } finally {
    hears = undefined
  }
}

/** told is the text that an edit makes of a source; whoever asked for the edit with foretold hears of it. */
export function told(source: Source, text: string): string {
  if (text !== source.text) hears?.(text)
  return text
}
