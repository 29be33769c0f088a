// The styles of a screen come with its code: another screen that uses them has none unless both were opened.
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"

const src = new URL("..", import.meta.url).pathname
const read = (...path: string[]) => readFileSync(join(src, ...path), "utf8")
const classesIn = (css: string) => new Set([...css.matchAll(/\.([a-z][\w-]*)/g)].map((m) => m[1]!))
const filesOf = (folder: string, end: string) => readdirSync(join(src, folder)).filter((name) => name.endsWith(end))

test("a screen uses no class that only the styles of another screen define", () => {
  const everywhere = classesIn([...filesOf("parts", ".css").map((name) => read("parts", name)), ...filesOf("frame", ".css").map((name) => read("frame", name))].join("\n"))
  const folders = readdirSync(join(src, "screens"), { withFileTypes: true }).filter((e) => e.isDirectory()).map((e) => join("screens", e.name))
  const styles = new Map(folders.map((folder) => [folder, classesIn(filesOf(folder, ".css").map((name) => read(folder, name)).join("\n"))]))
  const wrong: string[] = []
  for (const folder of folders) {
    for (const name of filesOf(folder, ".tsx")) {
      const used = [...read(folder, name).matchAll(/className="([^"]+)"/g)].flatMap((m) => m[1]!.split(/\s+/))
      for (const c of new Set(used)) {
        if (everywhere.has(c) || styles.get(folder)!.has(c)) continue
        for (const [other, classes] of styles) if (classes.has(c)) wrong.push(`${folder}/${name}: ${c} is defined in ${other}`)
      }
    }
  }
  expect(wrong).toEqual([])
})
