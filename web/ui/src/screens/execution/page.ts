// What the parts of the page share.
import { createContext, useContext } from "react"
import type { Schemas } from "../../api/client"
import type { Live } from "./ask"
import type { FieldState } from "./field"
import type { Names } from "../../field/names"
import type { Replay } from "../../replay/replay"
import type { Search } from "../../url"

export const tabs = ["graph", "waterfall", "fan", "table", "events", "streams"] as const
export type Tab = (typeof tabs)[number]

export interface PageState {
  id: string
  x: Schemas["ExecutionDetail"]
  live: Live
  field: FieldState
  names: Names
  /** The version that is shown, and that is in the address; undefined: now. */
  at: number | undefined
  /** The version that the steps show: it is ahead of at while a replay plays or its slider is moved. */
  moment: number | undefined
  move: (version: number | undefined) => void
  /** The changes, once a version was asked for; unfolded: they cannot be had, so that each moment is asked for. */
  replay: Replay | undefined
  unfolded: boolean
  search: Search
  setSearch: (change: Search, how?: { push?: boolean }) => void
  /** The key of the selected step, and its index; −1: none, or not known yet. */
  step: string | undefined
  index: number
  select: (key: string | undefined) => void
  selectIndex: (index: number) => void
  /** States that the filter leaves; empty: all. */
  states: string[]
  /** The steps of the path that is shown; undefined: none is. */
  marks: Uint8Array | undefined
  goTo: (tab: Tab | "log", change?: Search) => void
}

export const PageContext = createContext<PageState | null>(null)

/** usePage is the page around a part of it. */
export function usePage(): PageState {
  const page = useContext(PageContext)
  if (!page) throw new Error("this part stands outside the page of an execution")
  return page
}
