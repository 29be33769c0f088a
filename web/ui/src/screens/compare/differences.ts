// How two values, and two texts, differ. Pure.
import { structuredPatch } from "diff"

/** Difference is a member that is only in one of two values, or has another value there. */
export interface Difference {
  /** As templates name it: `body.orders[3].id`; "" is the whole value. */
  path: string
  a?: unknown
  b?: unknown
  kind: "added" | "removed" | "changed"
}

const deepest = 64

/** differences are those between two plain values, in the order of a, at most so many; more says that there are others. */
export function differences(a: unknown, b: unknown, most = 200): { list: Difference[]; more: boolean } {
  const list: Difference[] = []
  let more = false
  const add = (d: Difference) => { if (list.length < most) list.push(d); else more = true }
  const walk = (x: unknown, y: unknown, path: string, depth: number) => {
    if (more || same(x, y)) return
    const pair = depth < deepest && Array.isArray(x) === Array.isArray(y) && isObject(x) && isObject(y) ? [x, y] as const : undefined
    if (!pair && depth >= deepest && JSON.stringify(x) === JSON.stringify(y)) return
    if (!pair) return add({ path, a: x, b: y, kind: x === undefined ? "added" : y === undefined ? "removed" : "changed" })
    const [left, right] = pair as readonly [Record<string, unknown>, Record<string, unknown>]
    for (const key of Object.keys(left)) walk(left[key], right[key], join(path, key, Array.isArray(x)), depth + 1)
    for (const key of Object.keys(right)) if (!(key in left)) walk(undefined, right[key], join(path, key, Array.isArray(y)), depth + 1)
  }
  walk(a, b, "", 0)
  return { list, more }
}

const isObject = (v: unknown): v is object => typeof v === "object" && v !== null

const join = (path: string, key: string, list: boolean) =>
  list ? `${path}[${key}]` : /^[A-Za-z_]\w*$/.test(key) ? (path ? `${path}.${key}` : key) : `${path}[${JSON.stringify(key)}]`

// Scalars only: objects are compared member by member.
const same = (x: unknown, y: unknown) => x === y || (Number.isNaN(x) && Number.isNaN(y))

/** textDiff is the unified diff of two texts by lines, "" if they are equal; undefined: they differ in too much to say where. */
export function textDiff(a: string, b: string): string | undefined {
  if (a === b) return ""
  const patch = structuredPatch("a", "b", a, b, undefined, undefined, { context: 3, timeout: 300 })
  return patch?.hunks.map((h) => `@@ -${h.oldStart},${h.oldLines} +${h.newStart},${h.newLines} @@\n${h.lines.join("\n")}`).join("\n")
}
