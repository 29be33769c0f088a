// The bars of the design in CI, on machines of any speed and with other work beside it: three times each bar, and the best of up to three
// tries counts. What the figures are on a quiet machine, npm run perf says.
import { afterAll, beforeAll, expect, test } from "vitest"
import { fields } from "./perf_field"
import { editor, home, log, search } from "./perf_pages"
import { replayed } from "./perf_replay"
import { Server } from "./server"

const tries = 3
const slack = 3
process.env.LINES = "100000" // of the log

let server: Server
beforeAll(async () => { server = await new Server().start() })
afterAll(() => server.stop())

type Bound = [name: string, best: number | null, bar: number]

const missed = (bounds: Bound[]) => bounds.filter(([, best, bar]) => best === null || best > slack * bar).map(([name, best, bar]) => `${name}: ${best}, three times ${bar} is the most`)

/** within measures until every figure is within its bound, three times at most; the best of each counts. */
async function within<T>(measure: () => Promise<T>, of: (result: T) => Bound[]) {
  let best: Bound[] | undefined
  for (let k = 0; k < tries && (!best || missed(best).length > 0); k++) {
    const now = of(await measure())
    best = now.map(([name, value, bar], i) => [name, best?.[i]?.[1] != null && (value === null || best[i]![1]! < value) ? best[i]![1] : value, bar])
  }
  expect(missed(best!), "the best of three tries").toEqual([])
}

test("100,000 steps: first paint, the whole, its main thread, moving it, the next failure", async () => {
  await within(await fields(server, "fan"), (r) => [
    ["first meaningful paint, ms", r.first_meaningful_paint_ms, 1000],
    ["whole field, ms", r.whole_field_ms, 1500],
    ["main thread, ms", r.first_main_thread_ms, 300],
    ["a frame while it is moved, p95, ms", r.far.p95, 16.8],
    ["main thread of such a frame, ms", r.far.cpu_per_frame, 10],
    ["from the key to the next failure, ms", r.next_failure_ms, 50],
  ])
})

test("a replay of 40,000 changes jumps", async () => {
  await within(() => replayed(server, 1, 20_000, 8), (r) => [["a jump, p50, ms", r.jump_ms.p50, 50]])
})

test("home is painted, and what is searched for is found", async () => {
  const { first_paint_ms } = await home(server, tries)
  await within(() => search(server), (r) => [["first paint of Home, ms", first_paint_ms.best, 400], ["search, ms", r.middle, 50]])
})

test("a log opens, jumps and is searched", async () => {
  const r = await log(server, tries)
  expect(missed([["opened, ms", r.open_ms.best, 300], ["jumped, ms", r.jump_ms.best, 200], ["first hits, ms", r.first_hits_ms.best, 500]])).toEqual([])
})

test("the editor tells of problems, and lays out what is dropped", async () => {
  const r = await editor(server, tries)
  expect(missed([["from key to problem, ms", r.key_to_problem_ms.best, 300], ["from drop to layout, ms", r.drop_to_laid_out_ms.best, 200]])).toEqual([])
})
