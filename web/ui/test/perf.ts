// Measures the pages in a real Chromium with its default flags (ui.md §11), and prints JSON. It is no test: run it on a quiet machine.
//
//   STEPWELL_BINARY=/path/to/stepwell npm run perf     # RUNS=3 FRAMES=180 PARTS=home,fan,layers,diamonds,changing,log,editor,search,kill,map,replay,waterfall,selection; hour by itself
//   PROFILE=/tmp/profiles … leaves processor profiles of what is measured there
import { changing, ended } from "./perf_field"
import { hour } from "./perf_hour"
import { map } from "./perf_map"
import { replayed } from "./perf_replay"
import { editor, home, kill, log, search } from "./perf_pages"
import { selection, waterfall } from "./perf_steps"
import { Server } from "./server"

const runs = Number(process.env.RUNS ?? 3)
const wanted = (process.env.PARTS ?? "home,fan,layers,diamonds,changing,log,editor,search,kill,map,replay,waterfall,selection").split(",")
const parts: Record<string, (server: Server, runs: number) => Promise<unknown>> = { home, changing, log, editor, search, map, replay: replayed, waterfall, selection, kill, hour }

export async function main() {
  const server = await new Server().start()
  const result: Record<string, unknown> = {}
  try {
    // Home before anything ran: an empty server and one with executions are both measured.
    if (wanted.includes("home")) result.home_empty = await home(server, runs)
    result.shapes = await ended(server, wanted, runs)
    for (const [name, part] of Object.entries(parts)) if (wanted.includes(name)) result[name] = await part(server, runs)
  } finally {
    await server.stop()
  }
  console.log(JSON.stringify(result, null, 2))
}
