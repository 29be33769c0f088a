// The worker that `stepwell worker conformance -- node dist/conformance.js` judges: every action of the suite.
import { type Json, Worker, fail, poll, retry, skip, wait } from "./stepwell-worker.js";

const worker = new Worker();

worker.action<{ value?: Json }>("conformance.echo", {}, (_, { value = null }) => ({ value }));
worker.action<{ message: string; code?: string; permanent?: boolean; skip?: boolean }>("conformance.fail", {}, (_, p) => {
  if (p.skip) throw skip(p.message);
  throw p.permanent ? fail(p.message, p.code) : retry(p.message, p.code ? { code: p.code } : {});
});
worker.action<{ seconds: number }>("conformance.sleep", {}, (task, { seconds }) => task.sleep(seconds));
worker.action<{ lines: number }>("conformance.log", {}, (task, { lines }) => {
  for (let n = 1; n <= lines; n++) task.log(`line ${n}`, { n });
});
worker.action<{ fraction: number; note: string }>("conformance.progress", {}, async (task, { fraction, note }) => {
  task.progress(fraction, note);
  await task.sleep(600);
});
worker.action<{ value: Json }>("conformance.memo", {}, async (task, { value }) => {
  const found = await task.recall("m");
  if (found !== undefined) return { value: found };
  await task.record("m", value);
  throw retry("again");
});
worker.action<{ count: number }>("conformance.spawn", {}, async (task, { count }) => {
  for (let n = 0; n < count; n++) await task.spawn({ name: "leaf", key: `${n}`, action: "conformance.echo", params: { value: n } });
});
worker.action<{ seconds: number; value: Json }>("conformance.wait", {}, (_, { seconds, value }) => {
  throw wait(seconds, { value });
});
worker.action<{ times: number }>("conformance.poll", { cancel: (task) => task.log("stopped", task.state as { n: number }) }, (task, { times }) => {
  const polls = (task.state as { n: number } | undefined)?.n ?? 0;
  if (polls < times) throw poll(0.01, { n: polls + 1 });
  return { polls };
});
worker.action<{ step: string }>("conformance.outputs", {}, async (task, { step }) => ({ outputs: (await task.outputs(step)) ?? null }));
worker.action<{ bytes: number }>("conformance.large", {}, (_, { bytes }) => ({ text: "x".repeat(bytes) }));

await worker.run();
