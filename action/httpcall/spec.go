package httpcall

import (
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// httpSpec describes util.http. It is long because it is a table.
func httpSpec() spec.Spec {
	return spec.Spec{
		Name:        "util.http",
		Summary:     "Calls an HTTP service.",
		Doc:         httpDoc,
		Timeout:     5 * time.Minute,
		Retry:       &stepwell.Retry{MaxAttempts: 3, Backoff: time.Second, MaxBackoff: time.Minute, Jitter: 0.5},
		Params:      spec.FieldsOf[params](),
		OpenOutputs: true,
		Places:      []string{"path", "spill"},
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
| json | the value; a text that ends early is retried, anything else is a failure for good |
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
| any other status; blocked, tls, limit, content | fails permanently |

The kinds: dns (no address), connect, tls (no trust), timeout, reset (the connection ended before the response), truncated (the
response ended early), protocol (no HTTP), blocked (an address or redirect that is not allowed), limit (a size or a number of redirects), content (not
what it should be), result (` + "`success_if`, `fail_if`" + `, a missing or mistyped output). Any method is retried: the header Idempotency-Key, the same in
all attempts, lets the server tell. With ` + "`callback`" + ` the
step ends with the outputs that it is called back with, and holds no worker until then; to be called back with a failure ends the attempt. Redirects never lead from https to http, take credentials or a body to another origin, or
reach an address inside the network.

With ` + "`poll`" + ` the job is recorded before it is asked about, and between questions the step holds no worker. A crash or another attempt continues
asking; only a job that failed is submitted again. Once ` + "`deadline`" + ` has passed the step fails permanently.`
