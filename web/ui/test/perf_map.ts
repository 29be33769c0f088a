// Measures the map with 100,000 footprints (ui.md §11, row 13).
import { moving } from "./perf_field"
import { Measured, round, times, within } from "./perf_page"
import type { Server } from "./server"

const count = 100_000

/** map runs a stream of that many items, and opens its map. */
export async function map(server: Server, runs: number) {
  const lines = Array.from({ length: count }, (_, i) => {
    const [x, y] = [((i * 137.508) % 358) - 179, ((i * 61.803) % 150) - 75]
    return JSON.stringify({ id: `item-${i}`, n: i % 200 === 0 ? "text" : i, bbox: [x, y, x + 1, y + 1] })
  })
  const path = server.file("footprints.ndjson", lines.join("\n") + "\n")
  const x = await server.run({ name: "footprints", settings: { output_failures: path.replace(".nd", ".failures.") }, steps: [
    { id: "read", module: "stream.read", config: { path } },
    { id: "some", module: "stream.filter", depends_on: ["read"], config: { when: "item.n + 1 > 0" } },
    { id: "write", module: "stream.write", depends_on: ["some"], config: { path: path.replace(".nd", ".out.nd") } },
  ] })
  const tries = await times(runs, () => within(async (browser) => {
    const m = await Measured.of(browser)
    const drawn = await m.open(`${server.url}/map?execution=${x.execution_id}`, "canvas[data-drawn]")
    return { drawn_ms: round(drawn), main_thread_ms: round((await m.cpu()).task), moved: await moving(m, undefined, ".map-host") }
  }))
  return { footprints: count, tries }
}
