// The parameters that a pipeline declares, and values for them from what somebody typed. Pure.

export interface Parameter {
  name: string
  type: string
  description: string
  required: boolean
  secret: boolean
  default?: unknown
  enum?: string[]
}

/** parseDocument reads a document, YAML or JSON, without its meaning; the server says what is wrong with it. */
export async function parseDocument(text: string): Promise<unknown> {
  if (/^\s*\{/.test(text)) {
    try { return JSON.parse(text) } catch { /* a flow mapping of YAML begins the same */ }
  }
  const { parse } = await import("yaml")
  return parse(text, { maxAliasCount: 100 })
}

/** parametersOf reads the parameters of a document; those that make no sense are left out. */
export async function parametersOf(text: string): Promise<Parameter[]> {
  const document = (await parseDocument(text)) as { parameters?: unknown } | null
  if (!Array.isArray(document?.parameters)) return []
  return document.parameters.flatMap((p): Parameter[] => {
    if (typeof p !== "object" || p === null || typeof p.name !== "string") return []
    const given = "default" in p && p.default !== undefined
    return [{
      name: p.name,
      type: typeof p.type === "string" ? p.type : "any",
      description: typeof p.description === "string" ? p.description : "",
      required: typeof p.required === "boolean" ? p.required : !given,
      secret: p.secret === true,
      ...(given ? { default: p.default } : {}),
      ...(Array.isArray(p.enum) ? { enum: p.enum.map(String) } : {}),
    }]
  })
}

/** isPartitioned says whether a document names its partitions. */
export async function isPartitioned(text: string): Promise<boolean> {
  if (!text.includes("partition")) return false
  const document = (await parseDocument(text)) as { settings?: { partition?: unknown } } | null
  return typeof document?.settings?.partition === "object" && document.settings.partition !== null
}

const structured = new Set(["array", "object", "any"])

/** isStructured says that values of a type are written as JSON. */
export const isStructured = (type: string) => structured.has(type)

/** textOf writes a value as it stands in a form. */
export function textOf(type: string, value: unknown): string {
  if (value === undefined || value === null) return ""
  if (isStructured(type)) return type === "any" && typeof value === "string" ? value : JSON.stringify(value)
  return typeof value === "object" ? JSON.stringify(value) : String(value)
}

/** valueOf reads what stands in a form. Undefined: nothing was given, the default holds. */
export function valueOf(p: Pick<Parameter, "type" | "required" | "default">, text: string): { value?: unknown; problem?: string } {
  const trimmed = text.trim()
  if (trimmed === "") return p.required && p.default === undefined ? { problem: "a value is needed" } : {}
  switch (p.type) {
    case "integer":
      return /^[+-]?\d+$/.test(trimmed) ? (Number.isSafeInteger(Number(trimmed)) ? { value: Number(trimmed) } : { problem: "the number is too large for this form" }) : { problem: "a whole number is needed, such as 12" }
    case "number":
    case "float":
      return Number.isFinite(Number(trimmed)) ? { value: Number(trimmed) } : { problem: "a number is needed, such as 1.5" }
    case "boolean":
      return trimmed === "true" || trimmed === "false" ? { value: trimmed === "true" } : { problem: "true or false is needed" }
    case "array":
    case "object":
      try {
        const value: unknown = JSON.parse(trimmed)
        const right = p.type === "array" ? Array.isArray(value) : typeof value === "object" && value !== null && !Array.isArray(value)
        return right ? { value } : { problem: p.type === "array" ? 'a list is needed, such as ["a", "b"]' : 'an object is needed, such as {"a": 1}' }
      } catch {
        return { problem: p.type === "array" ? 'JSON is needed, such as ["a", "b"]' : 'JSON is needed, such as {"a": 1}' }
      }
    case "any":
      try { return { value: JSON.parse(trimmed) } } catch { return { value: text } }
    default:
      return { value: text }
  }
}

/** valuesOf reads a whole form: the values that were given, or what is wrong by name. */
export function valuesOf(params: Parameter[], texts: Record<string, string>): { values: Record<string, unknown>; problems: Record<string, string> } {
  const values: Record<string, unknown> = {}
  const problems: Record<string, string> = {}
  for (const p of params) {
    const text = texts[p.name]
    if (text === undefined && p.default !== undefined) continue
    const { value, problem } = valueOf(p, text ?? "")
    if (problem) problems[p.name] = problem
    else if (value !== undefined) values[p.name] = value
  }
  return { values, problems }
}
