// Of an execution of 100,000 steps: its waterfall, for which the server reads the whole history the first time, and a selection of what
// is before and behind a step.
import { fields100k } from "./perf_field"
import { Measured, round, spread, times, within } from "./perf_page"
import type { Server } from "./server"

/** waterfall is the first paint of 100,000 attempts: the first time that anybody asks for them, and later. */
export async function waterfall(server: Server, runs: number) {
  const x = await server.run({ name: "attempts", steps: [{ id: "each", action: "util.noop", for_each: { items: 99_998 } }] })
  return within(async (browser) => {
    const open = async (name: string) => {
      const m = await Measured.of(browser)
      const ms = await m.profiled(name, () => m.open(`${server.url}/executions/${x.execution_id}/waterfall`, "canvas[data-drawn]"))
      const { task } = await m.cpu()
      await m.close()
      return { ms, task }
    }
    const first = await open("waterfall_first")
    const later = await times(runs, () => open("waterfall"))
    return { first_ms: round(first.ms), later_ms: spread(later.map((t) => t.ms)), main_thread_ms: spread(later.map((t) => t.task)) }
  })
}

/** selection is from the key that asks for what depends on a step, and what it depends on, to the number of selected steps. */
export async function selection(server: Server, runs: number) {
  const x = await server.run(fields100k("layers"))
  return within(async (browser) => {
    const m = await Measured.of(browser)
    await m.open(`${server.url}/executions/${x.execution_id}/graph?all=1`, "canvas[data-drawn]")
    const box = m.page.getByRole("searchbox", { name: "Select steps" })
    const took = await times(runs + 1, async (i) => {
      await box.fill(`+row[${100 + i}].s250+`)
      const shown = await m.from("keydown", ".x-select [role=status][data-count]")
      await box.press("Enter")
      const ms = await shown()
      await box.fill("")
      await box.press("Enter")
      return ms
    })
    const [first, ...later] = took
    return { first_ms: round(first!), later_ms: spread(later) }
  })
}
