import { useState } from "react"
import { Link } from "wouter"
import { formatCount } from "../../format"

const id = /([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/

/** Linked is a sentence of the server in which ids of executions lead to them. */
export function Linked({ text }: { text: string }) {
  return <>{text.split(id).map((part, i) => (i % 2 ? <Link key={i} href={`/executions/${part}`}>{part}</Link> : part))}</>
}

const most = 600 // letters of a message that are shown unasked: all it is about stands below it

/** Message is a sentence of the server; of a long one, such as a trace of a program, the beginning, and all of it on demand. */
export function Message({ text }: { text: string }) {
  const [whole, setWhole] = useState(false)
  if (text.length <= most) return <Linked text={text} />
  return (
    <>
      <Linked text={whole ? text : text.slice(0, most) + "…"} />{" "}
      <button type="button" className="x-step-link" aria-expanded={whole} onClick={() => setWhole(!whole)}>{whole ? "Show less" : `Show all ${formatCount(text.length)} letters`}</button>
    </>
  )
}
