// What happens in an execution, over a WebSocket: it comes back by itself and goes on behind the last message, so that nothing is
// lost or told twice.
import { address } from "../../api/client"

export interface Message {
  type: "snapshot" | "log" | "status" | "progress" | "complete"
  seq: string
  data: Record<string, unknown>
}

interface Options {
  level?: string
  step?: string
  /** A place in the stream, or latest. */
  since: string
  onMessage: (m: Message) => void
  /** Called when the connection is there, and when it is not. */
  onLink: (connected: boolean) => void
}

const longest = 2000 // ms between two tries

/** follow follows an execution until it has ended, or the function that it gives is called. */
export function follow(execution: string, o: Options): () => void {
  let since = o.since
  let socket: WebSocket | undefined
  let timer: ReturnType<typeof setTimeout> | undefined
  let pause = 250
  let done = false
  const connect = () => {
    const query = new URLSearchParams({ since })
    if (o.level) query.set("level", o.level)
    if (o.step) query.set("step_id", o.step)
    const url = new URL(address(`api/v1/executions/${encodeURIComponent(execution)}/logs/stream?${query}`), window.location.href)
    url.protocol = url.protocol.replace("http", "ws")
    socket = new WebSocket(url)
    socket.onopen = () => {
      pause = 250
      o.onLink(true)
    }
    socket.onmessage = (e) => {
      const m = JSON.parse(String(e.data)) as Message
      if (m.seq) since = m.seq
      if (m.type === "complete") done = true
      o.onMessage(m)
    }
    socket.onclose = () => {
      if (done) return
      o.onLink(false)
      timer = setTimeout(connect, pause)
      pause = Math.min(longest, pause * 2)
    }
  }
  connect()
  return () => {
    done = true
    clearTimeout(timer)
    socket?.close()
  }
}
