// The steps before a step, the steps after it, and the critical path of an execution. Pure.
import type { Steps } from "./steps"

export const paths = { critical: "critical path", up: "what it depends on", down: "what depends on it" } as const
export type Path = keyof typeof paths

/** related marks some steps and all that they depend on (up), or all that depends on them, however far; with the steps inside them. What a step
 * is inside of counts as part of the way. Time and memory are linear in steps and edges. */
export function related(steps: Steps, from: Uint8Array, way: "up" | "down"): Uint8Array {
  const { n, parent } = steps
  const mark = new Uint8Array(n)
  const [first, edges] = way === "down" ? usersOf(steps) : [steps.first, steps.edges]
  const through = new Uint8Array(n) // whose edges have been followed, or will be
  const around = new Uint8Array(n) // so have those of what is around them
  const todo = new Uint32Array(n)
  let count = 0
  for (let i = 0; i < n; i++) {
    if (!from[i]) continue
    through[i] = 1
    todo[count++] = i
  }
  const follow = (i: number) => {
    for (let k = first[i]!, end = first[i + 1]!; k < end; k++) {
      const to = edges[k]!
      if (through[to]) continue
      through[to] = 1
      todo[count++] = to
    }
  }
  while (count > 0) {
    const i = todo[--count]!
    mark[i] = 1
    follow(i)
    for (let p = parent[i]!, depth = 0; p > 0 && depth < 64 && !around[p - 1]; p = parent[p - 1]!, depth++) {
      around[p - 1] = 1
      follow(p - 1)
    }
  }
  markInside(steps, mark)
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

// markInside marks what is inside of marked steps, however deep. Those around a step are looked up once.
function markInside(steps: Steps, mark: Uint8Array) {
  const { n, parent } = steps
  const known = new Uint8Array(n) // 1: neither it nor what is around it was marked; 2: one of them was
  const way = new Uint32Array(64)
  for (let i = 0; i < n; i++) {
    let depth = 0
    let at = i
    while (!mark[at] && !known[at] && parent[at]! > 0 && depth < way.length) {
      way[depth++] = at
      at = parent[at]! - 1
    }
    const marked = mark[at] === 1 || known[at] === 2
    if (!known[at]) known[at] = marked ? 2 : 1
    while (depth > 0) {
      const k = way[--depth]!
      known[k] = marked ? 2 : 1
      if (marked) mark[k] = 1
    }
  }
}

// Edges are replaced where they change.
const turned = new WeakMap<Uint32Array, { n: number; users: [Uint32Array, Uint32Array] }>()

// usersOf turns the edges round, once for those that there are.
function usersOf(steps: Steps): [Uint32Array, Uint32Array] {
  const known = turned.get(steps.edges)
  if (known?.n === steps.n) return known.users
  const first = new Uint32Array(steps.n + 1)
  for (const from of steps.edges) first[from + 1]!++
  for (let i = 0; i < steps.n; i++) first[i + 1]! += first[i]!
  const next = first.slice()
  const users = new Uint32Array(steps.edges.length)
  for (let i = 0; i < steps.n; i++) for (let k = steps.first[i]!; k < steps.first[i + 1]!; k++) users[next[steps.edges[k]!]!++] = i
  turned.set(steps.edges, { n: steps.n, users: [first, users] })
  return [first, users]
}
