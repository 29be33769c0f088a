// The steps that are in view: the columns have no names. They are asked for some at a time, and kept.
import { send, type Schemas } from "../api/client"

export type Named = Schemas["Step"]

/** Naming is what a field needs of the names. */
export interface Naming {
  get: (index: number) => Pick<Named, "step_id" | "parent"> | undefined
  want: (indexes: Iterable<number>) => void
  onChange: (l: () => void) => () => void
  revision: () => number
}

const most = 500 // of one request
const kept = 20_000
const pause = 50 // ms in which wishes are collected

export class Names {
  private known = new Map<number, Named>()
  private byKey = new Map<string, number>()
  private wanted = new Set<number>()
  private asked = new Set<number>()
  private timer: ReturnType<typeof setTimeout> | undefined
  private listeners = new Set<() => void>()
  private count = 0

  constructor(private readonly execution: string) {}

  get(index: number): Named | undefined { return this.known.get(index) }
  indexOf(key: string): number { return this.byKey.get(key) ?? -1 }

  /** onChange calls when names have come; the function that it gives ends that. */
  onChange = (l: () => void) => {
    this.listeners.add(l)
    return () => { this.listeners.delete(l) }
  }

  /** revision counts the changes. */
  revision = () => this.count

  /** want asks for the names that are not known yet. */
  want(indexes: Iterable<number>) {
    for (const i of indexes) if (!this.known.has(i) && !this.asked.has(i) && this.wanted.size < most) this.wanted.add(i)
    if (this.wanted.size > 0) this.timer ??= setTimeout(() => void this.ask(), pause)
  }

  /** find gives the step with an index, asking if need be. */
  async find(index: number): Promise<Named | undefined> {
    if (!this.known.has(index)) this.keep(await this.read(`index=${index}`))
    return this.known.get(index)
  }

  /** locate gives the index of the step with a key; −1: there is none. */
  async locate(key: string): Promise<number> {
    if (!this.byKey.has(key)) this.keep(await this.read(`step_id=${encodeURIComponent(key)}`))
    return this.indexOf(key)
  }

  keep(steps: Named[]) {
    for (const s of steps) {
      this.known.delete(s.index)
      this.known.set(s.index, s)
      this.byKey.set(s.step_id, s.index)
    }
    for (const [index, s] of this.known) {
      if (this.known.size <= kept) break
      this.known.delete(index)
      this.byKey.delete(s.step_id)
    }
    this.count++
    this.listeners.forEach((l) => l())
  }

  close() { clearTimeout(this.timer) }

  private async ask() {
    this.timer = undefined
    const list = [...this.wanted].sort((a, b) => a - b)
    this.wanted.clear()
    for (const i of list) this.asked.add(i)
    try {
      this.keep(await this.read(`index=${list.join(",")}&limit=${most}`))
    } catch {
      // Without names the boxes stay unnamed; they are asked for again as soon as they come into view.
    } finally {
      for (const i of list) this.asked.delete(i)
    }
  }

  private async read(query: string): Promise<Named[]> {
    const response = await send(`api/v1/executions/${encodeURIComponent(this.execution)}/steps?${query}`)
    return ((await response.json()) as { steps: Named[] }).steps
  }
}
