import { useState } from "react"
import { useLocation } from "wouter"
import { address, api, data, queries, send, useAsk, type Problem } from "../api/client"
import { Button } from "../parts/Button"
import { ProblemBox } from "../parts/Problem"

/** Login asks for an API key or token, or leads to the issuer. The server keeps it in a cookie that scripts cannot read; the page forgets it at once. */
export function Login() {
  const [token, setToken] = useState("")
  const [problem, setProblem] = useState<Problem | null>(null)
  const [busy, setBusy] = useState(false)
  const [here] = useLocation()
  const ways = useAsk(["session"], (signal) => data(api.GET("/api/v1/session", { signal }))).data?.login
  const login = async () => {
    setBusy(true)
    setProblem(null)
    try {
      await send("api/v1/session", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token: token.trim() }) })
      setToken("")
      await queries.resetQueries()
    } catch (err) {
      setProblem(err as Problem)
    } finally {
      setBusy(false)
    }
  }
  return (
    <main className="login">
      <form onSubmit={(e) => { e.preventDefault(); void login() }}>
        <h1>Stepwell</h1>
        <label className="field-label">
          <span>API key or token</span>
          <input className="input" type="password" autoComplete="current-password" autoFocus value={token} onChange={(e) => setToken(e.target.value)} />
          <small>An admin creates keys: <code>stepwell keys create NAME --role operator</code></small>
        </label>
        {problem && <ProblemBox problem={problem} />}
        <Button type="submit" kind="main" busy={busy} refused={!token.trim() && "enter a key first"}>Log in</Button>
        {ways?.includes("oidc") && <a className="button" href={`${address("api/v1/auth/login")}?return=${encodeURIComponent(here + window.location.search)}`}>Log in with your organisation</a>}
      </form>
    </main>
  )
}

/** LogOut ends the session of this browser. */
export function LogOut() {
  const [busy, setBusy] = useState(false)
  const out = async () => {
    setBusy(true)
    try {
      await send("api/v1/session", { method: "DELETE" })
    } finally {
      setBusy(false)
      await queries.resetQueries()
    }
  }
  return <Button kind="bare" busy={busy} onClick={() => void out()}>Log out</Button>
}
