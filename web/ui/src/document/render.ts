// How values are written into a text: in the style of what is around them. Pure.
import { parse } from "yaml"

/** renderInline writes a value on one line: as JSON, or in YAML's flow style. */
export function renderInline(value: unknown, json: boolean): string {
  if (json) return JSON.stringify(value)
  if (typeof value === "string") return renderText(value)
  if (Array.isArray(value)) return `[${value.map((v) => renderInline(v, false)).join(", ")}]`
  if (value && typeof value === "object") {
    return `{${Object.entries(value).map(([k, v]) => `${renderText(k)}: ${renderInline(v, false)}`).join(", ")}}`
  }
  return value === undefined ? "null" : String(value)
}

// A text that is safe without quotes, in flow and in block style: it begins with a letter, and nothing in it means something to YAML.
const plain = /^[A-Za-z_./][\w./+@%=()<>~^$;-]*( [\w./+@%=()<>~^$;-]+)*$/

/** renderText writes a text on one line, with quotes where they are needed. Quote is that of the value before, if there was one. */
export function renderText(text: string, quote?: "single" | "double"): string {
  if (quote === "single" && !/[\n\r\t\u0000-\u001f\u007f-\u009f\ufeff]/.test(text)) return `'${text.replaceAll("'", "''")}'`
  if (quote !== "double" && plain.test(text) && same(text)) return text
  return JSON.stringify(text).replace(/[\u007f-\u009f\u2028\u2029\ufeff]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"))
}

function same(text: string): boolean {
  try {
    return parse(text) === text
  } catch {
    return false
  }
}

/** renderBlock writes a value behind "key:" or "- ": on the same line if it is short, else on lines of its own that are indented. */
export function renderBlock(value: unknown, indent: number, eol: string, list = false): string {
  const pad = " ".repeat(indent)
  if (typeof value === "string" && literal(value)) {
    const end = value.endsWith("\n") ? "" : "-"
    return ` |${end}${eol}` + value.replace(/\n$/, "").split("\n").map((l) => (l ? pad + l : "")).join(eol)
  }
  if (Array.isArray(value) && value.some((v) => v && typeof v === "object")) {
    return value.map((v) => `${eol}${pad}-${renderBlock(v, indent + 2, eol, true)}`).join("")
  }
  if (value && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length > 0) {
    const lines = Object.entries(value).map(([k, v]) => `${renderText(k)}:${renderBlock(v, indent + 2, eol)}`)
    return list ? " " + lines.join(eol + pad) : lines.map((l) => eol + pad + l).join("")
  }
  return " " + renderInline(value, false)
}

// literal says whether a text can be a block scalar: several lines, nothing that the style would change.
const literal = (text: string) => text.includes("\n") && !/[\t\r\u0000-\u0008\u007f-\u009f\u2028\ufeff]/.test(text) && !/^[ \n]/.test(text) && !/ (\n|$)/.test(text) && !/\n\n$/.test(text)
