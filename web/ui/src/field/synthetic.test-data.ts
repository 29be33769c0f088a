// Steps made for tests: fans, layers and diamonds of any size.
import type { Steps } from "./steps"

export const states = ["pending", "queued", "running", "retrying", "waiting", "completed", "failed", "skipped", "cancelled", "timed_out", "absent"]
const completed = 5

/** synthetic makes steps without edges, all completed. */
export function synthetic(n: number): Steps {
  return {
    version: 1, n, began: 1_700_000_000_000, states, workers: [""], status: new Uint8Array(n).fill(completed), attempt: new Uint8Array(n).fill(1), layer: new Uint32Array(n), pos: new Uint32Array(n),
    start: new Uint32Array(n), duration: new Uint32Array(n), parent: new Uint32Array(n), worker: new Uint16Array(n), first: new Uint32Array(n + 1), edges: new Uint32Array(0),
  }
}

/** fan is a step before, a for_each with iterations, and a step after it. */
export function fan(iterations: number): Steps {
  const s = synthetic(iterations + 3)
  s.layer[1] = 1
  s.layer[2] = 2
  for (let i = 0; i < iterations; i++) {
    const at = i + 3
    s.parent[at] = 2
    s.pos[at] = i
    s.start[at] = 1 + Math.floor(i / 8) * 10
    s.duration[at] = 5 + (i % 40)
  }
  return s
}

/** layered is layers of steps, each of which depends on two of the layer before. */
export function layered(layers: number, width: number): Steps {
  const s = synthetic(layers * width)
  const edges: number[] = []
  for (let i = 0; i < s.n; i++) {
    const [layer, pos] = [Math.floor(i / width), i % width]
    s.layer[i] = layer
    s.pos[i] = pos
    if (layer > 0) edges.push((layer - 1) * width + pos, (layer - 1) * width + ((pos + 1) % width))
    s.first[i + 1] = edges.length
  }
  s.edges = Uint32Array.from(edges)
  return s
}
