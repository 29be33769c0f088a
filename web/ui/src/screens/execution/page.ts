// What the parts of the page share.
import { createContext, useContext } from "react"
import type { Schemas } from "../../api/client"
import type { Live } from "./ask"
import type { FieldState } from "./field"
import type { Problem } from "../../api/client"
import type { Tries } from "../../field/tries"
import type { Time } from "../../log/time"
import type { Selection } from "./selection"
import type { Names } from "../../field/names"
import type { Replay } from "../../replay/replay"
import type { Search } from "../../url"

export const tabs = ["graph", "waterfall", "fan", "table", "events", "streams", "source"] as const
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
  /** The key of the selected step. */
  step: string | undefined
  select: (key: string | undefined) => void
  /** An attempt as nameTry writes it, of the step; without one the step alone. */
  selectIndex: (index: number, attempt?: string) => void
  /** What the text in the address selects. */
  selection: Selection
  /** The attempts; undefined: not asked for, not there yet, or they cannot be had, for the reason in problem. */
  tries: { tries?: Tries; problem?: Problem }
  /** The time that log and table show, in milliseconds since 1970; undefined: all. */
  time: Time | undefined
  goTo: (tab: Tab | "log", change?: Search) => void
}

/** Chosen is the step that a field frames. It is ahead of the page: what else the page shows of a step follows the frame that shows where
 * it is. */
export interface Chosen {
  /** −1: none, or not known yet. */
  index: number
  /** An attempt as nameTry writes it; undefined: the last one. */
  attempt: string | undefined
  /** The address names a step of which the index is not known yet. */
  pending: boolean
}

export const ChosenContext = createContext<Chosen>({ index: -1, attempt: undefined, pending: false })

/** useChosen is the step to frame. */
export const useChosen = () => useContext(ChosenContext)

export const PageContext = createContext<PageState | null>(null)

/** usePage is the page around a part of it. */
export function usePage(): PageState {
  const page = useContext(PageContext)
  if (!page) throw new Error("this part stands outside the page of an execution")
  return page
}
