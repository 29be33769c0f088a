// The colours of a field, read from the tokens.
import { useEffect, useMemo, useState } from "react"
import { lookOf } from "../states"
import type { Paint } from "./raster"

const alert: Record<string, number> = { failed: 2, timed_out: 2, lost: 1, running: 1, retrying: 1, waiting: 1 }

/** useTheme counts the changes of colours. */
export function useTheme(): number {
  const [count, set] = useState(0)
  useEffect(() => {
    const more = () => set((n) => n + 1)
    const dark = window.matchMedia("(prefers-color-scheme: dark)")
    window.addEventListener("stepwell-theme", more)
    dark.addEventListener("change", more)
    return () => {
      window.removeEventListener("stepwell-theme", more)
      dark.removeEventListener("change", more)
    }
  }, [])
  return count
}

/** usePaint gives the colours for the values of a status column. */
export function usePaint(states: string[]): Paint {
  const theme = useTheme()
  const names = states.join()
  return useMemo(() => readPaint(names ? names.split(",") : []), [names, theme])
}

let scratch: OffscreenCanvasRenderingContext2D | null | undefined

/** tokenOf is the colour of a token as #rrggbb, however the built style sheet writes it. */
export function tokenOf(name: string): string {
  const value = getComputedStyle(document.documentElement).getPropertyValue(name).trim()
  if (/^#[0-9a-f]{6}$/.test(value)) return value
  scratch ??= new OffscreenCanvas(1, 1).getContext("2d")
  if (!scratch) return "#000000"
  scratch.fillStyle = value
  return scratch.fillStyle
}

export function readPaint(states: string[]): Paint {
  const token = tokenOf
  return {
    fill: states.map((s) => (s === "absent" ? undefined : token(lookOf(s).token))),
    loud: states.map((s) => alert[s] ?? 0),
    waits: { queued: token(lookOf("queued").token), backoff: token(lookOf("retrying").token), waiting: token(lookOf("waiting").token) },
    ground: token("--ground"), line: token("--line-strong"), text: token("--text"), quiet: token("--quiet"), accent: token("--accent"),
    font: getComputedStyle(document.documentElement).getPropertyValue("--mono").trim(),
  }
}

/** inkOn is black or white, whichever is read better on a colour #rrggbb. */
export function inkOn(colour: string): string {
  const n = parseInt(colour.slice(1), 16)
  const linear = (v: number) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4)
  const light = 0.2126 * linear(n >> 16) + 0.7152 * linear((n >> 8) & 255) + 0.0722 * linear(n & 255)
  return light > 0.179 ? "#000000" : "#ffffff"
}
