import { QueryClient } from "@tanstack/react-query"
import { expect, test } from "vitest"
import { patch, patchList } from "./patch"

const row = (id: string, status: string, n = 0) => ({ execution_id: id, status, n })

test("a row that a list shows is replaced; others stay the same objects", () => {
  const rows = [row("a", "running"), row("b", "completed")]
  const got = patchList(rows, new Map([["a", row("a", "running", 5)]]), "execution_id")
  expect(got).toEqual([row("a", "running", 5), row("b", "completed")])
  expect(got[1]).toBe(rows[1])
  expect(patchList(rows, new Map([["z", row("z", "running")]]), "execution_id")).toBe(rows)
})

test("progress alone asks for nothing; new rows, removed ones and a reload do", () => {
  const queries = new QueryClient()
  queries.setQueryData(["executions", "list", {}], { rows: [row("a", "running")] })
  queries.setQueryData(["executions", "recent"], { executions: [row("a", "running")] })
  expect(patch(queries, "executions", { rows: [row("a", "running", 1)] })).toBe(true)
  expect(patch(queries, "executions", { rows: [row("a", "running", 7)] })).toBe(false)
  expect(queries.getQueryData(["executions", "list", {}])).toEqual({ rows: [row("a", "running", 7)] })
  expect(queries.getQueryData(["executions", "recent"])).toEqual({ executions: [row("a", "running", 7)] })
  expect(patch(queries, "executions", { rows: [row("b", "pending")] })).toBe(true)
  expect(patch(queries, "executions", { rows: [row("a", "failed")] })).toBe(true)
  expect(patch(queries, "approvals", { removed: ["x"] })).toBe(true)
  expect(patch(queries, "executions", { reload: true })).toBe(true)
})

test("the progress of projects is replaced where it is shown; a project that is told of for the first time, or no longer, makes lists stale", () => {
  const queries = new QueryClient()
  queries.setQueryData(["progress", "geo"], { project_id: "geo", done: 1 })
  expect(patch(queries, "projects", { rows: [{ project_id: "geo", done: 2 }, { project_id: "elsewhere", done: 1 }] })).toBe(true)
  expect(queries.getQueryData(["progress", "geo"])).toEqual({ project_id: "geo", done: 2 })
  expect(queries.getQueryData(["progress", "elsewhere"])).toBeUndefined()
  expect(patch(queries, "projects", { rows: [{ project_id: "geo", done: 3 }] })).toBe(false)
  expect(queries.getQueryState(["progress", "geo"])?.isInvalidated).toBe(false)
  expect(patch(queries, "projects", { rows: [], removed: ["geo"] })).toBe(true)
  expect(queries.getQueryState(["progress", "geo"])?.isInvalidated).toBe(true)
})
