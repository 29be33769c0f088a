// What a person has selected is in the address: typed search parameters that several parts of a page share.
import { useCallback, useMemo } from "react"
import { useLocation, useSearch } from "wouter"

export type Search = Record<string, string | undefined>

/** parseSearch reads the parameters of an address; of one that is repeated the first. */
export function parseSearch(text: string): Search {
  const found: Search = {}
  for (const [name, value] of new URLSearchParams(text)) found[name] ??= value
  return found
}

/** formatSearch writes parameters in a fixed order; those that are undefined or empty are left out. */
export function formatSearch(search: Search): string {
  const params = new URLSearchParams()
  for (const name of Object.keys(search).sort()) {
    const value = search[name]
    if (value) params.set(name, value)
  }
  const text = params.toString()
  return text ? "?" + text : ""
}

/** useSearchParams gives the parameters, and sets some of them: in place, or as a new entry of the history. */
export function useSearchParams(): [Search, (change: Search, how?: { push?: boolean }) => void] {
  const text = useSearch()
  return [useMemo(() => parseSearch(text), [text]), useSetSearch()]
}

/** useSetSearch sets parameters as useSearchParams does, for who does not show them: their change does not draw it again. */
export function useSetSearch(): (change: Search, how?: { push?: boolean }) => void {
  const [path, navigate] = useLocation()
  return useCallback(
    (change: Search, how?: { push?: boolean }) => {
      // Read anew: two changes in one event must not undo each other.
      const now = parseSearch(window.location.search)
      navigate(path + formatSearch({ ...now, ...change }), { replace: !how?.push })
    },
    [path, navigate],
  )
}
