// The page's side of the worker: it asks, and gets answers as promises.
import type { Layout, Spec } from "./layouts"
import type { Steps } from "./steps"
import type { Tries } from "./tries"
import type { Answer, Then } from "./worker"

type Question = { tables: ArrayBuffer[] } | { tries: ArrayBuffer[] } | { spec: Spec; then?: Then }

export class Desk {
  private worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" })
  private next = 1
  private waiting = new Map<number, { done: (a: Answer) => void; failed: (e: Error) => void }>()

  constructor() {
    this.worker.onmessage = ({ data }: MessageEvent<Answer>) => {
      const w = this.waiting.get(data.id)
      this.waiting.delete(data.id)
      if ("error" in data) w?.failed(new Error(data.error))
      else w?.done(data)
    }
    this.worker.onerror = (e) => {
      for (const w of this.waiting.values()) w.failed(new Error(e.message || "the worker of the page failed"))
      this.waiting.clear()
    }
  }

  /** load gives the steps of tables, whose buffers it takes. */
  async load(tables: ArrayBuffer[]): Promise<Steps> {
    return ((await this.ask({ tables }, tables)) as { steps: Steps }).steps
  }

  /** loadTries gives the attempts of tables, whose buffers it takes; waterfalls show them from then on. */
  async loadTries(tables: ArrayBuffer[]): Promise<Tries> {
    return ((await this.ask({ tries: tables }, tables)) as { tries: Tries }).tries
  }

  /** arrange makes a layout of the steps that were loaded last, with other states and times than those if they are given. */
  async arrange(spec: Spec, then?: Then): Promise<Layout> {
    return ((await this.ask({ spec, then }, [])) as { layout: Layout }).layout
  }

  /** patch tells the worker what has changed; it takes the buffer. */
  patch(table: ArrayBuffer) { this.worker.postMessage({ patch: table }, [table]) }

  close() {
    this.worker.terminate()
    for (const w of this.waiting.values()) w.failed(new Error("closed"))
    this.waiting.clear()
  }

  private ask(question: Question, transfer: ArrayBuffer[]): Promise<Answer> {
    const id = this.next++
    return new Promise((done, failed) => {
      this.waiting.set(id, { done, failed })
      this.worker.postMessage({ id, ...question }, transfer)
    })
  }
}
