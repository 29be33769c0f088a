import { Link } from "wouter"

const id = /([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/

/** Linked is a sentence of the server in which ids of executions lead to them. */
export function Linked({ text }: { text: string }) {
  return <>{text.split(id).map((part, i) => (i % 2 ? <Link key={i} href={`/executions/${part}`}>{part}</Link> : part))}</>
}
