import { lazy, Suspense, useEffect, useState, type ReactNode } from "react"
import { Link, Route, Switch, useLocation } from "wouter"
import { listen } from "../api/live"
import { useKeys } from "../keys"
import { useMe } from "../me"
import { Skeleton } from "../parts/Loading"
import { Toasts } from "../parts/Toasts"
import { fits, paramsOf, screens, type Screen } from "../screens/screens"
import { useBadges } from "./Badges"
import { Broken } from "./Broken"
import "./frame.css"
import { Help } from "./Help"
import { LiveLight } from "./LiveLight"
import { Login, LogOut } from "./Login"
import { Theme } from "./Theme"

const palette = () => import("./Palette").then((m) => ({ default: m.Palette }))
const Palette = lazy(palette)
const pages = screens.map((s) => ({ ...s, Page: lazy(s.load) }))

/** first loads the code of the screen that an address shows, and what that asks for, so that the first thing that is drawn is that screen. */
export async function first(path: string): Promise<void> {
  const page = pages.find((s) => fits(s.path, path))
  if (!page) return
  const code = await page.load()
  page.Page = code.default as typeof page.Page
  await code.soon?.(paramsOf(page.path, path))
}

function Rail({ badges }: { badges: Record<string, number> }) {
  const [path] = useLocation()
  const here = (s: Screen) => (s.path === "/" ? path === "/" : path === s.path || path.startsWith(s.path + "/"))
  return (
    <nav className="rail" aria-label="Screens">
      <Link href="/" className="brand" aria-label="Stepwell, home">
        <svg viewBox="0 0 16 16" width="18" height="18" aria-hidden="true"><path fill="currentColor" d="M1 2h14v3H1zM3 6.5h10v3H3zM5 11h6v3H5z" /></svg>
        <span>Stepwell</span>
      </Link>
      {screens.filter((s) => s.rail).map((s) => (
        <Link key={s.path} href={s.path} aria-current={here(s) ? "page" : undefined} title={`${s.title} (G ${s.rail!.key.toUpperCase()})`}>
          <span aria-hidden="true" className="icon">{s.rail!.icon}</span>
          <span className="word">{s.title}</span>
          {badges[s.path] ? <span className="badge" aria-label={`${badges[s.path]} waiting`}>{badges[s.path]}</span> : null}
        </Link>
      ))}
    </nav>
  )
}

/** Frame is what stays: the rail, the bar, messages; the screen is inside. */
export function Frame() {
  const me = useMe()
  const badges = useBadges()
  const waiting = Object.values(badges).reduce((a, b) => a + b, 0)
  const [, navigate] = useLocation()
  const [help, setHelp] = useState(false)
  const [finding, setFinding] = useState(false)
  useKeys([
    ...screens.filter((s) => s.rail).map((s) => ({ keys: `g ${s.rail!.key}`, does: `Go to ${s.title}`, act: () => navigate(s.path) })),
    { keys: "ctrl+k", does: "Search and commands", act: () => setFinding(true) },
    { keys: "?", does: "Show all keys", act: () => setHelp(true) },
  ])
  useEffect(() => {
    const idle = window.requestIdleCallback ?? setTimeout
    idle(() => void palette().catch(() => undefined)) // got again when it is opened
  }, [])
  const who = me.data && `${me.data.name} ${me.data.role}`
  useEffect(() => (who ? listen() : undefined), [who])
  if (me.error?.status === 401) return <Login />
  return (
    <div className="frame">
      <a className="skip" href="#screen" onClick={(e) => { e.preventDefault(); document.getElementById("screen")?.focus() }}>Skip to the page</a>
      <Rail badges={badges} />
      <header className="topbar">
        <button type="button" className="button find" onClick={() => setFinding(true)} aria-label="Search and commands">Search <kbd className="kbd">Ctrl K</kbd></button>
        <span className="grow" />
        <LiveLight />
        <Theme />
        <button type="button" className="button" data-kind="bare" onClick={() => setHelp(true)} aria-label="Keys">?</button>
        {me.data && <span className="who" title={`role ${me.data.role}`}>{me.data.name} · {me.data.role}</span>}
        {me.data && ["api_key", "token", "oidc"].includes(me.data.kind) && <LogOut />}
      </header>
      <main id="screen" tabIndex={-1}>
        <Broken>
          <Suspense fallback={<Skeleton lines={6} />}>
            <Switch>
              {pages.map((s) => (
                <Route key={s.path} path={s.path}>{(params) => <Titled title={s.title} waiting={waiting}><s.Page params={params as Record<string, string | undefined>} /></Titled>}</Route>
              ))}
              <Route><NotFound /></Route>
            </Switch>
          </Suspense>
        </Broken>
      </main>
      <Toasts />
      {finding && <Suspense fallback={null}><Palette onClose={() => setFinding(false)} /></Suspense>}
      {help && <Help onClose={() => setHelp(false)} />}
    </div>
  )
}

function Titled({ title, waiting, children }: { title: string; waiting: number; children: ReactNode }) {
  useEffect(() => { document.title = `${waiting ? `(${waiting}) ` : ""}${title} · Stepwell` }, [title, waiting])
  return <>{children}</>
}

function NotFound() {
  return (
    <div className="empty">
      <h2>There is no such page</h2>
      <p>The address may be from another version of Stepwell.</p>
      <div className="actions"><Link className="button" href="/">Home</Link></div>
    </div>
  )
}
