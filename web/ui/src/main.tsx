import { QueryClientProvider } from "@tanstack/react-query"
import { StrictMode } from "react"
import { createRoot } from "react-dom/client"
import { Router } from "wouter"
import { base, queries } from "./api/client"
import { first, Frame } from "./frame/Frame"
import { applyTheme } from "./frame/Theme"
import { press } from "./keys"
import "./parts/tokens.css"
import "./parts/parts.css"

applyTheme()
window.addEventListener("keydown", (e) => { if (!e.defaultPrevented) press(e, performance.now()) })
// The server names the code of the screen in the page: mostly it is there by now. The frame does not wait for one that is late.
await Promise.race([first(window.location.pathname.slice(base.length - 1)).catch(() => undefined), new Promise((go) => setTimeout(go, 20))])
createRoot(document.getElementById("app")!).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <Router base={base.replace(/\/$/, "")}>
        <Frame />
      </Router>
    </QueryClientProvider>
  </StrictMode>,
)
