import { useEffect, useState } from "react"

const modes = ["system", "light", "dark"] as const
type Mode = (typeof modes)[number]

const saved = (): Mode => {
  const mode = localStorage.getItem("stepwell.theme") as Mode | null
  return mode && modes.includes(mode) ? mode : "system"
}

/** applyTheme sets the chosen theme before anything is painted. */
export function applyTheme(mode: Mode = saved()) {
  if (mode === "system") delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = mode
  window.dispatchEvent(new Event("stepwell-theme")) // canvases read their colours again
}

/** Theme switches between the system's colours, light and dark. */
export function Theme() {
  const [mode, setMode] = useState(saved)
  useEffect(() => {
    localStorage.setItem("stepwell.theme", mode)
    applyTheme(mode)
  }, [mode])
  const next = modes[(modes.indexOf(mode) + 1) % modes.length]!
  return (
    <button type="button" className="button" data-kind="bare" onClick={() => setMode(next)} aria-label={`Colours: ${mode}. Switch to ${next}`} title={`Colours: ${mode}`}>
      {mode === "dark" ? "☾" : mode === "light" ? "☀" : "◐"}
    </button>
  )
}
