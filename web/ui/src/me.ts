// Who uses the page, and what they may do. The server decides; the page only says beforehand.
import { api, data, useAsk, type Question, type Schemas } from "./api/client"

const order = ["viewer", "operator", "editor", "admin"] as const
export type Role = (typeof order)[number]

export type Me = Schemas["Me"]

export const me: Question<Me> = { key: ["me"], ask: () => data(api.GET("/api/v1/me")), retry: (n, err) => err.status === 0 && n < 1_000 }

/** useMe is who asks. Its error is 401 where a login is needed. */
export const useMe = () => useAsk(me.key, me.ask, { staleTime: 60_000, retry: me.retry })

/** useRefusal gives the reason why something that takes a role is refused, or false. */
export function useRefusal(needed: Role): string | false {
  const me = useMe().data
  if (!me) return false
  const has = order.indexOf(me.role as Role)
  return has >= order.indexOf(needed) ? false : `${needed} is needed for this, you are ${me.role}`
}
