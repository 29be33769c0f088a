import { useEffect, useState } from "react"
import { api, data, useAsk, type Schemas } from "../../api/client"
import type { Timing } from "./timing"

export type Job = Schemas["Job"]
export type Fire = Schemas["Fire"]

/** useFires are the times to come of all schedules within a range, with the changes of clocks in their zones. */
export const useFires = (from: Date, to: Date) => useAsk(["fires", from.toISOString(), to.toISOString()], (signal) => data(api.GET("/api/v1/scheduler/fires", { params: { query: { from: from.toISOString(), to: to.toISOString() } }, signal })), { staleTime: 10_000 })

/** usePreview says what a timing means, once it has not been changed for a moment. */
export function usePreview(schedule: Timing) {
  const text = JSON.stringify(schedule)
  const [settled, setSettled] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), 250)
    return () => clearTimeout(timer)
  }, [text])
  return useAsk(["preview", settled], (signal) => data(api.POST("/api/v1/scheduler/preview", { body: { schedule: JSON.parse(settled) as Timing }, signal })), { staleTime: 30_000, placeholderData: (before) => before })
}
