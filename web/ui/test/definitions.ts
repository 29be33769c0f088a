// Pipelines that tests run.

/** diamond has a group, a for_each, a step that fails, and one behind it. */
export const diamond = {
  name: "thumbnails",
  steps: [
    { id: "find", action: "util.noop" },
    { id: "list", action: "util.log", params: { message: "hello from list" }, depends_on: ["find"] },
    { id: "convert", action: "util.noop", depends_on: ["find"], for_each: { items: 40 } },
    { id: "tidy", depends_on: ["convert"], steps: [{ id: "one", action: "util.noop" }, { id: "two", action: "util.noop", depends_on: ["one"] }] },
    { id: "check", action: "util.fail", params: { message: "exit 1: no decode delegate" }, depends_on: ["tidy", "list"] },
    { id: "report", action: "util.noop", depends_on: ["check"] },
  ],
}

/** wide has iterations of which one fails; the others are skipped, and what comes after them goes on. */
export const wide = (iterations: number, failing: number) => ({
  name: "wide",
  steps: [
    { id: "each", action: "util.fail", params: { message: "this one" }, condition: `{{ item == ${failing} }}`, for_each: { items: iterations, max_failures: "10%" } },
    { id: "after", action: "util.noop", depends_on: ["each"] },
  ],
})

/** tries has a step that fails three times, with time between its attempts, in a queue of its own. */
export const tries = {
  name: "tries",
  settings: { fail_fast: false },
  steps: [
    { id: "first", action: "util.log", params: { message: "hello from first" } },
    { id: "pause", action: "util.wait", params: { seconds: 0.4 }, depends_on: ["first"] },
    { id: "flaky", action: "util.exec", queue: "slow", params: { command: "echo trying; sleep 0.2; exit 1" }, depends_on: ["pause"], retry: { max_attempts: 3, backoff_seconds: 0.4 } },
  ],
}

/** asks waits for an approval. */
export const asks = { name: "release", steps: [{ id: "ok", action: "util.approval", params: { message: "Publish <b>version 7</b>?" } }, { id: "publish", action: "util.noop", depends_on: ["ok"] }] }

/** gated logs lines one after the other, and waits for an approval (gate0, gate1 …) before each further part. */
export const gated = (parts: number, lines: number) => ({
  name: "gated",
  steps: Array.from({ length: parts }, (_, p) => [
    ...(p > 0 ? [{ id: `gate${p - 1}`, action: "util.approval", params: { message: "go on?" }, depends_on: [`say${p * lines - 1}`] }] : []),
    ...Array.from({ length: lines }, (_, k) => ({ id: `say${p * lines + k}`, action: "util.log", params: { message: `line number ${p * lines + k} of all` }, ...(p + k > 0 ? { depends_on: [k === 0 ? `gate${p - 1}` : `say${p * lines + k - 1}`] } : {}) })),
  ]).flat(),
})

/** talks logs lines that a terminal, or a careless page, would take for more than text. */
export const talks = (lines: number) => ({
  name: "talks",
  steps: [
    { id: "colours", action: "util.log", params: { message: "\u001b[31mred\u001b[0m \u001b[38;5;226mindexed\u001b[0m \u001b[38;2;10;20;30mtrue\u001b[0m \u001b[2J\u001b]0;title\u0007plain" } },
    { id: "markup", action: "util.log", params: { message: "<img src=x onerror=\"document.title='broken'\"> <script>document.title='broken'</script> &amp; **bold**" }, depends_on: ["colours"] },
    { id: "warned", action: "util.log", params: { message: "this is a warning", level: "warning" }, depends_on: ["markup"] },
    { id: "many", action: "util.log", params: { message: "counted line {{ item }}" }, depends_on: ["warned"], for_each: { items: lines, max_concurrency: 50 } },
  ],
})
