import { useState } from "react"
import { queries, send, type Problem } from "../api/client"
import { Button } from "../parts/Button"
import { ProblemBox } from "../parts/Problem"

/** Login asks for an API key or token. The server keeps it in a cookie that scripts cannot read; the page forgets it at once. */
export function Login() {
  const [token, setToken] = useState("")
  const [problem, setProblem] = useState<Problem | null>(null)
  const [busy, setBusy] = useState(false)
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
      </form>
    </main>
  )
}
