package httpcall

import (
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// responses are the ways to read a response.
var responses = []string{"auto", "json", "text", "file", "events", "lines", "none"}

// httpSpec describes util.http. It is long because it is a table.
func httpSpec() spec.Spec {
	word := &spec.Field{Name: "rule", Type: spec.Any}
	return spec.Spec{
		Name:    "util.http",
		Summary: "Calls an HTTP service.",
		Doc:     httpDoc,
		Timeout: 5 * time.Minute,
		Retry:   &stepwell.Retry{MaxAttempts: 3, Backoff: time.Second, MaxBackoff: time.Minute, Jitter: 0.5},
		Params: []spec.Field{
			{Name: "url", Type: spec.String, Required: true, Min: ptr(1), Doc: "Where to, http or https."},
			{Name: "method", Type: spec.String, Doc: "GET, or POST when there is a body, unless named."},
			{Name: "query", Type: spec.Object, Doc: "Parameters added to the URL; lists repeat their name, null leaves it out."},
			{Name: "headers", Type: spec.Object, Secret: true, Doc: "Headers; lists repeat their name, null leaves it out."},
			{Name: "json", Type: spec.Any, Doc: "The body: a value, sent as JSON."},
			{Name: "form", Type: spec.Object, Doc: "The body: a form without files; lists repeat their name."},
			{Name: "multipart", Type: spec.Array, Max: ptr(1000), Doc: "The body: a form with files, which are read while they are sent.",
				Items: &spec.Field{Name: "part", Type: spec.Object, Fields: []spec.Field{
					{Name: "name", Type: spec.String, Required: true, Min: ptr(1), Doc: "Name of the field."},
					{Name: "value", Type: spec.Any, Doc: "Its value; other values than text are sent as JSON."},
					{Name: "file", Type: spec.String, Doc: "Or a file, relative to the pipeline's directory."},
					{Name: "filename", Type: spec.String, Doc: "The name that the server is told; the file's own by default."},
					{Name: "content_type", Type: spec.String, Doc: "Media type; by the file name's extension by default."},
				}}},
			{Name: "file", Type: spec.String, Min: ptr(1), Doc: "The body: a file, relative to the pipeline's directory, read while it is sent."},
			{Name: "text", Type: spec.String, Doc: "The body: a text."},
			{Name: "content_type", Type: spec.String, Doc: "Media type of `text` or `file`."},
			{Name: "response", Type: spec.String, Default: "auto", Enum: responses, Doc: "How to read the response; `auto` goes by its Content-Type."},
			{Name: "path", Type: spec.String, Min: ptr(1), Doc: "Where `response: file` is written, relative to the pipeline's directory; it appears complete or not at all."},
			{Name: "spill", Type: spec.String, Min: ptr(1), Doc: "A file that takes a `json` or `text` response larger than `max_bytes`, instead of failing."},
			{Name: "max_bytes", Type: spec.Integer, Min: ptr(1), Max: ptr(1 << 40), Doc: "Largest decoded response. By default 16 MiB, 10 GiB for a file."},
			{Name: "outputs", Type: spec.Object, Raw: true, Bare: true, Doc: "Named outputs: an expression each, such as `body.choices[0].message.content`, or {value, type, required}."},
			{Name: "include_body", Type: spec.Boolean, Doc: "Whether the body is among the outputs; by default when `outputs` names none."},
			{Name: "success_if", Type: spec.Any, Raw: true, Bare: true, Names: []string{"status", "headers", "body", "url", "response"}, Doc: "Condition that makes the response a success, whatever its status; without it the status must be 2xx."},
			{Name: "timeouts", Type: spec.Object, Doc: "Limits of the phases.", Fields: []spec.Field{
				{Name: "connect", Type: spec.Duration, Min: ptr(0.001), Doc: "Name look-up and connection; 10 s by default."},
				{Name: "tls", Type: spec.Duration, Min: ptr(0.001), Doc: "TLS handshake; 10 s by default."},
				{Name: "first_byte", Type: spec.Duration, Min: ptr(0.001), Doc: "From the end of the request to the first byte of the response; only `total` by default."},
				{Name: "idle", Type: spec.Duration, Min: ptr(0.001), Doc: "Without a byte of either body moving; 1 min by default."},
				{Name: "total", Type: spec.Duration, Min: ptr(0.001), Doc: "The whole exchange. Less than the step's timeout, of which it takes 95 % by default."},
			}},
			{Name: "redirects", Type: spec.Integer, Default: 5, Min: ptr(0), Max: ptr(20), Doc: "How many redirects are followed."},
			{Name: "retry_on", Type: spec.Array, Items: word, Doc: "Statuses (`409`, `5xx`) and kinds of failure that are worth another attempt beyond the table."},
			{Name: "fail_on", Type: spec.Array, Items: word, Doc: "Statuses and kinds that are not."},
			{Name: "max_defer", Type: spec.Duration, Default: "24h", Min: ptr(0), Doc: "For how long a busy server may put the step back without using up attempts."},
			{Name: "idempotency_key", Type: spec.Any, Doc: "Header Idempotency-Key: true, false or a text. The step's own key by default, unless the method is GET, HEAD or OPTIONS."},
			{Name: "poll", Type: spec.Object, Raw: true, Doc: "For a service that answers with a job: how to ask until it is done.", Fields: []spec.Field{
				{Name: "job", Type: spec.String, Bare: true, Doc: "Expression over the first response that gives what identifies the job, such as `body.id`."},
				{Name: "url", Type: spec.String, Doc: "Where to ask, a template with {{ job }}; by default the Location or Operation-Location of the first response."},
				{Name: "method", Type: spec.String, Doc: "GET by default."},
				{Name: "headers", Type: spec.Object, Doc: "Headers, templates with {{ job }}; by default those of the first request, at the same origin."},
				{Name: "until", Type: spec.Any, Required: true, Bare: true, Doc: "Condition on the response that ends the wait, such as `body.status == 'done'`."},
				{Name: "fail_if", Type: spec.Any, Bare: true, Doc: "Condition on the response that says that the job failed; another attempt submits a new one."},
				{Name: "interval", Type: spec.Duration, Default: "5s", Min: ptr(0.001), Doc: "Pause before the first question."},
				{Name: "backoff", Type: spec.Number, Default: 1.5, Min: ptr(1), Max: ptr(10), Doc: "By how much each further pause is longer."},
				{Name: "max_interval", Type: spec.Duration, Default: "1m", Min: ptr(0.001), Doc: "Longest pause."},
				{Name: "deadline", Type: spec.Duration, Default: "24h", Min: ptr(0.001), Max: ptr(365 * 86400), Doc: "For how long to ask."},
				{Name: "max_errors", Type: spec.Integer, Default: 10, Min: ptr(0), Max: ptr(1000), Doc: "Questions in a row that may fail before the attempt does."},
			}},
			{Name: "callback", Type: spec.Object, Doc: "For a service that calls back when its work is done, at the address in the header X-Stepwell-Callback, which is also {{ callback.url }}.", Fields: []spec.Field{
				{Name: "timeout_seconds", Type: spec.Number, Default: 86400, Min: ptr(0.001), Max: ptr(365 * 86400), Doc: "How long to wait for the callback."},
			}},
			{Name: "prices", Type: spec.Object, Doc: "Prices by model, `*` for any: {input, cached, output} per million tokens, {second} of audio, {request}."},
		},
		OpenOutputs: true,
		Outputs: []spec.Field{
			{Name: "status", Type: spec.Integer, Doc: "The status."},
			{Name: "headers", Type: spec.Object, Doc: "The response's headers by lower-case name, without secrets."},
			{Name: "body", Type: spec.Any, Doc: "The body: a value, a text, or a list of events or lines; null for none, missing when it is in a file or left out."},
			{Name: "file", Type: spec.Object, Doc: "{path, size, sha256, content_type} of a body in a file."},
			{Name: "job", Type: spec.Any, Doc: "What identified the job, with `poll`."},
			{Name: "metrics", Type: spec.Object, Doc: "{attempt, bytes_sent, bytes_received, first_byte_ms, duration_ms, request_id} and, where the response tells, model, tokens, audio_seconds and cost."},
		},
		Examples: []spec.Example{
			{Title: "read a value", YAML: "id: rate\naction: util.http\nparams:\n  url: https://api.example.com/rates\n  query: {base: EUR}\n" +
				"  outputs:\n    usd: {value: body.rates.USD, type: number, required: true}"},
			{Title: "send a recording for transcription", YAML: "id: transcribe\naction: util.http\ntimeout_seconds: 900\nparams:\n" +
				"  url: https://api.example.com/v1/audio/transcriptions\n  headers: {Authorization: \"Bearer {{ secrets.speech }}\"}\n" +
				"  multipart:\n    - {name: model, value: large}\n    - {name: file, file: lesson.mp3}\n" +
				"  success_if: status == 200 and body.error is not defined\n  outputs: {text: body.text}"},
			{Title: "a job that takes its time", YAML: "id: render\naction: util.http\nparams:\n  url: https://render.example.com/jobs\n" +
				"  json: {scene: intro}\n  poll:\n    job: body.id\n    url: \"https://render.example.com/jobs/{{ job }}\"\n" +
				"    until: body.state == 'done'\n    fail_if: body.state == 'failed'\n    deadline: 6h"},
			{Title: "a service that calls back", YAML: "id: transcode\naction: util.http\nparams:\n  url: https://media.example.com/jobs\n" +
				"  json: {file: intro.mp4, notify: \"{{ callback.url }}\"}\n  callback: {timeout_seconds: 7200}"},
		},
	}
}

const httpDoc = `At most one of ` + "`json`, `form`, `multipart`, `file` and `text`" + ` is the body. Expressions over a response, with or
without {{ }}, see ` + "`status`, `headers` (by lower-case name), `body`, `url` and all of them in `response`" + `.

| response | outputs |
|---|---|
| json | the value; a text that ends early is tried again, anything else is a failure for good |
| text | the text, in UTF-8 |
| file | nothing in ` + "`body`" + `; the bytes are in ` + "`path`" + ` |
| events | the list of server-sent events {event, id, data}, data as a value if it is JSON; ` + "`[DONE]`" + ` ends it |
| lines | the list of values, one of each line (NDJSON) |
| none | nothing; the body is not read |

| what happens | what the step does |
|---|---|
| 408, 425, 429, 502, 503, 520 to 529, dns, connect, timeout, reset, truncated, protocol, result | another attempt, as the retry policy says |
| 500, 504 | another attempt, only once |
| 429 and 503 with Retry-After, in seconds or as a date | put back until then without using up an attempt: at most an hour at a time, for at most a day in all; after that each answer uses up an attempt |
| the host is busy by our own limits, or fails so often that it is left alone | put back in the same way |
| any other status; blocked, tls, limit, content | fails for good |

The kinds: dns (no address), connect, tls (no trust), timeout, reset (the connection ended before the response), truncated (the
response ended early), protocol (no HTTP), blocked (an address or redirect that is not allowed), limit (a size or a number of redirects), content (not
what it should be), result (` + "`success_if`, `fail_if`" + `, a missing or mistyped output). Any method is tried again: the header Idempotency-Key, the same in
all attempts, lets the server tell. With ` + "`callback`" + ` the
step ends with the outputs that it is called back with, and holds no worker until then; to be called back with a failure ends the attempt. Redirects never lead from https to http, take credentials or a body to another origin, or
reach an address inside the network.

With ` + "`poll`" + ` the job is recorded before it is asked about, and between questions the step holds no worker. A crash or another attempt goes on
asking; only a job that failed is submitted again. Once ` + "`deadline`" + ` has passed the step fails for good.`
