// The documents of the repository, for tests that hold for all of them.
import { readdirSync } from "node:fs"
import { join } from "node:path"

export const root = new URL("../../../", import.meta.url).pathname

/** documents are the YAML and JSON files of the repository. */
export function documents(dir = root, depth = 0): string[] {
  if (depth > 7) return []
  return readdirSync(dir, { withFileTypes: true }).flatMap((f) => {
    if (f.name === "node_modules" || f.name === "dist" || f.name.startsWith(".")) return []
    const path = join(dir, f.name)
    if (f.isDirectory()) return documents(path, depth + 1)
    return /\.(ya?ml|json)$/.test(f.name) ? [path] : []
  })
}
