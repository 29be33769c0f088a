// Which steps an expression selects. Pure.
import { critical, related } from "../field/paths"
import type { Steps } from "../field/steps"
import type { Expr, Field } from "./parse"
import type { Keys } from "./keys"

type Match = Extract<Expr, { kind: "match" }>

/** needsKeys says whether an expression asks for what only the keys' columns have. */
export function needsKeys(e: Expr): boolean {
  if (e.kind === "match") return e.field !== "worker"
  if (e.kind === "or" || e.kind === "and") return e.of.some(needsKeys)
  return e.kind === "not" || e.kind === "flow" ? needsKeys(e.of) : false
}

/** evaluate marks the steps that are selected; absent ones never are. Each part is looked at once: time is linear in steps and edges, times
 * the parts. Of keys that are not there yet nothing matches. */
export function evaluate(e: Expr, steps: Steps, keys: Keys | undefined): Uint8Array {
  const mark = new Uint8Array(of(e, steps, keys)) // those of names are kept
  const absent = steps.states.indexOf("absent")
  for (let i = 0; i < steps.n; i++) if (steps.status[i] === absent) mark[i] = 0
  return mark
}

function of(e: Expr, steps: Steps, keys: Keys | undefined): Uint8Array {
  switch (e.kind) {
    case "or":
    case "and": {
      const out = new Uint8Array(of(e.of[0]!, steps, keys))
      for (const x of e.of.slice(1)) {
        const other = of(x, steps, keys)
        if (e.kind === "or") for (let i = 0; i < steps.n; i++) out[i]! |= other[i]!
        else for (let i = 0; i < steps.n; i++) out[i]! &= other[i]!
      }
      return out
    }
    case "not": return of(e.of, steps, keys).map((v) => 1 - v)
    case "flow": {
      const from = of(e.of, steps, keys)
      const out = new Uint8Array(from)
      for (const way of ["up", "down"] as const) {
        if (!e[way]) continue
        const marks = related(steps, from, way)
        for (let i = 0; i < steps.n; i++) out[i]! |= marks[i]!
      }
      return out
    }
    case "state": {
      const code = steps.states.indexOf(e.state)
      const out = new Uint8Array(steps.n)
      for (let i = 0; i < steps.n; i++) if (steps.status[i] === code) out[i] = 1
      return out
    }
    case "critical": return critical(steps)
    case "match": return e.field === "worker" ? listed(e, steps.worker, steps.workers, steps.n) : named(e, steps.n, keys)
  }
}

// What names select does not change while the keys are the same: so it is worked out once, however often the steps change.
const kept = new WeakMap<Keys, Map<string, Uint8Array>>()
const maxKept = 50

function named(e: Match, n: number, keys: Keys | undefined): Uint8Array {
  if (!keys) return new Uint8Array(n)
  let all = kept.get(keys)
  if (!all) kept.set(keys, (all = new Map()))
  const id = `${e.field} ${n} ${e.pattern}`
  let out = all.get(id)
  if (!out) {
    if (all.size >= maxKept) all.clear()
    all.set(id, (out = look(e, n, keys)))
  }
  return out
}

function look(e: Match, n: number, keys: Keys): Uint8Array {
  if (e.field === "action") return listed(e, keys.action, keys.actions, n)
  if (e.field === "queue") return listed(e, keys.queue, keys.queues, n)
  const out = new Uint8Array(n)
  const most = Math.min(n, keys.key.length)
  if (e.pattern.includes("*")) {
    const fits = glob(e.pattern, "step")
    for (let i = 0; i < most; i++) if (keys.key[i] && fits(keys.key[i]!)) out[i] = 1
    return out
  }
  let found = false
  for (let i = 0; i < most; i++) {
    const k = keys.key[i]!
    if (k === e.pattern) [out[i], found] = [1, true]
    else if (e.field === "any" && k.length > e.pattern.length && k.startsWith(e.pattern) && (k[e.pattern.length] === "." || k[e.pattern.length] === "[")) [out[i], found] = [1, true]
  }
  if (found || e.field === "step") return out
  const text = e.pattern.toLowerCase()
  const actions = keys.actions.map((a) => a.toLowerCase().includes(text))
  for (let i = 0; i < most; i++) if (keys.key[i] && (actions[keys.action[i]!] || keys.key[i]!.toLowerCase().includes(text))) out[i] = 1
  return out
}

function listed(e: Match, values: Uint16Array, names: string[], n: number): Uint8Array {
  const fits = glob(e.pattern, e.field)
  const ok = names.map((name, i) => fits(i === 0 && e.field === "queue" ? "default" : name) && (i > 0 || e.field === "queue"))
  const out = new Uint8Array(n)
  for (let i = 0; i < n && i < values.length; i++) if (ok[values[i]!]) out[i] = 1
  return out
}

/** glob tells texts that fit a pattern. In the key of a step * stands for a part of it, ** for anything; in other names * stands for
 * anything. No regular expression: those go back and forth without end in patterns with many stars. Where a text does not fit, the last
 * star takes one more character, or if it may not, the last one for anything: what earlier ones take is as little as they can, which
 * leaves the most to those behind them. */
export function glob(pattern: string, field: Field): (text: string) => boolean {
  const parts = pattern.split(/(\*+)/)
  const any = parts.map((p) => p.startsWith("*") && (field !== "step" || p.length > 1))
  return (text) => {
    let [part, at, some, from, all, begun] = [0, 0, -1, 0, -1, 0]
    while (part < parts.length || at < text.length) {
      const p = parts[part]
      if (p?.startsWith("*")) {
        if (any[part]) [all, begun, some] = [part, at, -1]
        else [some, from] = [part, at]
        part++
      } else if (p !== undefined && text.startsWith(p, at) && (part < parts.length - 1 || at + p.length === text.length)) {
        at += p.length
        part++
      } else if (some >= 0 && from < text.length && !".[]".includes(text[from]!)) [part, at] = [some + 1, ++from]
      else if (all >= 0 && begun < text.length) [part, at, some] = [all + 1, ++begun, -1]
      else return false
    }
    return true
  }
}
