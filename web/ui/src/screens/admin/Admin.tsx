import type { ComponentType } from "react"
import { Link } from "wouter"
import { useRefusal } from "../../me"
import { Audit } from "./Audit"
import { Clusters } from "./Clusters"
import { Health } from "./Health"
import { Keys } from "./Keys"
import { Policy } from "./Policy"
import { Secrets } from "./Secrets"

const parts: { tab: string; title: string; admin: boolean; Part: ComponentType }[] = [
  { tab: "health", title: "Health", admin: false, Part: Health },
  { tab: "secrets", title: "Secrets", admin: true, Part: Secrets },
  { tab: "keys", title: "API keys", admin: true, Part: Keys },
  { tab: "audit", title: "Audit log", admin: true, Part: Audit },
  { tab: "policy", title: "Policy", admin: true, Part: Policy },
  { tab: "clusters", title: "Clusters", admin: false, Part: Clusters },
]

export default function Admin({ params }: { params: Record<string, string | undefined> }) {
  const refusal = useRefusal("admin")
  const here = parts.find((p) => p.tab === params.tab) ?? parts[0]!
  return (
    <div className="screen" data-full>
      <header><h1>Admin</h1></header>
      <nav className="tabs" aria-label="Parts of administration" style={{ flex: "none" }}>
        {parts.map((p) => <Link key={p.tab} href={p === parts[0] ? "/admin" : `/admin/${p.tab}`} aria-current={p === here ? "page" : undefined}>{p.title}</Link>)}
      </nav>
      {here.admin && refusal ? <div className="empty"><h2>Only admins see this</h2><p>{refusal}.</p></div> : <here.Part />}
    </div>
  )
}
