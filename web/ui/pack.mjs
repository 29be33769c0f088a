// Packs a built page as it is embedded: every file compressed, and SOURCES, the hash of what it was built from.
//
//   node pack.mjs BUILT DIST
import { createHash } from "node:crypto"
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { gzipSync } from "node:zlib"

const [built, dist] = process.argv.slice(2)

function files(dir) {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((f) => f.isFile())
    .map((f) => relative(dir, join(f.parentPath, f.name)).replaceAll("\\", "/"))
    .sort()
}

// What the page is built from: the same list is in web_test.go.
function sources() {
  const hash = createHash("sha256")
  for (const name of files(".").filter((f) => /^(src|public)\//.test(f) || /^(index\.html|package-lock\.json|pack\.mjs|tsconfig\.json|vite\.config\.ts)$/.test(f))) {
    if (/\.test\.tsx?$/.test(name)) continue
    hash.update(name + "\n")
    hash.update(readFileSync(name))
  }
  return hash.digest("hex")
}

rmSync(dist, { recursive: true, force: true })
for (const name of files(built)) {
  const to = join(dist, name + ".gz")
  mkdirSync(dirname(to), { recursive: true })
  const packed = gzipSync(readFileSync(join(built, name)), { level: 9 })
  packed[9] = 255 // the system that packed it: the same bytes everywhere
  writeFileSync(to, packed)
}
writeFileSync(join(dist, "SOURCES"), sources() + "\n")
