import { useState } from "react"
import { Link } from "wouter"
import { useRefusal } from "../../me"
import { Button } from "../../parts/Button"
import { useSearchParams } from "../../url"
import { EventTriggers } from "./EventTriggers"
import { SendEvent } from "./SendEvent"
import { Webhooks } from "./Webhooks"

export default function Triggers() {
  const [search] = useSearchParams()
  const [open, setOpen] = useState<"new" | "send">()
  const noEdit = useRefusal("editor")
  const noSend = useRefusal("operator")
  const events = search.tab === "events"
  const close = () => setOpen(undefined)
  return (
    <div className="screen" data-full>
      <header>
        <h1>Triggers</h1>
        <nav className="tabs" aria-label="Kinds of triggers">
          <Link href="/triggers" aria-current={events ? undefined : "page"}>Webhooks</Link>
          <Link href="/triggers?tab=events" aria-current={events ? "page" : undefined}>Events</Link>
        </nav>
        <Button refused={noSend} onClick={() => setOpen("send")}>Send a test event …</Button>
        <Button kind="main" refused={noEdit} onClick={() => setOpen("new")}>{events ? "New event trigger …" : "New webhook …"}</Button>
      </header>
      {events ? <EventTriggers making={open === "new"} onMade={close} /> : <Webhooks making={open === "new"} onMade={close} />}
      {open === "send" && <SendEvent onClose={close} />}
    </div>
  )
}
