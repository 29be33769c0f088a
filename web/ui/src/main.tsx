import { QueryClientProvider } from "@tanstack/react-query"
import { StrictMode } from "react"
import { createRoot } from "react-dom/client"
import { Router } from "wouter"
import { base, queries } from "./api/client"
import { first, Frame } from "./frame/Frame"
import { shared } from "./frame/shared"
import { applyTheme } from "./frame/Theme"
import { press } from "./keys"
import { tellWhole } from "./parts/whole"
import "./parts/tokens.css"
import "./parts/parts.css"
import "./parts/document.css"

applyTheme()
tellWhole(document)
window.addEventListener("keydown", (e) => { if (!e.defaultPrevented) press(e, performance.now()) })

const draw = () => createRoot(document.getElementById("app")!).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <Router base={base.replace(/\/$/, "")}>
        <Frame />
      </Router>
    </QueryClientProvider>
  </StrictMode>,
)

// The server names the code of the screen in the page, and gives it what the screen asks for first: mostly both are there by now, and the
// page is drawn once. The frame does not wait for what is late. No await here: the code of screens uses that of this file.
const path = window.location.pathname.slice(base.length - 1)
const patience = 20 // ms
void Promise.race([Promise.all([shared(), first(path)]).catch(() => undefined), new Promise((go) => setTimeout(go, patience))]).then(draw)
