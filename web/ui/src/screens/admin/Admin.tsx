import type { ComponentType } from "react"
import { Link } from "wouter"
import { useMe, useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { Audit } from "./Audit"
import { Clusters } from "./Clusters"
import { Health } from "./Health"
import { Keys } from "./Keys"
import { Policy } from "./Policy"
import { Secrets } from "./Secrets"

// needs: what only an admin can do there; without it, everybody sees the part.
const parts: { tab: string; title: string; needs?: string; Part: ComponentType }[] = [
  { tab: "health", title: "Health", Part: Health },
  { tab: "secrets", title: "Secrets", needs: "New secret …", Part: Secrets },
  { tab: "keys", title: "API keys", needs: "New key …", Part: Keys },
  { tab: "audit", title: "Audit log", needs: "Read the audit log", Part: Audit },
  { tab: "policy", title: "Policy", needs: "Change the policy …", Part: Policy },
  { tab: "clusters", title: "Clusters", Part: Clusters },
]

export default function Admin({ params }: { params: Record<string, string | undefined> }) {
  const me = useMe()
  const refusal = useRefusal("admin")
  const here = parts.find((p) => p.tab === params.tab) ?? parts[0]!
  return (
    <div className="screen" data-full>
      <header><h1>Admin</h1></header>
      <nav className="tabs" aria-label="Parts of administration" style={{ flex: "none" }}>
        {parts.map((p) => <Link key={p.tab} href={p === parts[0] ? "/admin" : `/admin/${p.tab}`} aria-current={p === here ? "page" : undefined}>{p.title}</Link>)}
      </nav>
      {here.needs && !me.data && !me.error
        ? null // who asks is not known yet
        : here.needs && refusal
        ? <div className="empty"><h2>Only admins see this</h2><p>{refusal}.</p><div className="actions"><Button refused={refusal}>{here.needs}</Button></div></div>
        : <here.Part />}
    </div>
  )
}
