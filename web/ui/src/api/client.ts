// The client of the API, typed by its description (schema.d.ts, made by web/schema). Every failure is a Problem.
import { QueryClient, useMutation, useQuery, useQueryClient, type UseQueryOptions } from "@tanstack/react-query"
import createClient from "openapi-fetch"
import { given } from "./given"
import type { components, paths } from "./schema"

export type Schemas = components["schemas"]

const meta = (name: string) => document.querySelector<HTMLMetaElement>(`meta[name=stepwell-${name}]`)?.content ?? ""

/** The path below which the page and the API live, ending with a slash. */
export const base = typeof document === "undefined" ? "/" : new URL(document.baseURI).pathname
/** The nonce of this page for styles that libraries add. */
export const nonce = typeof document === "undefined" ? "" : meta("nonce")
/** The version of the server that gave this page. */
export const version = typeof document === "undefined" ? "" : meta("version")

/** Address is that of an operation, below the base path. */
export const address = (path: string) => base + path.replace(/^\//, "")

const below = address("api/v1/")

/** Problem is what the API answers instead of a success. Status 0: no answer came. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint = "",
    readonly details: Schemas["Detail"][] = [],
    readonly request = "",
  ) {
    super(message)
  }
}

/** problemOf makes a Problem of an answer that is none of the operation's successes. */
export async function problemOf(response: Response): Promise<Problem> {
  const request = response.headers.get("X-Request-ID") ?? ""
  try {
    const p = await response.clone().json()
    return new Problem(response.status, p.code ?? "internal", p.message ?? response.statusText, p.hint ?? "", p.details ?? [], request)
  } catch {
    return new Problem(response.status, "internal", `the server answered ${response.status}`, "", [], request)
  }
}

// A question is repeated until it is answered; what changes something is not, as it may have come through.
const silent = (method = "GET") => new Problem(0, "unavailable", "the server does not answer", method === "GET" || method === "HEAD" ? "it is asked again until it does" : "it may have been done all the same: look before you do it again")

// fetched is the answer that the page was given with, or a new one.
function fetched(method: string, url: string, ask: () => Promise<Response>): Promise<Response> {
  const at = url.indexOf(below)
  const had = method === "GET" && at >= 0 ? given(url.slice(at + below.length)) : undefined
  return had ? Promise.resolve(had) : ask()
}

/** send fetches from the API; it throws a Problem. */
export async function send(path: string, init?: RequestInit): Promise<Response> {
  let response: Response
  try {
    response = await fetched(init?.method ?? "GET", address(path), () => fetch(address(path), { credentials: "same-origin", ...init }))
  } catch (err) {
    if (init?.signal?.aborted) throw err
    throw silent(init?.method)
  }
  if (!response.ok && response.status !== 304) throw await problemOf(response)
  return response
}

const client = createClient<paths>({
  baseUrl: typeof document === "undefined" ? "" : base.replace(/\/$/, ""),
  credentials: "same-origin",
  fetch: (request) => fetched(request.method, request.url, () => fetch(request)),
  querySerializer: { array: { style: "form", explode: false } }, // status=a,b
})
client.use({
  async onResponse({ response }) {
    if (!response.ok && response.status !== 304) throw await problemOf(response)
  },
  onError({ error, request }) {
    if (request.signal.aborted || error instanceof Problem) return undefined
    return silent(request.method)
  },
})

/** api has a method for each HTTP method; data of a success, or a Problem thrown. */
export const api = client

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      refetchOnWindowFocus: false,
      retry: (count, err) => err instanceof Problem && (err.status === 0 || err.status === 503) && count < 1_000,
      retryDelay: (count) => Math.min(250 * 2 ** count, 2_000),
    },
  },
})

/** useAsk reads something of the API and keeps it in the cache under a key. The first part of a key says which live messages make it stale. */
export function useAsk<T>(key: readonly unknown[], ask: (signal: AbortSignal) => Promise<T>, options?: Partial<UseQueryOptions<T, Problem>>) {
  return useQuery<T, Problem>({ queryKey: key, queryFn: ({ signal }) => ask(signal), ...options })
}

/** Question is what is asked for, and the key under which the cache keeps the answer. */
export interface Question<T> { key: readonly unknown[]; ask: (signal: AbortSignal) => Promise<T>; retry?: (count: number, err: Problem) => boolean }

/** askSoon asks before what shows the answer is on the page; the promise is kept, with an answer or without. */
export const askSoon = <T>({ key, ask, ...how }: Question<T>) => queries.prefetchQuery<T, Problem>({ queryKey: key, queryFn: ({ signal }) => ask(signal), ...how })

/** useDo changes something through the API; what is cached under the keys is read again. */
export function useDo<I, O>(act: (input: I) => Promise<O>, stale: readonly (readonly unknown[])[] = []) {
  const cache = useQueryClient()
  return useMutation<O, Problem, I>({
    mutationFn: act,
    onSuccess: async () => {
      await Promise.all(stale.map((queryKey) => cache.invalidateQueries({ queryKey })))
    },
  })
}

/** data unwraps an answer of api. */
export async function data<T>(answer: Promise<{ data?: T; response: Response }>): Promise<T> {
  return (await answer).data as T
}
