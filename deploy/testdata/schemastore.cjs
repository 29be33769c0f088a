// Judges the schema of schemastore/ as SchemaStore does, with ajv in its strict mode, and opens files in yaml-language-server as editors
// do. Arguments: the folder of the packages, the folder schemastore. Writes what it found as JSON.
const { spawn } = require('node:child_process')
const fs = require('node:fs')
const path = require('node:path')
const { pathToFileURL } = require('node:url')
const [packages, folder] = process.argv.slice(2)
const load = name => require(path.join(packages, 'node_modules', name))
const Ajv = load('ajv/dist/2020')
const YAML = load('yaml')

const schemaFile = path.join(folder, 'stepwell-pipeline.json')
const found = { valid: {}, diagnostics: {}, hover: '', completion: [] }
const check = new Ajv({ strict: true, allErrors: true }).compile(JSON.parse(fs.readFileSync(schemaFile, 'utf8')))
const files = ['test', 'negative_test'].flatMap(dir => fs.readdirSync(path.join(folder, dir)).map(name => dir + '/' + name))
for (const file of files) found.valid[file] = check(YAML.parse(fs.readFileSync(path.join(folder, file), 'utf8')))

// A client of the language server protocol: messages of JSON behind a header with their length.
const server = spawn(process.execPath, [path.join(packages, 'node_modules/yaml-language-server/bin/yaml-language-server'), '--stdio'], { stdio: ['pipe', 'pipe', 'inherit'] })
const waiting = new Map()
let pending = Buffer.alloc(0), last = 0
const send = message => {
  const body = JSON.stringify({ jsonrpc: '2.0', ...message })
  server.stdin.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
}
const settings = { yaml: { schemas: { [pathToFileURL(schemaFile)]: '*.stepwell.yaml' }, schemaStore: { enable: false }, hover: true, completion: true, validate: true } }
const told = new Map() // diagnostics by address, and who waits for them
server.stdout.on('data', data => {
  pending = Buffer.concat([pending, data])
  for (;;) {
    const end = pending.indexOf('\r\n\r\n')
    if (end < 0) return
    const size = Number(/Content-Length: (\d+)/i.exec(pending.toString('latin1', 0, end))[1])
    if (pending.length < end + 4 + size) return
    const message = JSON.parse(pending.toString('utf8', end + 4, end + 4 + size))
    pending = pending.subarray(end + 4 + size)
    if (message.method === 'workspace/configuration') send({ id: message.id, result: message.params.items.map(item => settings[item.section] ?? null) })
    else if (message.method === 'textDocument/publishDiagnostics') told.get(message.params.uri)?.(message.params.diagnostics.map(d => d.message))
    else if (message.method && message.id !== undefined) send({ id: message.id, result: null })
    else if (waiting.has(message.id)) waiting.get(message.id)(message)
  }
})
const ask = (method, params) => new Promise((resolve, reject) => {
  const id = ++last
  waiting.set(id, m => (m.error ? reject(new Error(method + ': ' + m.error.message)) : resolve(m.result)))
  send({ id, method, params })
})
const open = (name, text) => new Promise(resolve => {
  const uri = 'file:///pipelines/' + name + '.stepwell.yaml'
  told.set(uri, diagnostics => resolve({ uri, diagnostics }))
  send({ method: 'textDocument/didOpen', params: { textDocument: { uri, languageId: 'yaml', version: 1, text } } })
})

async function main () {
  await ask('initialize', { processId: process.pid, rootUri: null, capabilities: { workspace: { configuration: true }, textDocument: { hover: { contentFormat: ['plaintext'] } } } })
  send({ method: 'initialized', params: {} })
  send({ method: 'workspace/didChangeConfiguration', params: { settings } })
  for (const file of files) {
    const { diagnostics } = await open(file.replaceAll(/\W/g, '-'), fs.readFileSync(path.join(folder, file), 'utf8'))
    found.diagnostics[file] = diagnostics
  }
  const { uri } = await open('typing', 'name: a\nsteps:\n  - id: b\n    action: util.log\n    con\n')
  const hover = await ask('textDocument/hover', { textDocument: { uri }, position: { line: 3, character: 6 } })
  found.hover = hover?.contents?.value ?? JSON.stringify(hover?.contents ?? '')
  const list = await ask('textDocument/completion', { textDocument: { uri }, position: { line: 4, character: 7 } })
  found.completion = (list.items ?? list).map(item => item.label)
}
main().then(() => process.stdout.write(JSON.stringify(found)), err => { console.error(err); process.exitCode = 1 }).finally(() => server.kill())
