import { expect, test } from "vitest"
import { fold } from "./history"
import { sceneOf, stateOf, type Node } from "./pseudo"

const node = (id: string, o: Partial<Node> = {}): Node => ({ id, count: 1, depends_on: [], index: 0, kind: "step", layer: 0, pos: 0, states: { completed: 1 }, ...o })

test("a node shows its own state, or the worst inside", () => {
  expect(stateOf(node("a", { status: "waiting", states: { failed: 1 } }))).toBe("waiting")
  expect(stateOf(node("a", { states: { completed: 5, failed: 1, running: 2 } }))).toBe("failed")
  expect(stateOf(node("a", { states: {} }))).toBe("pending")
})

test("nodes inside others lie inside them; edges to what is not there are left out", () => {
  const { layout, steps } = sceneOf([node("a"), node("g", { kind: "group", layer: 1, depends_on: ["a", "nosuch"] }), node("g.x", { parent: "g" }), node("g.y", { parent: "g", layer: 1, depends_on: ["g.x"] })])
  expect(Array.from(layout.frames)).toEqual([1])
  expect(Array.from(steps.edges)).toEqual([0, 2])
  for (const i of [2, 3]) expect(layout.x[i]! > layout.x[1]! && layout.x[i]! + layout.w[i]! < layout.x[1]! + layout.w[1]!).toBe(true)
})

const event = (version: number, event_type: string, step_id?: string) => ({ version, event_type, step_id, timestamp: null })

test("usual events are folded, others never, and none is lost", () => {
  const events = [event(1, "execution_started"), ...Array.from({ length: 50 }, (_, i) => event(2 + i, i % 2 ? "step_completed" : "step_queued", `s${i}`)), event(60, "step_failed", "x"), event(61, "step_queued", "y")]
  const folded = fold(events)
  expect(folded.map((e) => [e.event.event_type, e.count])).toEqual([["execution_started", 1], ["step_queued", 25], ["step_completed", 25], ["step_failed", 1], ["step_queued", 1]])
  expect(folded.reduce((n, e) => n + e.count, 0)).toBe(events.length)
  expect(new Set(folded.map((e) => e.key)).size).toBe(folded.length)
})
