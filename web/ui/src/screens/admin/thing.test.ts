import { expect, test } from "vitest"
import { placeOf, shows } from "./thing"

const all = () => true

test("entries lead to what they are about", () => {
  expect(placeOf({ action: "execution.cancel", object: "01a2" }, all)).toBe("/executions/01a2")
  expect(placeOf({ action: "pipeline.version.activate", object: "a/b" }, all)).toBe("/pipelines/a%2Fb")
  expect(placeOf({ action: "worker.drain", object: "far away" }, all)).toBe("/queue?worker=far%20away")
  expect(placeOf({ action: "secret.delete", object: "ai_key" }, all)).toBe("/admin/secrets")
})

test("a screen's pattern takes paths with its ids and optional parts", () => {
  expect(shows("/executions/:id/:tab?", "/executions/01a2")).toBe(true)
  expect(shows("/executions/:id/:tab?", "/executions/01a2/log")).toBe(true)
  expect(shows("/queue", "/queue")).toBe(true)
  for (const [pattern, path] of [["/pipelines/:id/edit", "/pipelines/01a2"], ["/pipelines/new", "/pipelines/01a2"], ["/executions", "/executions/01a2"], ["/", "/queue"]] as const) expect(shows(pattern, path), pattern).toBe(false)
})

test("nothing is linked that is gone, has no id, or has no screen", () => {
  expect(placeOf({ action: "project.delete", object: "geo" }, all)).toBeUndefined()
  expect(placeOf({ action: "execution.start", object: "" }, all)).toBeUndefined()
  expect(placeOf({ action: "callback", object: "x" }, all)).toBeUndefined()
  expect(placeOf({ action: "schedule.pause", object: "x" }, (path) => path !== "/schedules/x")).toBeUndefined()
})
