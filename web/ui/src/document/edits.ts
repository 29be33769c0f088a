// Edits of a pipeline's text by a form or a graph, as the smallest changes of it: every byte elsewhere stays, comments included. Each edit
// is checked before it is given: the text that comes out must parse to the value that was meant, else the edit is refused. Pure.
import { isMap, isScalar, isSeq, type Node, type Scalar, type YAMLMap, type YAMLSeq } from "yaml"
import { means, type Meant, type Value } from "./check"
import { insertItem, insertPair, removeItem, removePair, itemLines, reindent } from "./collections"
import { renderBlock, renderInline, renderText } from "./render"
import { applyChanges, isFlow, pairOf, Refusal, Source, told, untouchable, type Change, type Path, type StepPlace } from "./source"

export { Refusal, Source } from "./source"

/** Edit is a change of a text that does what was meant. */
export interface Edit { changes: Change[]; text: string }

/** Place is one where a step's id is used: what the server's plan tells (references), in offsets of the text. */
export interface Place { from: number; to: number }

/** setKey gives a key below a path a value; undefined removes it. */
export function setKey(text: string, path: Path, value: unknown): Edit {
  const source = Source.of(text)
  return checked(source, value === undefined ? remove(source, path) : set(source, path, value), (doc) => doc.put(path, value))
}

/** removeKey removes a key; one that is not there is no change. */
export const removeKey = (text: string, path: Path) => setKey(text, path, undefined)

/** addDependency makes a step depend on another one beside it. */
export function addDependency(text: string, key: string, on: string): Edit {
  const source = Source.of(text)
  const step = source.step(key)
  const path = [...step.path, "depends_on"]
  const now = dependencies(step)
  if (now.includes(on)) return { changes: [], text }
  const list = source.node(path)
  untouchable(list)
  const changes = isSeq(list) ? insertItem(source, list as YAMLSeq, list.items.length, on) : set(source, path, [...now, on])
  return checked(source, changes, (doc) => doc.put(path, [...now, on]))
}

/** removeDependency undoes addDependency; the key goes with the last one. */
export function removeDependency(text: string, key: string, on: string): Edit {
  const source = Source.of(text)
  const step = source.step(key)
  return checked(source, dropDependency(source, step, on), (doc) => {
    const rest = dependencies(step).filter((d) => d !== on)
    doc.put([...step.path, "depends_on"], rest.length > 0 ? rest : undefined)
  })
}

/** addStep puts a step behind another one of the same list, or at the end of a list: ["steps"], or that of a group. */
export function addStep(text: string, where: { after: string } | { list: Path }, step: Value): Edit {
  const source = Source.of(text)
  let list: Node | undefined, path: Path, index: number
  if ("after" in where) {
    const beside = source.step(where.after)
    list = beside.list
    path = beside.path.slice(0, -1)
    index = beside.index + 1
  } else {
    path = where.list
    list = source.node(path)
    index = isSeq(list) ? list.items.length : 0
  }
  untouchable(list)
  const changes = isSeq(list) ? insertItem(source, list as YAMLSeq, index, step) : set(source, path, [step])
  return checked(source, changes, (doc) => {
    const steps = (doc.get(path) as unknown[] | undefined) ?? []
    doc.put(path, [...steps.slice(0, index), step, ...steps.slice(index)])
  })
}

/** removeStep removes a step with the comment above it, and the dependencies of its neighbours on it. */
export function removeStep(text: string, key: string): Edit {
  const source = Source.of(text)
  const step = source.step(key)
  if (step.list.items.length === 1) {
    const owner = step.path.slice(0, -1)
    if (owner.length === 1 && owner[0] === "steps") throw new Refusal("a pipeline needs a step: this is its last one", step.node.range![0])
  }
  untouchable(step.node)
  const beside = source.steps().filter((s) => s.list === step.list && s !== step && s.key !== key)
  const last = step.list.items.length === 1
  const changes = last ? remove(source, step.path.slice(0, -1)) : removeItem(source, step.list, step.index)
  for (const other of beside) changes.push(...dropDependency(source, other, step.id))
  return checked(source, changes, (doc) => {
    for (const other of beside) {
      const now = dependencies(other)
      const rest = now.filter((d) => d !== step.id)
      if (rest.length < now.length) doc.put([...other.path, "depends_on"], rest.length > 0 ? rest : undefined)
    }
    const owner = step.path.slice(0, -1)
    doc.put(owner, last ? undefined : (doc.get(owner) as unknown[]).filter((_, i) => i !== step.index))
  })
}

/** moveStep puts a step behind another one of the same list, or first ("" for after). */
export function moveStep(text: string, key: string, after: string): Edit {
  const source = Source.of(text)
  const step = source.step(key)
  const target = after === "" ? -1 : source.step(after).index
  if (after !== "" && source.step(after).list !== step.list) throw new Refusal("a step can be moved within its list only")
  if (isFlow(step.list)) throw new Refusal("the steps are written on one line: move it in the text", step.list.range![0])
  if (target === step.index || target === step.index - 1) return { changes: [], text }
  const lines = itemLines(source, step.list, step.index)
  let body = text.slice(lines.from, lines.to)
  if (!body.endsWith("\n")) body += source.eol
  const at = target === -1 ? itemLines(source, step.list, 0).from : itemLines(source, step.list, target).to
  const before = at > 0 && text[at - 1] !== "\n" ? source.eol : ""
  const changes = [{ from: lines.from, to: lines.to, insert: "" }, { from: at, to: at, insert: before + body }]
  return checked(source, changes, (doc) => {
    const owner = step.path.slice(0, -1)
    const list = [...(doc.get(owner) as unknown[])]
    const [moved] = list.splice(step.index, 1)
    list.splice(target < step.index ? target + 1 : target, 0, moved)
    doc.put(owner, list)
  })
}

/** renameStep changes a step's id where it is written, and in all places that the server has named. */
export function renameStep(text: string, key: string, id: string, places: readonly Place[]): Edit {
  if (!/^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$/.test(id)) throw new Refusal("an id has letters, digits, _ . and -, and begins with a letter or digit")
  const source = Source.of(text)
  const step = source.step(key)
  if (source.steps().some((s) => s.list === step.list && s.id === id)) throw new Refusal(`a step beside it is called ${id} already`)
  const own = pairOf(step.node, "id")!.value as Scalar
  untouchable(own)
  const changes: Change[] = [{ from: own.range![0], to: own.range![1], insert: textLike(own, id, source) }]
  for (const p of places) {
    if (p.from < own.range![1] && own.range![0] < p.to) continue
    if (text.slice(p.from, p.to) !== step.id) throw new Refusal(`a place that names ${step.id} cannot be changed exactly: change it in the text`, p.from)
    changes.push({ from: p.from, to: p.to, insert: id })
  }
  // A rename has no value to compare with: templates change inside texts. The result must parse, with the same number of steps.
  const edit = { changes, text: applyChanges(text, changes) }
  const now = Source.of(edit.text)
  if (!now.steps().some((s) => s.id === id) || now.steps().length !== source.steps().length) throw new Refusal("the change would not mean what it should", own.range![0])
  return edit
}

/** wrapInGroup puts steps that stand one after the other into a group, which the others then depend on instead. */
export function wrapInGroup(text: string, keys: readonly string[], id: string): Edit {
  const source = Source.of(text)
  const steps = keys.map((k) => source.step(k)).sort((a, b) => a.index - b.index)
  const first = steps[0]
  if (!first) throw new Refusal("no step is selected")
  const list = first.list
  if (steps.some((s, i) => s.list !== list || s.index !== first.index + i)) throw new Refusal("only steps that stand one after the other can become a group: move them first", first.node.range![0])
  if (isFlow(list)) throw new Refusal("the steps are written on one line: group them in the text", list.range![0])
  if (source.steps().some((s) => s.list === list && s.id === id)) throw new Refusal(`a step is called ${id} already`)
  const inside = new Set(steps.map((s) => s.id))
  const outer = [...new Set(steps.flatMap(dependencies).filter((d) => !inside.has(d)))]
  const others = source.steps().filter((s) => s.list === list && !inside.has(s.id))
  const from = itemLines(source, list, first.index).from
  const to = itemLines(source, list, first.index + steps.length - 1).to
  const dash = list.srcToken!.type === "block-seq" ? list.srcToken!.indent : 0
  const pad = " ".repeat(dash)
  const head = [`${pad}- id: ${renderText(id)}`, ...(outer.length > 0 ? [`${pad}  depends_on: ${renderInline(outer, false)}`] : []), `${pad}  steps:`].join(source.eol) + source.eol
  let body = text.slice(from, to)
  for (const s of [...steps].reverse()) {
    const drop = dependencies(s).filter((d) => !inside.has(d)).flatMap((d) => (dependencies(s).every((x) => !inside.has(x)) ? [] : dropDependency(source, s, d)))
    const all = dependencies(s).length > 0 && dependencies(s).every((d) => !inside.has(d)) ? remove(source, [...s.path, "depends_on"]) : drop
    body = applyChanges(body, all.map((c) => ({ ...c, from: c.from - from, to: c.to - from })))
  }
  const changes: Change[] = [{ from, to, insert: head + reindent(body, 4) }]
  const swap = (s: StepPlace) => [...new Set(dependencies(s).map((d) => (inside.has(d) ? id : d)))]
  const touched = others.filter((s) => dependencies(s).some((d) => inside.has(d)))
  for (const s of touched) changes.push(...set(source, [...s.path, "depends_on"], swap(s)))
  return checked(source, changes, (doc) => {
    for (const s of touched) doc.put([...s.path, "depends_on"], swap(s))
    const owner = first.path.slice(0, -1)
    const all = doc.get(owner) as Value[]
    const members = all.slice(first.index, first.index + steps.length).map((m) => {
      const rest = ((m.depends_on as string[] | undefined) ?? []).filter((d) => inside.has(d))
      const copy: Value = { ...m }
      if (rest.length > 0) copy.depends_on = rest
      else delete copy.depends_on
      return copy
    })
    const group = { id, ...(outer.length > 0 ? { depends_on: outer } : {}), steps: members }
    doc.put(owner, [...all.slice(0, first.index), group, ...all.slice(first.index + steps.length)])
  })
}

/** dependencies of a step, as they are written in it. */
export function dependencies(step: StepPlace): string[] {
  const value = pairOf(step.node, "depends_on")?.value
  if (isSeq(value)) return value.items.map((i) => String((i as Scalar).value))
  return isScalar(value) && value.value != null ? [String(value.value)] : []
}

function dropDependency(source: Source, step: StepPlace, on: string): Change[] {
  const path = [...step.path, "depends_on"]
  const list = source.node(path)
  const now = dependencies(step)
  if (!now.includes(on)) return []
  untouchable(list)
  if (!isSeq(list) || now.every((d) => d === on)) return remove(source, path)
  return now.flatMap((d, i) => (d === on ? removeItem(source, list as YAMLSeq, i) : []))
}

function set(source: Source, path: Path, value: unknown): Change[] {
  const owner = source.node(path.slice(0, -1))
  const key = path.at(-1)!
  untouchable(owner)
  if (owner === undefined) { // what is on the way there is made too
    if (path.length < 2) throw new Refusal("the text has no place for it")
    return set(source, path.slice(0, -1), typeof key === "number" ? [value] : { [key]: value })
  }
  if (isScalar(owner) && owner.value === null) return set(source, path.slice(0, -1), typeof key === "number" ? [value] : { [key]: value })
  const old = source.node(path)
  if (old === undefined) {
    if (isMap(owner) && typeof key === "string") return insertPair(source, owner as YAMLMap, key, value)
    if (isSeq(owner) && typeof key === "number") return insertItem(source, owner as YAMLSeq, key, value)
    throw new Refusal("the text has no place for it", owner.range![0])
  }
  untouchable(old)
  return replace(source, owner, old, value)
}

// replace writes another value where one stands.
function replace(source: Source, owner: Node, old: Node, value: unknown): Change[] {
  const [from] = old.range!
  const block = old.range![1] > source.valueEnd(old) && isScalar(old) && String(old.type).startsWith("BLOCK")
  const to = source.valueEnd(old)
  if (typeof value === "string" && isScalar(old) && !value.includes("\n") && !block) return [{ from, to, insert: textLike(old as Scalar, value, source) }]
  const compound = value !== null && typeof value === "object"
  const inline = source.json || isFlow(owner) || (compound ? isFlow(old) || isScalar(old) : !(typeof value === "string" && value.includes("\n")))
  if (inline) {
    const onLines = !isFlow(old) && !isScalar(old)
    return [{ from: onLines ? gapBefore(source, from) : from, to, insert: (onLines ? " " : "") + renderInline(value, source.json) }]
  }
  const indent = (isMap(owner) && owner.srcToken?.type === "block-map" ? owner.srcToken.indent : source.column(from)) + 2
  return [{ from: gapBefore(source, from), to, insert: renderBlock(value, indent, source.eol) }]
}

// gapBefore is behind the ":" or "-" before a value.
function gapBefore(source: Source, from: number): number {
  let at = from
  while (at > 0 && /[ \t\r\n]/.test(source.text[at - 1]!)) at--
  return at
}

function textLike(old: Scalar, text: string, source: Source): string {
  if (source.json) return JSON.stringify(text)
  return renderText(text, old.type === "QUOTE_SINGLE" ? "single" : old.type === "QUOTE_DOUBLE" ? "double" : undefined)
}

function remove(source: Source, path: Path): Change[] {
  const owner = source.node(path.slice(0, -1))
  const key = path.at(-1)!
  if (!owner || source.node(path) === undefined && !(isMap(owner) && pairOf(owner, String(key)))) return []
  untouchable(owner)
  untouchable(source.node(path))
  if (isMap(owner)) return removePair(source, owner as YAMLMap, String(key))
  return removeItem(source, owner as YAMLSeq, Number(key))
}

// checked gives an edit whose result is what was meant.
function checked(source: Source, changes: Change[], mean: (doc: Meant) => void): Edit {
  const text = told(source, applyChanges(source.text, changes))
  let right: boolean
  try {
    right = means(source, text, changes, mean)
  } catch (err) { // it does not parse, or refers to itself
    throw new Refusal(`the text cannot be changed here by a click (${(err as Error).message}): change it by hand`, changes[0]?.from)
  }
  if (!right) throw new Refusal("the text cannot be changed here by a click: change it by hand", changes[0]?.from)
  return { changes: changes.filter((c) => c.from !== c.to || c.insert !== ""), text }
}
