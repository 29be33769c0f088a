// Checks every link between the pages of a built site: node check.mjs FOLDER BASE
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { join, posix, sep } from 'node:path'

const [folder, base = '/'] = process.argv.slice(2)
const files = readdirSync(folder, { recursive: true }).filter((file) => file.endsWith('.html'))
const ids = new Map()
const html = new Map(files.map((file) => [file.split(sep).join('/'), readFileSync(join(folder, file), 'utf8')]))
for (const [file, text] of html) ids.set(file, new Set([...text.matchAll(/\sid="([^"]+)"/g)].map((match) => match[1])))

let links = 0
const wrong = []
for (const [file, text] of html) {
  for (const [, raw] of text.matchAll(/<a\s[^>]*?href="([^"]+)"/g)) {
    const href = raw.replaceAll('&amp;', '&')
    if (/^([a-z]+:|\/\/)/.test(href)) continue
    links++
    const [path, hash] = href.split('#')
    let to = file
    if (path.startsWith('/')) {
      if (!path.startsWith(base)) {
        wrong.push(`${file}: ${href} is outside of ${base}`)
        continue
      }
      to = path.slice(base.length)
    } else if (path !== '') to = posix.join(posix.dirname(file), path)
    if (to === '' || to.endsWith('/')) to += 'index.html'
    if (!html.has(to) && html.has(`${to}.html`)) to += '.html'
    if (!html.has(to)) {
      if (!existsSync(join(folder, to)) || statSync(join(folder, to)).isDirectory()) wrong.push(`${file}: ${href} leads nowhere`)
    } else if (hash && !ids.get(to).has(decodeURIComponent(hash))) wrong.push(`${file}: ${href}: ${to} has no such heading`)
  }
}
for (const line of new Set(wrong)) console.error(line)
console.log(`${html.size} pages, ${links} links, ${new Set(wrong).size} of them wrong`)
process.exit(wrong.length > 0 || html.size < 10 ? 1 : 0)
