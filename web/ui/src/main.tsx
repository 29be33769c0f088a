import { QueryClientProvider } from "@tanstack/react-query"
import { StrictMode } from "react"
import { createRoot } from "react-dom/client"
import { Router } from "wouter"
import { base, queries } from "./api/client"
import { Frame } from "./frame/Frame"
import { applyTheme } from "./frame/Theme"
import { press } from "./keys"
import "./parts/tokens.css"
import "./parts/parts.css"

applyTheme()
window.addEventListener("keydown", (e) => { if (!e.defaultPrevented) press(e, performance.now()) })
createRoot(document.getElementById("app")!).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <Router base={base.replace(/\/$/, "")}>
        <Frame />
      </Router>
    </QueryClientProvider>
  </StrictMode>,
)
