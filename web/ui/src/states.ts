// The states of steps and executions: a word, a shape and a token each. Their order is that of importance: the worst first.
export type State = "failed" | "timed_out" | "lost" | "retrying" | "waiting" | "running" | "queued" | "cancelling" | "paused" | "completed_with_failures" | "completed" | "pending" | "cancelled" | "skipped"

interface Look {
  word: string
  shape: "cross" | "clock" | "arrow" | "diamond" | "half" | "dot" | "tick" | "circle" | "bar" | "dash" | "pause" | "tick-cross"
  token: string // of parts/tokens.css
}

/** looks tells how each state is shown. */
export const looks: Record<State, Look> = {
  failed: { word: "failed", shape: "cross", token: "--state-failed" },
  timed_out: { word: "timed out", shape: "clock", token: "--state-failed" },
  lost: { word: "lost", shape: "cross", token: "--state-failed" },
  retrying: { word: "retrying", shape: "arrow", token: "--state-retrying" },
  waiting: { word: "waiting", shape: "diamond", token: "--state-waiting" },
  running: { word: "running", shape: "half", token: "--state-running" },
  queued: { word: "queued", shape: "dot", token: "--state-queued" },
  cancelling: { word: "cancelling", shape: "half", token: "--state-grey" },
  paused: { word: "paused", shape: "pause", token: "--state-waiting" },
  completed_with_failures: { word: "completed with failures", shape: "tick-cross", token: "--state-failed" },
  completed: { word: "completed", shape: "tick", token: "--state-completed" },
  pending: { word: "pending", shape: "circle", token: "--state-pending" },
  cancelled: { word: "cancelled", shape: "bar", token: "--state-grey" },
  skipped: { word: "skipped", shape: "dash", token: "--state-grey" },
}

const unknown: Look = { word: "unknown", shape: "circle", token: "--state-grey" }

/** lookOf shows a state that a newer server knows as unknown. */
export const lookOf = (state: string): Look => looks[state as State] ?? { ...unknown, word: state.replaceAll("_", " ") }

/** loud are the states that must be told apart at any size. */
export const loud: State[] = ["queued", "running", "waiting", "retrying", "completed", "failed"]

const ends = new Set<string>(["completed", "completed_with_failures", "failed", "timed_out", "cancelled", "skipped"])

/** ended says that nothing more happens in a state by itself. */
export const ended = (state: string) => ends.has(state)

const rank = new Map(Object.keys(looks).map((s, i) => [s, i]))

/** byImportance orders states, the worst first. */
export const byImportance = (a: string, b: string) => (rank.get(a) ?? 99) - (rank.get(b) ?? 99)
