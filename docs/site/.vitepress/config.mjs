// The pages are docs/*.md as they are. They stay plain Markdown: raw HTML and Vue's braces are shown as they are written.
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { slug } from 'github-slugger'
import { defineConfig } from 'vitepress'

const site = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const docs = resolve(site, '..')
const repository = resolve(docs, '..')
const source = 'https://github.com/stepwell/stepwell'
const groups = JSON.parse(readFileSync(join(site, 'order.json'), 'utf8'))
const pages = readdirSync(docs, { recursive: true })
  .filter((name) => name.endsWith('.md') && name !== 'README.md' && !name.startsWith('site'))
  .map((name) => name.slice(0, -3))
  .sort()

function title(page) {
  const heading = readFileSync(join(docs, `${page}.md`), 'utf8').match(/^# (.+)$/m)
  return heading ? heading[1].replaceAll('`', '') : page
}

// A page that order.json does not name stands below "More", so that it can be found.
function sidebar() {
  const find = (wanted) => wanted.flatMap((name) => pages.filter((page) => page === name || (name.endsWith('/') && page.startsWith(name))))
  const named = new Set(groups.flatMap((group) => find(group.pages)))
  return [...groups, { title: 'More', pages: pages.filter((page) => !named.has(page)) }]
    .map((group) => ({ text: group.title, items: find(group.pages).map((page) => ({ text: title(page), link: `/${page}` })) }))
    .filter((group) => group.items.length > 0)
}

// target returns the address of a link: a page of the site, or a file of the repository.
function target(href, page) {
  if (/^([a-z]+:|#|\/)/.test(href)) return href
  const [path, fragment] = href.split('#')
  const file = resolve(dirname(page), decodeURIComponent(path))
  const hash = fragment ? `#${fragment}` : ''
  if (file === join(docs, 'README.md')) return `/${hash}`
  if (file.startsWith(docs + '/') && file.endsWith('.md')) return href
  if (relative(repository, file).startsWith('..') || !existsSync(file)) throw new Error(`${relative(repository, page)}: no file for the link ${href}`)
  return `${source}/blob/main/${relative(repository, file)}${hash}`
}

function plain(md) {
  md.set({ html: false })
  md.core.ruler.before('normalize', 'comments', (state) => {
    state.src = state.src.replace(/^<!--.*-->$/gm, '')
  })
  md.core.ruler.push('links', (state) => {
    for (const block of state.tokens) {
      for (const token of block.children ?? []) {
        if (token.type === 'link_open') token.attrSet('href', target(token.attrGet('href'), state.env.realPath ?? state.env.path))
      }
    }
  })
  const render = md.render
  md.render = (...args) => render.apply(md, args).replaceAll('{{', '&#123;&#123;')
}

// The pages lie above node_modules: what they import is looked for from here.
const resolver = {
  name: 'resolve-from-site',
  enforce: 'pre',
  resolveId(id, importer, options) {
    if (importer?.startsWith(docs) && importer.split('?')[0].endsWith('.md') && /^vue($|\/)/.test(id)) {
      return this.resolve(id, join(site, 'package.json'), { skipSelf: true, ...options })
    }
  },
}

export default defineConfig({
  title: 'Stepwell',
  description: 'Runs pipelines, graphs of steps, to their end through crashes and restarts.',
  lang: 'en-US',
  base: process.env.DOCS_BASE || '/',
  srcDir: '..',
  srcExclude: ['site/**'],
  outDir: process.env.DOCS_OUT || join(repository, 'dist', 'site'),
  cacheDir: join(site, 'node_modules', '.cache', 'vitepress'),
  rewrites: { 'README.md': 'index.md' },
  appearance: true,
  metaChunk: true,
  vite: { plugins: [resolver] },
  markdown: { config: plain, attrs: { disable: true }, anchor: { slugify: slug }, headers: { slugify: slug }, toc: { slugify: slug } },
  themeConfig: {
    siteTitle: 'Stepwell',
    nav: [
      { text: 'Guide', link: `/${pages.includes('get-started') ? 'get-started' : 'server'}` },
      { text: 'Actions', link: '/actions' },
      { text: 'Commands', link: '/commands' },
      { text: 'Changes', link: `${source}/blob/main/CHANGELOG.md` },
    ],
    sidebar: sidebar(),
    outline: { level: [2, 3], label: 'On this page' },
    search: { provider: 'local' },
    editLink: { pattern: `${source}/edit/main/docs/:path`, text: 'Edit this page' },
    externalLinkIcon: true,
  },
})
