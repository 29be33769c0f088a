// Completion of a pipeline's text: keys, actions, their params, step ids, names in templates. By indentation, so that it works while the
// text does not parse. Pure.
import type { Schemas } from "../../api/client"

export interface Suggestion { label: string; detail?: string; info?: string; apply?: string }
export interface Suggestions { from: number; options: Suggestion[] }

export interface Known {
  schema: any
  actions: readonly Schemas["Action"][]
  modules: readonly Schemas["Action"][]
  pipelines: readonly string[]
  steps: readonly { id: string; outputs: readonly string[] }[]
  params: readonly string[]
}

/** suggest tells what may stand at a place of the text. */
export function suggest(text: string, at: number, known: Known): Suggestions | undefined {
  const begin = text.lastIndexOf("\n", at - 1) + 1
  const line = text.slice(begin, at)
  const open = line.lastIndexOf("{{")
  if (open >= 0 && !line.slice(open).includes("}}")) return inTemplate(line.slice(open + 2), at, known)
  const value = /^(\s*(?:- )*)([\w-]+):\s+(["']?)([\w./-]*)$/.exec(line)
  if (value) return ofValue(value[2]!, at - value[4]!.length, text, begin, known)
  const list = /^\s*(?:- )*depends_on:\s*\[(?:[^\]]*,)?\s*([\w.-]*)$/.exec(line)
  if (list) return ids(at - list[1]!.length, known)
  const item = /^\s*- ([\w.-]*)$/.exec(line)
  if (item && parents(text, begin, line.search(/\S/))[0] === "depends_on") return ids(at - item[1]!.length, known)
  const key = /^(\s*(?:- )*)([\w-]*)$/.exec(line)
  if (!key) return undefined
  return keys(at - key[2]!.length, text, begin, key[1]!.length, known)
}

const ids = (from: number, known: Known): Suggestions => ({ from, options: known.steps.map((s) => ({ label: s.id, detail: "step" })) })

function inTemplate(inner: string, at: number, known: Known): Suggestions | undefined {
  const path = /(?:^|[^\w.])((?:\w+\.)*)(\w*)$/.exec(inner)
  if (!path) return undefined
  const from = at - path[2]!.length
  const parts = path[1]!.split(".").slice(0, -1)
  if (parts.length === 0) return { from, options: ["params", "steps", "item", "index", "execution", "secrets", "settings"].map((label) => ({ label })) }
  if (parts[0] === "params" && parts.length === 1) return { from, options: known.params.map((label) => ({ label, detail: "parameter" })) }
  if (parts[0] !== "steps") return undefined
  if (parts.length === 1) return { from, options: known.steps.map((s) => ({ label: s.id, detail: "step" })) }
  if (parts.length === 2) return { from, options: ["outputs", "status", "error", "attempt"].map((label) => ({ label })) }
  const step = known.steps.find((s) => s.id === parts[1])
  return parts[2] === "outputs" && parts.length === 3 && step ? { from, options: step.outputs.map((label) => ({ label, detail: "output" })) } : undefined
}

function ofValue(key: string, from: number, text: string, begin: number, known: Known): Suggestions | undefined {
  if (key === "action") return { from, options: known.actions.map((a) => ({ label: a.type, detail: a.summary })) }
  if (key === "module") return { from, options: known.modules.map((a) => ({ label: a.type, detail: a.summary })) }
  if (key === "pipeline") return { from, options: known.pipelines.map((label) => ({ label })) }
  const indent = /^\s*(?:- )*/.exec(text.slice(begin))![0].length
  const up = parents(text, begin, indent)
  const field = fieldsOf(text, begin, up, known)?.find((f) => f.name === key)
  const values = field ? (field.options ?? (field.type === "boolean" ? ["true", "false"] : undefined)) : enumOf(schemaAt(up, known.schema)?.[key])
  return values ? { from, options: values.map((label) => ({ label })) } : undefined
}

function keys(from: number, text: string, begin: number, indent: number, known: Known): Suggestions | undefined {
  const up = parents(text, begin, indent)
  const fields = fieldsOf(text, begin, up, known)
  if (fields) return { from, options: fields.map((f) => ({ label: f.name, detail: f.required ? `${f.type}, required` : f.type, info: f.description, apply: f.name + ": " })) }
  const properties = schemaAt(up, known.schema)
  if (!properties) return undefined
  return { from, options: Object.entries<any>(properties).map(([label, s]) => ({ label, info: s.description, apply: label + ":" + (/array|object/.test(String(s.type)) ? "" : " ") })) }
}

/** parents are the keys around a line of an indent, the nearest first. */
export function parents(text: string, begin: number, indent: number): string[] {
  const found: string[] = []
  let least = indent
  for (let end = begin - 1; end >= 0 && least > 0; ) {
    const start = text.lastIndexOf("\n", end - 1) + 1
    const m = /^(\s*)((?:- )*)([\w-]+):\s*(#.*)?$/.exec(text.slice(start, end))
    if (m && m[1]!.length + m[2]!.length < least && m[1]!.length < least) {
      found.push(m[3]!)
      least = m[1]!.length + m[2]!.length
    }
    end = start - 1
  }
  return found
}

// fieldsOf are the params of the action, or the config of the module, of the step that a line is in.
function fieldsOf(text: string, begin: number, up: string[], known: Known): readonly Schemas["Field"][] | undefined {
  if (up[0] !== "params" && up[0] !== "config") return undefined
  // The step's own lines: from its dash to the next one.
  const before = text.slice(0, begin)
  const dash = Math.max(before.lastIndexOf("- id:"), before.lastIndexOf("- action:"), before.lastIndexOf("- module:"), before.lastIndexOf("- name:"))
  const after = text.slice(dash)
  const end = after.slice(2).search(/\n\s*- (id|action|module|name):/)
  const own = end < 0 ? after : after.slice(0, end + 2)
  const name = /\b(?:action|module):\s*["']?([\w./-]+)/.exec(own)?.[1]
  return [...known.actions, ...known.modules].find((a) => a.type === name)?.params
}

// schemaAt are the keys that the document's schema has below others.
function schemaAt(up: string[], schema: any): Record<string, any> | undefined {
  let at = schema
  for (const key of [...up].reverse()) {
    at = resolve(at?.properties?.[key], schema)
    if (!at) return undefined
  }
  return at?.properties
}

function resolve(node: any, schema: any): any {
  for (let i = 0; node && i < 8; i++) {
    if (node.$ref) node = schema.$defs?.[String(node.$ref).split("/").pop()!]
    else if (node.items) node = node.items
    else if (!node.properties && node.anyOf) node = node.anyOf.find((n: any) => n.properties || n.$ref || n.items)
    else break
  }
  return node
}

const enumOf = (node: any): string[] | undefined => node?.enum?.map(String) ?? (node?.type === "boolean" ? ["true", "false"] : undefined)
