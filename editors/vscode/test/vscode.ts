// As much of VS Code as the extension uses.
type Listener<T> = (e: T) => void

export const told: { errors: string[]; executed: unknown[][] } = { errors: [], executed: [] }
export const settings = new Map<string, unknown>()
export const commands = {
  known: new Map<string, (...args: unknown[]) => unknown>(),
  registerCommand(id: string, act: (...args: unknown[]) => unknown) { commands.known.set(id, act); return { dispose() { commands.known.delete(id) } } },
  async executeCommand(...args: unknown[]) { told.executed.push(args) },
}
const changed: Listener<{ affectsConfiguration: (name: string) => boolean }>[] = []
export const workspace = {
  files: [] as Uri[],
  getConfiguration: (section: string) => ({ get: (key: string) => settings.get(`${section}.${key}`) }),
  onDidChangeConfiguration(l: (typeof changed)[number]) { changed.push(l); return { dispose() {} } },
  change(section: string) { for (const l of changed) l({ affectsConfiguration: (name) => section.startsWith(name) }) },
  createFileSystemWatcher: () => ({ onDidCreate() {}, onDidDelete() {}, onDidChange() {}, dispose() {} }),
  findFiles: async () => workspace.files,
  asRelativePath: (uri: Uri) => uri.fsPath.split("/").at(-1)!,
}
export const window = {
  activeTextEditor: undefined as undefined | { document: { uri: Uri; save: () => Promise<boolean> } },
  async showErrorMessage(message: string, ..._: string[]) { told.errors.push(message); return undefined as string | undefined },
}
export const env = { async openExternal() {} }
export class Uri {
  constructor(readonly fsPath: string) {}
  static file = (path: string) => new Uri(path)
  static parse = (text: string) => new Uri(text)
  toString() { return `file://${this.fsPath}` }
}
export class Position { constructor(readonly line: number, readonly character: number) {} }
export class Range { constructor(readonly start: Position, readonly end: Position) {} }
export class Location { constructor(readonly uri: Uri, readonly range: Range) {} }
export class TestMessage { location?: Location; constructor(readonly message: string) {} }
export const TestRunProfileKind = { Run: 1 }
export const TaskScope = { Workspace: 2 }
export class ProcessExecution { constructor(readonly process: string, readonly args: string[], readonly options: object) {} }
export class Task { constructor(readonly definition: object, readonly scope: unknown, readonly name: string, readonly source: string, readonly execution: ProcessExecution) {} }
export const started: Task[] = []
export const tasks = { async executeTask(task: Task) { started.push(task) } }

class Items extends Map<string, Item> {
  add(item: Item) { this.set(item.id, item) }
}
export class Item {
  children: Items = new Items()
  range?: Range
  parent?: Item
  constructor(readonly id: string, readonly label: string, readonly uri: Uri) {
    const parent = this
    const add = this.children.add.bind(this.children)
    this.children.add = (item) => { item.parent = parent; add(item) }
  }
}
export class Controller {
  items = new Items()
  resolveHandler?: (item?: Item) => Promise<void>
  refreshHandler?: () => unknown
  run?: (request: { include?: Item[] }, token: object) => Promise<void>
  results: [string, string, unknown?][] = []
  createTestItem = (id: string, label: string, uri: Uri) => new Item(id, label, uri)
  createRunProfile(_: string, __: number, run: Controller["run"]) { this.run = run }
  createTestRun() {
    const say = (what: string) => (item: Item, messages?: unknown) => { this.results.push([what, item.label, messages]) }
    return { started: say("started"), passed: say("passed"), failed: say("failed"), errored: say("errored"), skipped: say("skipped"), end: () => {} }
  }
  dispose() {}
}
export const tests = { made: [] as Controller[], createTestController: () => { const c = new Controller(); tests.made.push(c); return c } }
