// What OpenAI's own client makes of the answers. Arguments: the folder that has the client, the base URL.
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import assert from "node:assert/strict";

const [folder, baseURL] = process.argv.slice(2);
const resolve = createRequire(join(folder, "package.json")).resolve;
const { default: OpenAI, toFile } = await import(pathToFileURL(resolve("openai")));
const client = new OpenAI({ apiKey: "sk-test", baseURL, maxRetries: 2 });
const messages = [{ role: "user", content: "What is a leaf?" }];

const models = await client.models.list();
assert.deepEqual(models.data.map((m) => m.id), ["fake-chat", "fake-transcribe"]);

const whole = await client.chat.completions.create({ model: "fake-chat", messages });
assert.match(whole.choices[0].message.content, /What is a leaf\?/);
assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens);

const stream = client.chat.completions.stream({ model: "fake-chat", messages, stream_options: { include_usage: true } });
let pieces = 0;
for await (const _ of stream) pieces++;
const streamed = await stream.finalChatCompletion();
assert.ok(pieces > 3);
assert.match(streamed.choices[0].message.content, /What is a leaf\?/);
assert.ok(streamed.usage.completion_tokens > 0);

const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object", required: ["city"], properties: { city: { type: "string" } } } } }];
const calling = client.chat.completions.stream({ model: "fake-chat", messages, tools, tool_choice: "required" });
const called = (await calling.finalChatCompletion()).choices[0];
assert.equal(called.finish_reason, "tool_calls");
assert.equal(typeof JSON.parse(called.message.tool_calls[0].function.arguments).city, "string");

const schema = { type: "object", required: ["n"], additionalProperties: false, properties: { n: { type: "integer", minimum: 5 } } };
const parsed = await client.chat.completions.parse({ model: "fake-chat", messages, response_format: { type: "json_schema", json_schema: { name: "x", strict: true, schema } } });
assert.deepEqual(parsed.choices[0].message.parsed ?? JSON.parse(parsed.choices[0].message.content), { n: 5 });

const sound = () => toFile(Buffer.alloc(160000), "lesson.mp3");
const transcript = await client.audio.transcriptions.create({ model: "fake-transcribe", file: await sound(), response_format: "verbose_json" });
assert.equal(transcript.duration, 10);
assert.equal(transcript.segments.length, 2);
assert.match(await client.audio.transcriptions.create({ model: "fake-transcribe", file: await sound(), response_format: "text" }), /^This is lesson\.mp3/);

// The client waits as Retry-After says, and then has its answer.
const limited = { headers: { "X-Fake-Fault": "rate_limit=2,retry_after=0.01" } };
await client.chat.completions.create({ model: "fake-chat", messages }, limited);
await client.chat.completions.create({ model: "fake-chat", messages }, limited);

const wrong = await client.chat.completions.create({ model: "fake-chat", messages: [] }).catch((e) => e);
assert.ok(wrong instanceof OpenAI.BadRequestError);
assert.equal(wrong.code, "invalid_request");
const failed = await client.chat.completions.create({ model: "fake-chat", messages }, { headers: { "X-Fake-Fault": "error" }, maxRetries: 0 }).catch((e) => e);
assert.ok(failed instanceof OpenAI.InternalServerError);
console.log("all is well");
