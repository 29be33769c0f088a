package httpcall

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/action/outbound/outboundtest"
	"github.com/stepwell/stepwell/expr"
)

// serving is a server with one answer.
func serving(t testing.TB, kind, body string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{kind}
		io.WriteString(w, body) //nolint:errcheck // a test's server
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestResponses(t *testing.T) {
	for _, test := range []struct {
		as, kind, body string
		want           any
	}{
		{"auto", "application/json", `{"a": [1, 2.5, 12345678901234567890123]}`, values{"a": []any{int64(1), 2.5, json.Number("12345678901234567890123")}}},
		{"auto", "application/problem+json; charset=utf-8", "\xef\xbb\xbf[]", []any{}},
		{"auto", "application/json", "", nil},
		{"auto", "text/plain", `{"a": 1}`, `{"a": 1}`},
		{"auto", "text/plain; charset=iso-8859-1", "caf\xe9", "café"},
		{"auto", "", "plain", "plain"},
		{"auto", "bad type;;", "plain", "plain"},
		{"auto", "application/x-ndjson", "{\"a\": 1}\n\n2\r\n\"x\"", []any{values{"a": int64(1)}, int64(2), "x"}},
		{"json", "text/html", "[1]", []any{int64(1)}},
		{"text", "application/json", "[1]", "[1]"},
		{"text", "text/plain", "\xff", "\ufffd"},
		{"lines", "text/plain", "", []any{}},
		{"none", "text/plain", "x", nil},
		{"events", "text/plain", "id: 7\ndata: a\ndata: b\n\ndata: 3\n\ndata: cut", []any{values{"event": "message", "id": "7", "data": "a\nb"}, values{"event": "message", "id": "7", "data": int64(3)}}},
	} {
		out := good(t, run(t, values{"url": serving(t, test.kind, test.body), "response": test.as}))
		if diff := cmp.Diff(test.want, out["body"]); diff != "" {
			t.Errorf("%s of %s %q (-want +got):\n%s", test.as, test.kind, test.body, diff)
		}
	}
	for body, again := range map[string]bool{"{\"a\": 1}\n{\"b\": ": true, "{\"a\": 1}\nnonsense\n{}\n": false} {
		got := run(t, values{"url": serving(t, "application/x-ndjson", body)})
		if got.Err == nil || action.IsFail(got.Err) == again || !strings.Contains(got.Err.Error(), "line 2") {
			t.Errorf("%q: %v", body, got.Err)
		}
	}
	if got := run(t, values{"url": serving(t, "text/plain", ""), "response": "json"}); action.IsFail(got.Err) || got.Err == nil {
		t.Errorf("empty JSON: %v", got.Err)
	}
}

// TestEvents ends at [DONE] although the connection stays open, and finds the usage in the last event.
func TestEvents(t *testing.T) {
	s := outboundtest.New(t)
	out := good(t, run(t, values{"url": s.URL + "/events", "include_body": true,
		"outputs": values{"text": "{{ body | selectattr('event', 'equalto', 'delta') | map(attribute='data.text') | join('') }}"}}))
	if out["text"] != "Hello" || len(out["body"].([]any)) != 3 {
		t.Errorf("%v", out)
	}
	if diff := cmp.Diff(values{"input": int64(7), "output": int64(2), "cached": int64(0), "reasoning": int64(0)}, at(out, "metrics", "tokens")); diff != "" {
		t.Error(diff)
	}
}

func TestFileAndSpill(t *testing.T) {
	dir := t.TempDir()
	a := named(t, registry(t, outbound.Options{}), "util.http")
	content := strings.Repeat("0123456789", 1000)
	call := func(p values) actiontest.Result {
		return actiontest.Run(t.Context(), a, actiontest.Call{Params: p, Dir: dir})
	}
	out := good(t, call(values{"url": serving(t, "audio/mpeg", content), "response": "file", "path": "sub/out.mp3"}))
	want := values{"path": filepath.Join(dir, "sub/out.mp3"), "size": int64(10000), "content_type": "audio/mpeg", "sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(content)))}
	got := out["file"].(values)
	if _, there := out["body"]; there {
		t.Error("the body is among the outputs")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "sub/out.mp3")); err != nil || string(raw) != content {
		t.Errorf("%d bytes, %v", len(raw), err)
	}

	out = good(t, call(values{"url": serving(t, "application/json", `["`+content+`"]`), "spill": "big.json", "max_bytes": 100}))
	if raw, err := os.ReadFile(filepath.Join(dir, "big.json")); err != nil || string(raw) != `["`+content+`"]` || at(out, "file", "size") != int64(10004) {
		t.Errorf("%v, %v", out, err)
	}
	out = good(t, call(values{"url": serving(t, "application/json", `[1]`), "spill": "small.json"}))
	if _, err := os.Stat(filepath.Join(dir, "small.json")); err == nil || out["file"] != nil || out["body"] == nil {
		t.Errorf("what fits is spilt: %v", out)
	}
	out = good(t, call(values{"url": serving(t, "application/pdf", "\xff\x00"), "spill": "a.pdf"}))
	if at(out, "file", "size") != int64(2) {
		t.Errorf("binary: %v", out)
	}
	out = good(t, call(values{"url": serving(t, "a/b", "x") + "/some/name.bin?x=1", "response": "file"}))
	if at(out, "file", "path") != filepath.Join(dir, "name.bin") {
		t.Errorf("named by the URL: %v", out)
	}

	s := outboundtest.New(t)
	for path, max := range map[string]int{"/endless": 1 << 20, "/half": 1 << 20, "/error": 1 << 20, "/bomb": 1 << 30} {
		got := call(values{"url": s.URL + path, "response": "file", "path": "never", "max_bytes": max, "success_if": "status == 200 and '" + path + "' != '/error'"})
		if got.Err == nil {
			t.Errorf("%s succeeded", path)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	hiddenLeft, herr := filepath.Glob(filepath.Join(dir, ".*"))
	if err = errors.Join(err, herr); err != nil || len(left) != 4 || len(hiddenLeft) != 0 {
		t.Errorf("left behind: %v %v, %v", left, hiddenLeft, err)
	}
}

func TestNamedOutputs(t *testing.T) {
	body := `{"choices": [{"message": {"content": "hi", "n": 3.0}}], "odd key": {"x-y": [1, 2]}, "none": null}`
	out := good(t, run(t, values{"url": serving(t, "application/json", body), "outputs": values{
		"text":    values{"value": "body.choices[0].message.content", "type": "string", "required": true},
		"n":       values{"value": "body.choices[0].message.n", "type": "integer"},
		"odd":     "body['odd key']['x-y'][1]",
		"missing": "body.nothing.here",
		"null":    "body.none",
		"code":    "status",
		"kind":    "{{ headers['content-type'] }}",
		"line":    "got {{ response.status }} of {{ body.choices | length }}",
		"whole":   "response.body.choices",
	}}))
	want := values{"text": "hi", "n": int64(3), "odd": int64(2), "null": nil, "code": int64(200), "kind": "application/json", "line": "got 200 of 1",
		"whole": []any{values{"message": values{"content": "hi", "n": int64(3)}}}}
	for _, name := range []string{"status", "headers", "metrics"} {
		if out[name] == nil {
			t.Errorf("no %s", name)
		}
		delete(out, name)
	}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestUsage(t *testing.T) {
	for body, want := range map[string]values{
		`{"model": "gpt-4o-2024", "usage": {"prompt_tokens": 1000, "completion_tokens": 500, "prompt_tokens_details": {"cached_tokens": 400}, "completion_tokens_details": {"reasoning_tokens": 100}}}`: {"model": "gpt-4o-2024",
			"tokens": values{"input": int64(1000), "output": int64(500), "cached": int64(400), "reasoning": int64(100)}, "cost": 0.0085},
		`{"model": "claude", "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 2}}`: {"model": "claude",
			"tokens": values{"input": int64(10), "output": int64(5), "cached": int64(2), "reasoning": int64(0)}, "cost": 0.000015},
		`{"modelVersion": "gemini", "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4, "thoughtsTokenCount": 1}}`: {"model": "gemini",
			"tokens": values{"input": int64(3), "output": int64(4), "cached": int64(0), "reasoning": int64(1)}, "cost": 0.000007},
		`{"text": "hi", "usage": {"type": "duration", "seconds": 30}}`:               {"audio_seconds": int64(30), "cost": 3.0},
		`{"text": "hi", "duration": 2.5}`:                                            {"audio_seconds": 2.5, "cost": 0.25},
		`{"usage": {"prompt_tokens": -5, "completion_tokens": 1e300}, "model": [1]}`: {"cost": 0.0},
		`{"usage": [], "model": 7}`:                                                  {"cost": 0.0},
	} {
		prices := values{"gpt-4o": values{"input": 2.5, "cached": 5, "output": 10}, "gpt": values{"input": 100}, "*": values{"input": 1, "output": 1, "second": 0.1}}
		out := good(t, run(t, values{"url": serving(t, "application/json", body), "prices": prices}))
		got := out["metrics"].(values)
		for _, name := range []string{"attempt", "bytes_sent", "bytes_received", "first_byte_ms", "duration_ms", "request_id"} {
			delete(got, name)
		}
		if fmt.Sprint(got["cost"]) != fmt.Sprint(want["cost"]) || fmt.Sprint(got["tokens"]) != fmt.Sprint(want["tokens"]) || fmt.Sprint(got["model"], got["audio_seconds"]) != fmt.Sprint(want["model"], want["audio_seconds"]) {
			t.Errorf("%s:\n got %v\nwant %v", body, got, want)
		}
	}
}

// TestSecretsNowhere has a service that tells everything it hears, and fails in every way.
func TestSecretsNowhere(t *testing.T) {
	s := outboundtest.New(t)
	secrets := []string{"hunter2-password", "bearer-abcdef", "api-key-123", "query-secret-1"}
	base := strings.Replace(s.URL, "http://", "http://user:hunter2-password@", 1)
	for _, path := range []string{"/echo", "/reset", "/half", "/cut", "/status/401", "/status/503", "/inside", "/wrong", "/headers", "/busy"} {
		got := run(t, values{"url": base + path + "?token=query-secret-1", "headers": values{"Authorization": "Bearer bearer-abcdef", "X-Api-Key": "api-key-123"},
			"outputs": values{"heard": "body.headers.Authorization | default('')"}, "include_body": true, "success_if": "'bearer' is defined and status < 300"})
		if (got.Err == nil) != (path == "/echo") {
			t.Errorf("%s: %v", path, got.Err)
		}
		raw, err := json.Marshal(map[string]any{"outputs": got.Outputs, "memory": got.Memory, "logs": fmt.Sprint(got.Logs), "error": fmt.Sprint(got.Err, stepwell.HintOf(got.Err))})
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets {
			if bytes.Contains(raw, []byte(secret)) {
				t.Errorf("%s shows %s: %s", path, secret, raw)
			}
		}
		if path == "/echo" && !strings.Contains(fmt.Sprint(got.Outputs["heard"]), outbound.Hidden) {
			t.Errorf("the service did not hear it: %v", got.Outputs["heard"])
		}
	}
}

// TestLongLine reads one line of 16 MiB, and as many empty ones, in time that does not grow with the square.
func TestLongLine(t *testing.T) {
	for _, raw := range []string{"data: " + strings.Repeat("x", 16<<20) + "\n\n", strings.Repeat("\r", 16<<20) + "data: x\n\n"} {
		began, n := time.Now(), 0
		in := iotest.HalfReader(strings.NewReader(raw))
		if err := readEvents(in, 32<<20, func(event) bool { n++; return true }); err != nil || n != 1 {
			t.Errorf("%d events, %v", n, err)
		}
		if took := time.Since(began); took > time.Minute { // time that grows with the square would be far longer
			t.Errorf("took %s", took)
		}
	}
}

// FuzzEvents reads anything as server-sent events; what it finds, it finds again when it is written down.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "event: x\r\nid: 1\r\ndata: a\r\ndata:b\r\n\r\n", ": c\n\ndata\n\n", "\xef\xbb\xbfdata: 1\r\rdata: 2\n\n", "id: \x00\ndata: x\n\ndata: cut"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		read := func(raw []byte) (events []event) {
			if err := readEvents(bytes.NewReader(raw), 1<<20, func(e event) bool { events = append(events, e); return true }); err != nil {
				t.Fatal(err)
			}
			return events
		}
		if len(raw) > 1<<20 {
			return
		}
		first := read(raw)
		var b bytes.Buffer
		for _, e := range first {
			fmt.Fprintf(&b, "event: %s\nid: %s\ndata: %s\n\n", e.name, e.id, strings.ReplaceAll(e.data, "\n", "\ndata: "))
		}
		if second := read(b.Bytes()); fmt.Sprint(second) != fmt.Sprint(first) {
			t.Errorf("%q, then %q", first, second)
		}
	})
}

// FuzzOutputs takes any path from any body: a value, nothing, or an error, and a key is found by its name.
func FuzzOutputs(f *testing.F) {
	f.Add(`{"a": [1, {"b": null}]}`, "body.a[1].b", "a")
	f.Add(`[]`, "body[0].x | default(3)", "")
	f.Add(`"x"`, "{{ body }} and {{ status", "é")
	a := named(f, registry(f, outbound.Options{}), "util.http")
	f.Fuzz(func(t *testing.T, body, path, key string) {
		v, err := expr.Decode([]byte(body))
		if err != nil || len(path) > 1000 {
			return
		}
		outs, err := outputsOf(values{"x": path})
		if err != nil {
			return
		}
		answer := &answer{status: 200, header: http.Header{}, url: &url.URL{}, body: v, redact: outbound.NewRedactor(&url.URL{}, nil)}
		handler := action.HandlerFunc(func(_ context.Context, call *action.Call) (any, error) {
			into := values{}
			if err := answer.extract(call.Host, outs, into); err != nil && !action.IsFail(err) {
				if _, ok := errors.AsType[*outbound.Failure](err); !ok {
					t.Errorf("%v", err)
				}
			}
			quoted, err := json.Marshal(key)
			if err != nil {
				return nil, err
			}
			answer.body = values{key: "found"}
			if strings.ContainsAny(key, `\"{}%#`) || !json.Valid(quoted) || strings.Contains(string(quoted), `\`) {
				return nil, nil
			}
			got, err := action.Evaluate(call.Host, "body["+string(quoted)+"]", answer.scope())
			if err != nil || got != "found" {
				t.Errorf("%q: %v, %v", key, got, err)
			}
			return nil, nil
		})
		if r := actiontest.Run(t.Context(), action.Action{Spec: a.Spec, Handler: handler}, actiontest.Call{Params: values{"url": "http://x"}}); r.Err != nil {
			t.Fatal(r.Err)
		}
	})
}

// The tokens that an answer reports count against the host's budget: the next request has to wait.
func TestTokenBudget(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"usage": {"prompt_tokens": 50, "completion_tokens": 70}}`)
	}))
	defer s.Close()
	c, err := outbound.New(outbound.Options{AllowPrivate: true, PerHost: outbound.Limit{TokensPerMinute: 60}, MaxWait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var r action.Registry
	if err := Register(&r, c); err != nil {
		t.Fatal(err)
	}
	a, _ := r.Lookup("util.http")
	call := actiontest.Call{Params: map[string]any{"url": s.URL}}
	if first := actiontest.Run(t.Context(), *a, call); first.Err != nil {
		t.Fatal(first.Err)
	}
	second := actiontest.Run(t.Context(), *a, call)
	again, ok := errors.AsType[*action.RetryError](second.Err)
	if !ok || !again.Defer || again.After < 30*time.Second {
		t.Errorf("the second request was not put back for a minute: %v", second.Err)
	}
}
