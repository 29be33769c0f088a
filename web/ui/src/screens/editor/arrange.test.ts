import { expect, test } from "vitest"
import { arrange, boundsOf, pathBetween, type DraftNode } from "./arrange"

const node = (id: string, layer: number, pos: number, depends_on: string[] = [], parent?: string): DraftNode => ({ id, kind: "step", layer, pos, depends_on, parent }) as DraftNode

test("no two nodes of a parent overlap, and children are inside", () => {
  const nodes = [node("a", 0, 0), node("g", 1, 0, ["a"]), node("g.x", 0, 0, [], "g"), node("g.y", 1, 0, ["g.x"], "g"), node("g.z", 1, 1, ["g.x"], "g"), node("b", 1, 1, ["a"]), node("c", 2, 0, ["g", "b"])]
  const boxes = arrange(nodes)
  expect(boxes.size).toBe(nodes.length)
  for (const n of nodes) {
    const box = boxes.get(n.id)!
    for (const m of nodes) {
      if (m === n || m.parent !== n.parent) continue
      const o = boxes.get(m.id)!
      expect(box.x + box.width <= o.x || o.x + o.width <= box.x || box.y + box.height <= o.y || o.y + o.height <= box.y, `${n.id} ${m.id}`).toBe(true)
    }
    if (n.parent) {
      const p = boxes.get(n.parent)!
      expect(boundsOf([{ ...box, x: p.x + box.x, y: p.y + box.y }, ...boxes.values()])).toEqual(boundsOf(boxes.values()))
      expect(box.x >= 0 && box.y >= 20 && box.x + box.width <= p.width && box.y + box.height <= p.height, n.id).toBe(true)
    }
  }
})

test("a way along dependencies is found, and none where there is none", () => {
  const nodes = [node("a", 0, 0), node("b", 1, 0, ["a"]), node("c", 2, 0, ["b"]), node("d", 0, 1)]
  expect(pathBetween(nodes, "a", "c")).toEqual(["a", "b", "c"])
  expect(pathBetween(nodes, "c", "a")).toBeUndefined()
  expect(pathBetween(nodes, "a", "d")).toBeUndefined()
})

test("a large graph is placed and searched in a moment", () => {
  const nodes = Array.from({ length: 50_000 }, (_, i) => node(`s${i}`, i % 100, Math.floor(i / 100), i < 10 ? [] : [`s${i - 10}`, "s0"]))
  const begun = performance.now()
  expect(arrange(nodes).size).toBe(nodes.length)
  expect(pathBetween(nodes, "s0", "s49990")!.length).toBeLessThan(5_001)
  expect(performance.now() - begun).toBeLessThan(5_000) // with a list copied for each node it takes minutes
})
