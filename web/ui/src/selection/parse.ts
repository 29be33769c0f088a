// The language that selects steps: `convert[*] & failed`, `+deploy+`, `action:util.http | !worker:w1`. Pure, and bounded in every way.

/** Expr is what a text selects. */
export type Expr =
  | { kind: "or" | "and"; of: Expr[] }
  | { kind: "not"; of: Expr }
  /** What some steps depend on (up), and what depends on them (down), however far, with the steps themselves. */
  | { kind: "flow"; up: boolean; down: boolean; of: Expr }
  | { kind: "state"; state: string }
  | { kind: "critical" }
  | { kind: "match"; field: Field; pattern: string }

/** any: the step with this key and all inside of it; if there is none, those that have the text in their key or action. */
export type Field = "any" | "step" | "action" | "worker" | "queue"

/** Fault says what is wrong with a text, at which place of it, and what to do. */
export interface Fault { at: number; length: number; message: string; hint: string }

export const maxText = 500
const maxTerms = 64
const maxDepth = 16

/** stateWords are the states that a word can mean. */
export const stateWords = ["pending", "queued", "running", "waiting", "retrying", "completed", "failed", "skipped", "cancelled", "timed_out"]
const fields: Field[] = ["step", "action", "worker", "queue"]
const signs = "&|!()+"

interface Token { text: string; at: number; sign: boolean; quoted: boolean }

class Wrong extends Error {
  constructor(readonly fault: Fault) { super(fault.message) }
}

const wrong = (at: number, length: number, message: string, hint: string) => new Wrong({ at, length: Math.max(1, length), message, hint })

function tokens(text: string): Token[] {
  const out: Token[] = []
  let at = 0
  while (at < text.length) {
    const c = text[at]!
    if (/\s/.test(c)) at++
    else if (signs.includes(c)) out.push({ text: c, at: at++, sign: true, quoted: false })
    else {
      const from = at
      let [word, quoted] = ["", false]
      while (at < text.length && !/\s/.test(text[at]!) && !signs.includes(text[at]!)) {
        if (text[at] !== '"') {
          word += text[at++]
          continue
        }
        const end = text.indexOf('"', at + 1)
        if (end < 0) throw wrong(at, text.length - at, "the quotation mark is not closed", 'add " where the name ends')
        if (word === "") quoted = true // quotes behind field: leave the field one
        word += text.slice(at + 1, end)
        at = end + 1
      }
      out.push({ text: word, at: from, sign: false, quoted })
    }
  }
  return out
}

/** parse reads a text. An empty one selects everything: undefined. */
export function parse(text: string): { expr?: Expr; fault?: Fault } {
  try {
    if (text.length > maxText) throw wrong(maxText, text.length - maxText, `the text is longer than ${maxText} characters`, "select less, or with a pattern such as convert[*]")
    const list = tokens(text)
    if (list.length === 0) return {}
    return { expr: new Reader(list, text.length).all() }
  } catch (err) {
    if (err instanceof Wrong) return { fault: err.fault }
    throw err
  }
}

class Reader {
  private next = 0
  private terms = 0

  constructor(private readonly list: Token[], private readonly end: number) {}

  all(): Expr {
    const out = this.or(0)
    const rest = this.list[this.next]
    if (!rest) return out
    if (rest.text === ")" && rest.sign) throw wrong(rest.at, 1, "there is no ( for this )", "take it out, or add ( before")
    throw wrong(rest.at, rest.text.length, "nothing joins this with what stands before it", "write & between them for both, | for either")
  }

  private sign(text: string): boolean {
    const t = this.list[this.next]
    if (!t?.sign || t.text !== text) return false
    this.next++
    return true
  }

  private or(depth: number): Expr {
    if (depth > maxDepth) throw wrong(this.list[this.next]?.at ?? this.end, 1, `parentheses lie deeper than ${maxDepth}`, "take some of them out")
    const of = [this.and(depth)]
    while (this.sign("|")) of.push(this.and(depth))
    return of.length === 1 ? of[0]! : { kind: "or", of }
  }

  private and(depth: number): Expr {
    const of = [this.not(depth)]
    while (this.sign("&")) of.push(this.not(depth))
    return of.length === 1 ? of[0]! : { kind: "and", of }
  }

  private not(depth: number): Expr {
    let no = false
    while (this.sign("!")) no = !no
    const of = this.flow(depth)
    return no ? { kind: "not", of } : of
  }

  private flow(depth: number): Expr {
    const up = this.sign("+")
    const of = this.term(depth)
    const down = this.sign("+")
    return up || down ? { kind: "flow", up, down, of } : of
  }

  private term(depth: number): Expr {
    const t = this.list[this.next]
    if (!t) throw wrong(this.end, 1, this.next === 0 ? "something to select is missing" : `something is missing behind ${this.list[this.next - 1]!.text}`, "write a step, a state or action:NAME")
    if (t.sign && t.text !== "(") throw wrong(t.at, 1, `${t.text} cannot stand here`, "a step, a state or action:NAME is missing before it")
    this.next++
    if (++this.terms > maxTerms) throw wrong(t.at, t.text.length, `there are more than ${maxTerms} parts`, "select with a pattern such as convert[*]")
    if (t.sign) {
      const of = this.or(depth + 1)
      if (!this.sign(")")) {
        const here = this.list[this.next]
        if (here && !here.sign) throw wrong(here.at, here.text.length, "nothing joins this with what stands before it", "write & between them for both, | for either")
        throw wrong(t.at, 1, "this ( is not closed", "add ) where it ends")
      }
      return of
    }
    return t.quoted ? { kind: "match", field: "any", pattern: t.text } : word(t)
  }
}

function word(t: Token): Expr {
  const colon = t.text.indexOf(":")
  if (colon < 0) {
    if (t.text === "critical") return { kind: "critical" }
    return stateWords.includes(t.text) ? { kind: "state", state: t.text } : { kind: "match", field: "any", pattern: t.text }
  }
  const [name, pattern] = [t.text.slice(0, colon), t.text.slice(colon + 1)]
  if (name !== "state" && !fields.includes(name as Field)) throw wrong(t.at, colon, `there is no ${name}: to select by`, 'write state:, step:, action:, worker: or queue:; put a name with a colon in "quotes"')
  if (!pattern) throw wrong(t.at, t.text.length, `a name is missing behind ${name}:`, name === "state" ? `one of ${stateWords.join(", ")}` : `write for instance ${name}:${name === "action" ? "util.http" : "*"}`)
  if (name !== "state") return { kind: "match", field: name as Field, pattern }
  if (!stateWords.includes(pattern)) throw wrong(t.at + colon + 1, pattern.length, `there is no state ${pattern}`, `one of ${stateWords.join(", ")}`)
  return { kind: "state", state: pattern }
}

/** print writes an expression so that parse reads the same. */
export function print(e: Expr): string {
  const inner = (x: Expr) => (x.kind === "or" || x.kind === "and" ? `(${print(x)})` : print(x))
  switch (e.kind) {
    case "or": return e.of.map((x) => (x.kind === "or" ? inner(x) : print(x))).join(" | ")
    case "and": return e.of.map(inner).join(" & ")
    case "not": return "!" + inner(e.of)
    case "flow": return (e.up ? "+" : "") + (e.of.kind === "not" || e.of.kind === "flow" ? `(${print(e.of)})` : inner(e.of)) + (e.down ? "+" : "")
    case "state": return e.state
    case "critical": return "critical"
    case "match": return e.field === "any" ? quote(e.pattern) : `${e.field}:${/[\s&|!()+]/.test(e.pattern) ? `"${e.pattern}"` : e.pattern}`
  }
}

/** quote writes the name of a step so that it is read as one. A quotation mark in it becomes any character. */
export function quote(name: string): string {
  const safe = name.replaceAll('"', "*")
  return safe === "" || /[\s&|!()+:]/.test(safe) || safe === "critical" || stateWords.includes(safe) ? `"${safe}"` : safe
}

/** parts are what must all hold: the chips above the steps are some of them. */
export const parts = (e: Expr | undefined): Expr[] => (!e ? [] : e.kind === "and" ? e.of : [e])

/** join makes one text of parts that must all hold. */
export const join = (all: Expr[]): string | undefined => (all.length === 0 ? undefined : print(all.length === 1 ? all[0]! : { kind: "and", of: all }))

/** statesOf are the states of a part that is nothing but some of them; undefined: it is something else. */
export function statesOf(e: Expr): string[] | undefined {
  if (e.kind === "state") return [e.state]
  if (e.kind !== "or" || !e.of.every((x) => x.kind === "state")) return undefined
  return e.of.map((x) => (x as { state: string }).state)
}

/** pathOf is the way of a part that is a path: the critical one, or that before or behind one step. */
export function pathOf(e: Expr): "critical" | "up" | "down" | undefined {
  if (e.kind === "critical") return "critical"
  return e.kind === "flow" && e.up !== e.down && e.of.kind === "match" && e.of.field === "step" ? (e.up ? "up" : "down") : undefined
}

/** toggleState adds a state to those that are shown, or takes it away. */
export function toggleState(text: string | undefined, state: string): string | undefined {
  const all = parts(parse(text ?? "").expr)
  const at = all.findIndex((e) => statesOf(e))
  const now = at < 0 ? [] : statesOf(all[at]!)!
  const next = now.includes(state) ? now.filter((s) => s !== state) : [...now, state]
  const rest = all.filter((_, i) => i !== at)
  const part: Expr[] = next.length === 0 ? [] : [next.length === 1 ? { kind: "state", state: next[0]! } : { kind: "or", of: next.map((s) => ({ kind: "state", state: s })) }]
  return join(at < 0 ? [...rest, ...part] : [...all.slice(0, at), ...part, ...all.slice(at + 1)])
}

/** togglePath shows a path, instead of the one that is shown, or with undefined none. The same one again is taken away. */
export function togglePath(text: string | undefined, path: Expr | undefined): string | undefined {
  const all = parts(parse(text ?? "").expr)
  const was = all.find((e) => pathOf(e))
  const rest = all.filter((e) => !pathOf(e))
  return join(path && !(was && print(was) === print(path)) ? [...rest, path] : rest)
}
