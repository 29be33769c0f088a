// Other colours for a field than those of states: a scale for numbers, a few hues for workers. Pure.
import type { Paint } from "../../field/raster"
import type { Steps } from "../../field/steps"

export type ColourBy = "state" | "duration" | "attempt" | "worker"

const hues = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#994f00", "#888888"]
const scale = ["#fde725", "#a0da39", "#4ac16d", "#1fa187", "#277f8e", "#365c8d", "#46327e", "#440154"]

/** colours gives each step a value of its own column, and the colours of these values. The last value is for steps without one. */
export function colours(steps: Steps, by: Exclude<ColourBy, "state">, paint: Paint): { values: Uint8Array; paint: Paint } {
  const list = by === "worker" ? hues : scale
  const values = new Uint8Array(steps.n)
  const absent = steps.states.indexOf("absent")
  let most = 1
  for (let i = 0; i < steps.n; i++) most = Math.max(most, steps.duration[i]!)
  for (let i = 0; i < steps.n; i++) {
    let v = list.length
    if (steps.status[i] === absent) v = list.length + 1
    else if (by === "worker") v = steps.worker[i] ? (steps.worker[i]! - 1) % list.length : v
    else if (by === "attempt") v = steps.attempt[i] ? Math.min(list.length, steps.attempt[i]!) - 1 : v
    else if (steps.start[i] && steps.duration[i]) v = Math.min(list.length - 1, Math.floor((Math.log(steps.duration[i]! + 1) / Math.log(most + 1)) * list.length))
    values[i] = v
  }
  return { values, paint: { ...paint, fill: [...list, paint.line, undefined], loud: [] } }
}
