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

interface Link {
  onMessage: (data: string | ArrayBuffer) => void
  onLink: (connected: boolean) => void
  /** Called when the server has ended it normally: there is nothing more. */
  onEnd?: () => void
}

/** reconnecting opens a WebSocket of the API, and again whenever it breaks, until the server ends it normally or the function that it
 * gives is called. The path is asked for each time, so that it can say where to go on. */
export function reconnecting(path: () => string, link: Link): () => void {
  let socket: WebSocket | undefined
  let timer: ReturnType<typeof setTimeout> | undefined
  let pause = 250
  let done = false
  const connect = () => {
    const url = new URL(address(path()), window.location.href)
    url.protocol = url.protocol.replace("http", "ws")
    socket = new WebSocket(url)
    socket.binaryType = "arraybuffer"
    socket.onopen = () => {
      pause = 250
      link.onLink(true)
    }
    socket.onmessage = (e) => { if (!done) link.onMessage(e.data as string | ArrayBuffer) }
    socket.onclose = (e) => {
      if (done) return
      if (e.code === 1000) return link.onEnd?.()
      link.onLink(false)
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

/** follow follows an execution until it has ended, or the function that it gives is called. */
export function follow(execution: string, o: Options): () => void {
  let since = o.since
  const path = () => {
    const query = new URLSearchParams({ since })
    if (o.level) query.set("level", o.level)
    if (o.step) query.set("step_id", o.step)
    return `api/v1/executions/${encodeURIComponent(execution)}/logs/stream?${query}`
  }
  const stop = reconnecting(path, {
    onLink: o.onLink,
    onMessage: (data) => {
      const m = JSON.parse(String(data)) as Message
      if (m.seq) since = m.seq
      o.onMessage(m)
      if (m.type === "complete") stop()
    },
  })
  return stop
}
