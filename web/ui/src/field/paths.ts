// The steps before a step, the steps after it, and the critical path of an execution. Pure.
import type { Steps } from "./steps"

export const paths = { critical: "critical path", up: "what it depends on", down: "what depends on it" } as const
export type Path = keyof typeof paths

/** related marks some steps and all that they depend on (up), or all that depends on them, however far; with the steps inside them. What a step
 * is inside of counts as part of the way. Time and memory are linear in steps and edges. */
export function related(steps: Steps, from: Uint8Array, way: "up" | "down"): Uint8Array {
  const mark = new Uint8Array(steps.n)
  const users = way === "down" ? usersOf(steps) : undefined
  const inside = childrenOf(steps)
  const through = new Uint8Array(steps.n) // whose edges have been followed
  const around = new Uint8Array(steps.n) // so have those of what is around them
  const todo: number[] = []
  for (let i = 0; i < steps.n; i++) if (from[i]) todo.push(i)
  const follow = (i: number) => {
    const [first, edges] = users ?? [steps.first, steps.edges]
    for (let k = first[i]!; k < first[i + 1]!; k++) if (!through[edges[k]!]) todo.push(edges[k]!)
  }
  while (todo.length > 0) {
    const i = todo.pop()!
    if (through[i]) continue
    through[i] = mark[i] = 1
    follow(i)
    for (let p = steps.parent[i]!, depth = 0; p > 0 && depth < 64 && !around[p - 1]; p = steps.parent[p - 1]!, depth++) {
      around[p - 1] = 1
      follow(p - 1)
    }
  }
  for (let i = 0; i < steps.n; i++) if (through[i]) markInside(mark, inside, i)
  return mark
}

/** critical marks the steps without whose waiting the execution would have ended earlier: the one that ended last, before it the one
 * that it waited for the longest, and so on, also inside those of them that have steps inside. */
export function critical(steps: Steps): Uint8Array {
  const mark = new Uint8Array(steps.n)
  const inside = childrenOf(steps)
  const end = (i: number) => (steps.start[i] ? steps.start[i]! + steps.duration[i]! : 0)
  const latest = (list: Iterable<number>) => {
    let best = -1
    for (const i of list) if (end(i) > 0 && (best < 0 || end(i) > end(best))) best = i
    return best
  }
  const todo = [latest(inside.of(-1))]
  while (todo.length > 0) {
    const i = todo.pop()!
    if (i < 0 || mark[i]) continue
    mark[i] = 1
    todo.push(latest(inside.of(i)), latest(steps.edges.subarray(steps.first[i]!, steps.first[i + 1]!)))
  }
  return mark
}

interface Inside { of: (i: number) => Uint32Array }

// childrenOf lists the steps inside each step; of −1 those at the top.
function childrenOf(steps: Steps): Inside {
  const first = new Uint32Array(steps.n + 2)
  for (let i = 0; i < steps.n; i++) first[steps.parent[i]! + 1]!++
  for (let i = 0; i <= steps.n; i++) first[i + 1]! += first[i]!
  const next = first.slice()
  const list = new Uint32Array(steps.n)
  for (let i = 0; i < steps.n; i++) list[next[steps.parent[i]!]!++] = i
  return { of: (i) => list.subarray(first[i + 1]!, first[i + 2]!) }
}

function markInside(mark: Uint8Array, inside: Inside, of: number) {
  const todo = [of]
  while (todo.length > 0) {
    for (const i of inside.of(todo.pop()!)) {
      if (mark[i]) continue
      mark[i] = 1
      todo.push(i)
    }
  }
}

// usersOf turns the edges round.
function usersOf(steps: Steps): [Uint32Array, Uint32Array] {
  const first = new Uint32Array(steps.n + 1)
  for (const from of steps.edges) first[from + 1]!++
  for (let i = 0; i < steps.n; i++) first[i + 1]! += first[i]!
  const next = first.slice()
  const users = new Uint32Array(steps.edges.length)
  for (let i = 0; i < steps.n; i++) for (let k = steps.first[i]!; k < steps.first[i + 1]!; k++) users[next[steps.edges[k]!]!++] = i
  return [first, users]
}
