/**
 * A Stepwell worker without dependencies, on Node's fetch (Node 18 or later).
 *
 *     const worker = new Worker(); // STEPWELL_SERVER and STEPWELL_API_KEY say where and who
 *
 *     worker.action<{ path: string }>("text.count", { params: { path: { type: "string", required: true } } }, async (task, { path }) => {
 *       const text = await readFile(path, "utf8");
 *       return { words: text.split(/\s+/).length };
 *     });
 *
 *     await worker.run(); // until SIGTERM or Ctrl-C
 *
 * A handler gets its task and the step's parameters, rendered, checked and complete, and returns the outputs: an object, or
 * nothing. It may throw fail, retry, skip, wait, poll or waitFor; any other error fails the attempt, and the step's retry policy
 * decides. It runs at least once; what must not happen twice goes through task.once. When task.signal is aborted (a cancel,
 * the time limit) it should end. Handlers share one thread: long computing belongs into a worker thread, or the node hears nothing.
 * An outcome is kept, and offered again, until the node has it.
 */

// What is used of Node, so that its types are not needed.
declare const process: {
  env: Record<string, string | undefined>;
  pid: number;
  on(event: "SIGTERM" | "SIGINT", listener: () => void): void;
  exit(code: number): never;
  stderr: { write(text: string): void };
};

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Outputs = { [name: string]: Json };

/** A parameter of an action. */
export interface Field {
  type: "string" | "integer" | "number" | "boolean" | "array" | "object" | "duration" | "time" | "any";
  description?: string;
  required?: boolean;
  default?: Json;
  options?: string[];
  min?: number;
  max?: number;
  pattern?: string;
  secret?: boolean;
}

/** What the node and people are told about an action. */
export interface About {
  summary?: string;
  params?: Record<string, Field>;
  open_params?: boolean;
  not_idempotent?: boolean;
  /**
   * Stops the work outside that task.state names (the state of poll or own) when its step is given up. It is called at least once, in
   * any worker that serves the action, perhaps long after: work that is gone is a success.
   */
  cancel?: (task: Task) => Promise<void> | void;
}

export type Handler<P> = (task: Task, params: P) => Promise<Outputs | void> | Outputs | void;

interface Id {
  step_id: string;
  epoch: number;
  kind?: "cancel"; // a call that stops work outside: no attempt, and no slot
}

interface TaskMessage extends Id {
  execution_id: string;
  pipeline: string;
  step_key: string;
  step_name: string;
  action: string;
  attempt: number;
  params: unknown;
  state?: Json;
  timeout_ms: number;
  dir?: string;
  not_idempotent?: boolean;
}

interface Turned {
  tasks: TaskMessage[];
  stop: Id[];
  committed: Id[];
  refused: Id[];
  cancels?: TaskMessage[];
  drain?: boolean;
}

interface Line {
  level: string;
  message: string;
  metadata: Json;
}

type Outcome = Record<string, unknown>;

/** How an attempt ends otherwise than with outputs. Throw what fail, retry, skip, wait, poll and waitFor make. */
export class End extends Error {
  constructor(readonly outcome: Outcome, message: string) {
    super(message);
  }
}

/** The node's answer to a call that it refuses. */
export class Problem extends Error {
  constructor(readonly code: string, message: string, readonly hint: string) {
    super(hint ? `${message} (${hint})` : message);
  }
}

/** No retry will help. */
export function fail(message: string, code = "failed", hint = ""): End {
  return new End({ status: "failed", permanent: true, error: { code, message, hint } }, message);
}

/** Another attempt may help, no earlier than after some seconds; deferred, this one does not count. */
export function retry(message: string, options: { after?: number; code?: string; defer?: boolean } = {}): End {
  const { after = 0, code = "failed", defer = false } = options;
  return new End({ status: "failed", retry_after_ms: Math.round(after * 1000), defer, error: { code, message } }, message);
}

export function skip(reason: string): End {
  return new End({ status: "skipped", error: { message: reason } }, reason);
}

/** Completes after some seconds, and holds no worker until then. */
export function wait(seconds: number, output: Outputs = {}): End {
  return new End({ status: "waiting", wait: { after_ms: Math.round(seconds * 1000), output } }, "waits");
}

/** Calls the handler again after some seconds, with task.state: the same attempt. */
export function poll(seconds: number, state: Json, externalId = ""): End {
  return new End({ status: "waiting", wait: { after_ms: Math.round(seconds * 1000), resume: true, state, external_id: externalId } }, "waits");
}

/** Waits for a signal with the key; without one in time (0: any) completes with output, or fails without output. */
export function waitFor(key: string, seconds = 0, output?: Outputs): End {
  return new End({ status: "waiting", wait: { await: true, external_id: key, after_ms: Math.round(seconds * 1000), ...(output && { output }) } }, "waits");
}

const maxOutput = 16 << 20; // bytes
const maxLines = 1000;
const maxText = 8000;
const maxKept = 1000;

const keyOf = (id: Id): string => `${id.step_id} ${id.epoch} ${id.kind ?? ""}`;
const textOf = (e: unknown): string => (e instanceof Error ? e.message : String(e));
const size = (text: string): number => new TextEncoder().encode(text).length;

/** Waits; a signal ends the wait early. */
const pause = (ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end);
    if (signal?.aborted) end();
  });

/** One attempt of a step. */
export class Task {
  readonly executionId: string;
  readonly pipeline: string;
  readonly stepKey: string;
  readonly stepName: string;
  readonly action: string;
  readonly attempt: number;
  readonly state: Json | undefined;
  readonly dir: string | undefined;
  readonly id: Id;
  readonly begun = performance.now();
  private readonly stopper = new AbortController();
  outcome: Outcome | undefined;
  claimed = false;
  private lines: Line[] = [];
  private dropped = 0;
  private done: { fraction: number; note: string } | undefined;

  constructor(private readonly worker: Worker, readonly message: TaskMessage) {
    this.id = { step_id: message.step_id, epoch: message.epoch, ...(message.kind && { kind: message.kind }) };
    this.executionId = message.execution_id;
    this.pipeline = message.pipeline;
    this.stepKey = message.step_key;
    this.stepName = message.step_name;
    this.action = message.action;
    this.attempt = message.attempt;
    this.state = message.state;
    this.dir = message.dir;
  }

  /** Aborted when the handler is to end. */
  get signal(): AbortSignal {
    return this.stopper.signal;
  }

  stop(): void {
    this.stopper.abort();
  }

  get overdue(): boolean {
    return this.message.timeout_ms > 0 && performance.now() - this.begun >= this.message.timeout_ms;
  }

  /** Adds a line to the step's log. It never waits: lines that come faster than they can be sent are counted instead. */
  log(message: string, metadata: Record<string, unknown> = {}, level: "debug" | "info" | "warning" | "error" = "info"): void {
    if (this.lines.length >= maxLines) {
      this.dropped++;
      return;
    }
    let text: string | undefined;
    try {
      text = JSON.stringify(metadata);
    } catch {} // a cycle
    const known = text !== undefined && text.length <= maxText;
    this.lines.push({ level, message: message.slice(0, maxText), metadata: known ? (JSON.parse(text!) as Json) : { unreadable: true } });
  }

  progress(fraction: number, note = ""): void {
    if (fraction >= 0 && fraction <= 1) this.done = { fraction, note: note.slice(0, maxText) };
  }

  /** Sleeps; throws when the handler is to end. */
  async sleep(seconds: number): Promise<void> {
    await pause(seconds * 1000, this.signal);
    this.signal.throwIfAborted();
  }

  /** Makes a call on the step until the node has answered it. */
  private ask<T = { found: boolean; value?: Json }>(call: string, body: object): Promise<T> {
    return this.worker.insist<T>(this, this.path(call), { ...body, epoch: this.id.epoch });
  }

  private path(call: string): string {
    return `steps/${encodeURIComponent(this.id.step_id)}/${call}`;
  }

  /** The value that record stored in any attempt of this step. */
  async recall(key: string): Promise<Json | undefined> {
    return (await this.ask("memo", { key })).value;
  }

  async record(key: string, value: Json): Promise<void> {
    await this.ask("memo", { key, value });
  }

  /** What make returned the first time, in any attempt of this step. */
  async once<T extends Json>(key: string, make: () => Promise<T> | T): Promise<T> {
    const known = await this.ask("memo", { key });
    if (known.found) return known.value as T;
    const value = await make();
    await this.record(key, value);
    return value;
  }

  /** Adds a step to the execution; it may start at once. */
  async spawn(step: { name: string; key?: string; action?: string; params?: Outputs; depends_on?: string[]; on_failure?: "fail" | "continue"; timeout_seconds?: number }): Promise<void> {
    await this.ask("spawn", { steps: [{ depends_on: null, ...step }] });
  }

  /** The outputs of a step of the execution, or those of all that have ended, merged. */
  async outputs(step = ""): Promise<Json | undefined> {
    return (await this.ask(`outputs/${encodeURIComponent(step)}`, {})).value;
  }

  /** Makes work outside known, before it is left to itself. */
  async own(state: Json): Promise<void> {
    await this.ask("own", { state });
  }

  /** The address at which something outside can end the step, once it has thrown waitFor(key). */
  callback(): Promise<{ key: string; url: string }> {
    return this.ask("callback", {});
  }

  /** For the worker: the lines that have not been sent. */
  takeLines(): Line[] {
    const lines = this.lines;
    if (this.dropped > 0) {
      lines.push({ level: "warning", message: `${this.dropped} lines were left out, because they came faster than they could be sent`, metadata: {} });
    }
    this.lines = [];
    this.dropped = 0;
    return lines;
  }

  /** For the worker: sends lines and progress. */
  async tell(): Promise<void> {
    const done = this.done;
    const lines = this.takeLines();
    this.done = undefined;
    const ran_ms = performance.now() - this.begun;
    try {
      if (ran_ms > 1000 && !this.claimed && !this.message.not_idempotent) {
        await this.worker.call("claim", { ...this.id, ran_ms }); // people see that it runs, and where
        this.claimed = true;
      }
      if (done) await this.worker.call(this.path("progress"), { ...done, epoch: this.id.epoch });
      if (lines.length > 0) await this.worker.call(this.path("log"), { epoch: this.id.epoch, lines });
    } catch (e) {
      if (e instanceof Problem) {
        this.claimed = true; // the attempt is no longer this worker's
        return;
      }
      this.lines = lines.concat(this.lines);
      throw e;
    }
  }
}

export interface Options {
  /** Addresses of nodes. Defaults to STEPWELL_SERVER, which separates them by commas. */
  servers?: string[];
  /** API key of the role worker. Defaults to STEPWELL_API_KEY. */
  key?: string;
  name?: string;
  concurrency?: number;
  queues?: string[];
  version?: string;
}

export class Worker {
  private readonly nodes: string[];
  private readonly key: string;
  private name: string;
  private readonly instance = Math.random().toString(16).slice(2, 10); // another process under this name is told apart by it
  private readonly concurrency: number;
  private readonly about: object;
  private readonly actions = new Map<string, { spec: object; handler: Handler<never>; cancel: About["cancel"] }>();
  private readonly held = new Map<string, Task>();
  private readonly leaving = new AbortController();
  private joined: string | undefined;
  private joining: Promise<string> | undefined;
  private welcome = false; // a node has let it join
  private refused: Problem | undefined;
  private lease = 15; // seconds
  private wake = (): void => {};
  private changed = new Promise<void>((resolve) => (this.wake = resolve));

  constructor(options: Options = {}) {
    this.nodes = (options.servers ?? (process.env.STEPWELL_SERVER || "http://127.0.0.1:8010").split(",")).map((n) => n.replace(/\/+$/, ""));
    this.key = options.key ?? process.env.STEPWELL_API_KEY?.trim() ?? "";
    this.name = options.name ?? `node-${process.env.HOSTNAME ?? "host"}-${process.pid}`;
    this.concurrency = options.concurrency ?? 8;
    this.about = { protocol: 1, version: options.version ?? "", queues: options.queues ?? [], concurrency: this.concurrency };
  }

  /** Registers a handler. */
  action<P = Outputs>(name: string, about: About, handler: Handler<P>): this {
    const params = Object.entries(about.params ?? {}).map(([field, of]) => ({ ...of, name: field }));
    const { cancel, ...rest } = about;
    this.actions.set(name, { spec: { ...rest, name, params, cancels: cancel !== undefined }, handler: handler as Handler<never>, cancel });
    return this;
  }

  private async post<T>(base: string, call: string, body: object, seconds = 60): Promise<T> {
    const answer = await fetch(`${base}/api/v1/worker/${call}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...(this.key && { Authorization: `Bearer ${this.key}` }) }, // a server on this machine may need none
      body: JSON.stringify({ ...body, worker: this.name, instance: this.instance }),
      redirect: "error", // the API key is for the node alone
      signal: AbortSignal.timeout(seconds * 1000),
    });
    const text = await answer.text();
    if (answer.status === 200) return JSON.parse(text) as T;
    let problem: { code?: string; message?: string; hint?: string } | undefined;
    try {
      problem = JSON.parse(text) as typeof problem;
    } catch {} // not the node's
    if (!problem?.code) throw new Error(`${base} answers with status ${answer.status}`);
    throw new Problem(problem.code, problem.message ?? "", problem.hint ?? "");
  }

  /** Joins a node, unless one is joined, and returns its address. */
  private join(): Promise<string> {
    if (this.joined) return Promise.resolve(this.joined);
    this.joining ??= (async () => {
      const base = this.nodes[0]!;
      try {
        const actions = [...this.actions.values()].map((a) => a.spec);
        const out = await this.post<{ worker?: string; lease_seconds: number; nodes?: string[] }>(base, "join", { ...this.about, actions, holding: this.holding() }, 10);
        this.lease = out.lease_seconds;
        this.welcome = true;
        if (out.worker && out.worker !== this.name) {
          this.say(`the node calls this worker ${out.worker}, not ${this.name}`);
          this.name = out.worker;
        }
        this.say(`joined ${base}`);
        for (const node of (out.nodes ?? []).map((n) => n.replace(/\/+$/, ""))) {
          if (!this.nodes.includes(node) && this.nodes.length < 100) this.nodes.push(node);
        }
        return (this.joined = base);
      } catch (e) {
        this.nodes.push(this.nodes.shift()!);
        if (e instanceof Problem && !this.welcome && ["invalid", "unauthenticated", "forbidden"].includes(e.code)) {
          this.refused = e;
          this.leaving.abort();
        }
        throw e;
      } finally {
        this.joining = undefined;
      }
    })();
    return this.joining;
  }

  /** For tasks: makes a call. An error that is no Problem says that the node does not answer: the next call goes to the next one. */
  async call<T>(call: string, body: object): Promise<T> {
    const base = await this.join();
    try {
      return await this.post<T>(base, call, body);
    } catch (e) {
      const first = e instanceof Problem && e.hint === "join first";
      if (e instanceof Problem && !first) throw e;
      if (this.joined === base) {
        this.joined = undefined;
        if (!first) this.nodes.push(this.nodes.shift()!);
      }
      throw new Error(textOf(e));
    }
  }

  /** For tasks: makes a call until the node has answered it. */
  async insist<T>(task: Task, call: string, body: object): Promise<T> {
    for (let ms = 20; ; ms = Math.min(2 * ms, 2000)) {
      try {
        return await this.call<T>(call, body);
      } catch (e) {
        if (e instanceof Problem && e.code !== "unavailable") throw e;
      }
      await task.sleep(ms / 1000);
    }
  }

  private holding(): Id[] {
    return [...this.held.values()].map((t) => t.id).filter((id) => !id.kind);
  }

  private change(): void {
    this.wake();
    this.changed = new Promise((resolve) => (this.wake = resolve));
  }

  private async turn(body: object): Promise<Turned> {
    const out = await this.call<Turned>("turn", body);
    for (const id of out.stop) this.held.get(keyOf(id))?.stop();
    for (const id of [...out.committed, ...out.refused]) this.held.delete(keyOf(id));
    this.begin(out.cancels ?? []);
    this.change();
    if (out.drain) this.leaving.abort();
    return out;
  }

  /** Runs the handlers of tasks. */
  private begin(tasks: TaskMessage[]): void {
    for (const message of tasks) {
      if (this.held.has(keyOf(message))) continue; // it came twice
      const task = new Task(this, message);
      this.held.set(keyOf(message), task);
      void this.handle(task);
    }
  }

  /** Asks for tasks while there are free slots. */
  private async fetchLoop(): Promise<void> {
    for (let ms = 20; !this.leaving.signal.aborted; ) {
      const want = this.concurrency - [...this.held.values()].filter((t) => !t.outcome && !t.id.kind).length;
      if (want <= 0 || this.held.size > maxKept) {
        await this.changed;
        continue;
      }
      try {
        const { tasks } = await this.turn({ want, wait_ms: 10_000 });
        ms = 20;
        if (this.leaving.signal.aborted) {
          if (tasks.length > 0) await this.turn({ back: tasks.map(({ step_id, epoch }) => ({ step_id, epoch })) });
          return;
        }
        this.begin(tasks);
      } catch (e) {
        if (!this.refused) this.say(`no tasks can be fetched, trying again: ${textOf(e)}`);
        await pause(ms, this.leaving.signal);
        ms = Math.min(2 * ms, 2000);
      }
    }
  }

  /** Says that a task which must not run twice begins. If it must not, the node decides about the step. */
  private async claim(task: Task): Promise<boolean> {
    try {
      await this.insist(task, "claim", task.id);
      return (task.claimed = true);
    } catch (e) {
      if (!(e instanceof Problem && e.code === "conflict")) throw e;
      this.held.delete(keyOf(task.id));
      return false;
    }
  }

  /** Runs a task's handler. */
  private async handle(task: Task): Promise<void> {
    let outcome: Outcome;
    try {
      await Promise.resolve(); // all tasks of an answer are held before the first one runs
      if (task.message.not_idempotent && !(await this.claim(task))) return;
      const { handler, cancel } = this.actions.get(task.action)!;
      const output = (await (task.id.kind ? cancel?.(task) : handler(task, (task.message.params ?? {}) as never))) ?? {};
      if (size(JSON.stringify(output)) > maxOutput) throw fail(`the outputs are larger than ${maxOutput >> 20} MiB`, "limit", "write a file and return its path");
      outcome = { status: "completed", output };
    } catch (e) {
      outcome = this.failure(task, e);
    }
    task.outcome = { ...outcome, ...task.id, ran_ms: performance.now() - task.begun };
    this.change();
  }

  private failure(task: Task, e: unknown): Outcome {
    if (e instanceof End) return e.outcome;
    if (task.signal.aborted) {
      return { status: "failed", error: task.overdue ? { code: "timeout", message: "the time is over" } : { code: "cancelled", message: "stopped on request" } };
    }
    const message = textOf(e).slice(0, maxText);
    if (e instanceof Problem) return { status: "failed", permanent: e.code === "invalid" || e.code === "limit", error: { code: e.code, message } };
    return { status: "failed", error: { code: "failed", message } };
  }

  /** Offers outcomes until they are committed, says what is held, and sends lines and progress. */
  private async sendLoop(done: AbortSignal): Promise<void> {
    let beat = 0;
    for (let ms = 20; !done.aborted; ) {
      if (![...this.held.values()].some((t) => t.outcome)) await Promise.race([this.changed, pause(Math.min(200, (this.lease * 1000) / 3), done)]);
      try {
        const outcomes: Outcome[] = [];
        let bytes = 0;
        for (const task of [...this.held.values()]) {
          if (task.overdue) task.stop();
          if (!task.outcome) {
            if (!task.id.kind) await task.tell();
          } else if (bytes < maxOutput && outcomes.length < 1000) {
            task.outcome.log ??= task.takeLines();
            outcomes.push(task.outcome);
            bytes += size(JSON.stringify(task.outcome));
          }
        }
        if (outcomes.length > 0 || performance.now() - beat >= (this.lease * 1000) / 3) {
          beat = performance.now();
          const out = await this.turn({ outcomes, holding: this.holding() });
          if (outcomes.length > 0 && out.committed.length + out.refused.length === 0) throw new Error("the node has not committed them");
        }
        ms = 20;
      } catch (e) {
        this.say(`outcomes are kept, and offered again: ${textOf(e)}`);
        await pause(ms, done);
        ms = Math.min(2 * ms, 2000);
      }
    }
  }

  private say(text: string): void {
    process.stderr.write(`stepwell worker: ${text}\n`);
  }

  /**
   * Runs tasks until SIGTERM or SIGINT; then those that run have so many seconds to end, and the process exits. A second signal
   * takes that from them.
   */
  async run(grace = 30): Promise<never> {
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      process.on(signal, () => (this.leaving.signal.aborted ? process.exit(130) : this.leaving.abort()));
    }
    const done = new AbortController();
    void this.fetchLoop();
    const sending = this.sendLoop(done.signal);
    await new Promise<void>((resolve) => this.leaving.signal.addEventListener("abort", () => resolve()));
    if (this.refused) {
      this.say(this.refused.message);
      process.exit(1);
    }
    for (const until = performance.now() + grace * 1000; this.held.size > 0 && performance.now() < until; ) {
      await Promise.race([this.changed, pause(100)]);
    }
    done.abort();
    await sending;
    try {
      await this.turn({ leaving: true });
    } catch (e) {
      this.say(`the node does not know that this worker has ended: ${textOf(e)}`);
    }
    process.exit(0);
  }
}
