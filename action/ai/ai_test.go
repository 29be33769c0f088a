package ai_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/action/ai"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/fakeai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type values = map[string]any

// key is the API key of every test; it may appear nowhere.
const key = "sk-never-shown-anywhere"

func named(t *testing.T, name string) action.Action {
	t.Helper()
	c, err := outbound.New(outbound.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Breaker: outbound.Breaker{Failures: -1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r := &action.Registry{}
	if err := ai.Register(r, c); err != nil {
		t.Fatal(err)
	}
	a, _ := r.Lookup(name)
	return *a
}

// fake is the base URL of a stand-in, and what it was asked.
func fake(t *testing.T) (url string, asked func() []fakeai.Asked) {
	t.Helper()
	s, err := fakeai.New(fakeai.Options{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server.URL + "/v1", func() []fakeai.Asked {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("GET", "/requests", nil))
		var got struct{ Requests []fakeai.Asked }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		return got.Requests
	}
}

func run(t *testing.T, name string, c actiontest.Call) actiontest.Result {
	t.Helper()
	if c.Params["model"] == nil {
		c.Params["model"] = "m"
	}
	if c.Params["key"] == nil {
		c.Params["key"] = key
	}
	r := actiontest.Run(t.Context(), named(t, name), c)
	for _, line := range r.Logs {
		if strings.Contains(line.Message, key) {
			t.Errorf("the key is logged: %s", line.Message)
		}
	}
	if r.Err != nil && strings.Contains(r.Err.Error()+stepwell.HintOf(r.Err), key) {
		t.Errorf("the key is in the error: %v", r.Err)
	}
	return r
}

func good(t *testing.T, r actiontest.Result) values {
	t.Helper()
	if r.Err != nil {
		t.Fatalf("%v (%s)", r.Err, stepwell.HintOf(r.Err))
	}
	return r.Outputs
}

func TestChat(t *testing.T) {
	url, asked := fake(t)
	out := good(t, run(t, "ai.chat", actiontest.Call{Params: values{"url": url + "/", "system": "Be short.", "prompt": "What is a leaf?", "temperature": 0.5, "max_tokens": 1000, "extra": values{"seed": 7, "temperature": nil}}}))
	text, _ := out["text"].(string)
	usage, _ := out["usage"].(values)
	if !strings.Contains(text, "What is a leaf?") || out["result"] != text || out["finish_reason"] != "stop" || out["model"] != "m" || out["request_id"] != "fake-1" {
		t.Errorf("outputs %v", out)
	}
	if usage["input_tokens"] != int64(7) || usage["output_tokens"].(int64) < 5 {
		t.Errorf("usage %v", usage)
	}
	r := asked()[0]
	const want = `{"max_tokens":1000,"messages":[{"content":"Be short.","role":"system"},{"content":"What is a leaf?","role":"user"}],"model":"m","seed":7}`
	if string(r.Body) != want || !r.Authorized || r.Idempotency != "execution/ai.chat" {
		t.Errorf("asked %+v %s", r, r.Body)
	}
	streamed := good(t, run(t, "ai.chat", actiontest.Call{Params: values{"url": url, "prompt": values{"question": "A leaf"}, "stream": true}}))
	if text, _ := streamed["result"].(string); !strings.Contains(text, `{"question":"A leaf"}`) || streamed["usage"].(values)["output_tokens"].(int64) < 5 || streamed["finish_reason"] != "stop" {
		t.Errorf("streamed %v", streamed)
	}
}

func TestChatTools(t *testing.T) {
	url, _ := fake(t)
	tools := []any{values{"type": "function", "function": values{"name": "weather", "parameters": values{"type": "object", "required": []any{"city"}, "properties": values{"city": values{"type": "string"}}}}}}
	for _, stream := range []bool{false, true} {
		out := good(t, run(t, "ai.chat", actiontest.Call{Params: values{"url": url, "prompt": "call weather", "tools": tools, "stream": stream, "schema": values{"type": "integer"}}}))
		calls, _ := out["tool_calls"].([]any)
		if len(calls) != 1 || out["finish_reason"] != "tool_calls" || out["result"] != nil {
			t.Fatalf("stream %t: %v", stream, out)
		}
		call := calls[0].(values)
		if call["name"] != "weather" || call["id"] == "" || call["arguments"].(values)["city"] == nil {
			t.Errorf("stream %t: call %v", stream, call)
		}
	}
}

var quiz = values{"type": "object", "required": []any{"questions"}, "additionalProperties": false,
	"properties": values{"questions": values{"type": "array", "minItems": 2, "items": values{"type": "string"}}}}

// TestChatSchema has two answers that do not fit: each attempt quotes the last one and says what is wrong with it, and
// has used tokens.
func TestChatSchema(t *testing.T) {
	for _, as := range []string{"json_schema", "json_object"} {
		url, asked := fake(t)
		memory := map[string]json.RawMessage{}
		call := func(attempt int) actiontest.Result {
			return run(t, "ai.chat", actiontest.Call{Attempt: attempt, Memory: memory, Params: values{"url": url + "?fault=invalid=2", "prompt": "Ten questions", "schema": quiz, "schema_as": as}})
		}
		for attempt, complaint := range []string{"it is not JSON", "at /: missing propert"} {
			r := call(attempt + 1)
			if r.Err == nil || action.IsFail(r.Err) || !strings.Contains(r.Err.Error(), "the answer does not fit the schema: "+complaint) {
				t.Fatalf("attempt %d: %v", attempt+1, r.Err)
			}
			if used := string(action.UsedBy(r.Err)); !strings.Contains(used, `{"usage":{"input_tokens":`) || strings.Contains(used, `_tokens":0`) {
				t.Errorf("attempt %d used %s", attempt+1, used)
			}
		}
		r := call(3)
		if as == "json_object" { // of which the stand-in knows no schema
			if r.Err == nil || !strings.Contains(r.Err.Error(), "missing propert") {
				t.Errorf("%s: %v", as, r.Err)
			}
			continue
		}
		if questions, _ := good(t, r)["result"].(values)["questions"].([]any); len(questions) != 2 {
			t.Errorf("result %v", r.Outputs)
		}
		list := asked()
		body := string(list[2].Body)
		if len(list) != 3 || strings.Count(body, "That answer does not fit the JSON Schema: at /: missing propert") != 1 || strings.Count(body, `\"not_what_was_asked_for\": 2`) != 1 {
			t.Errorf("the third request is %s", body)
		}
		if list[0].Idempotency == list[1].Idempotency || list[1].Idempotency == list[2].Idempotency {
			t.Errorf("another question has the same key: %s", list[1].Idempotency)
		}
	}
}

// answers runs one attempt against a service that answers so.
func answers(t *testing.T, p values, header http.Header, status int, body string) actiontest.Result {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for name := range header {
			w.Header().Set(name, header.Get(name))
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	p["url"], p["prompt"] = server.URL, "x"
	return run(t, "ai.chat", actiontest.Call{Params: p})
}

func TestChatAnswers(t *testing.T) {
	choice := func(message string) string {
		return `{"choices": [{"message": ` + message + `, "finish_reason": "stop"}]}`
	}
	for name, c := range map[string]struct {
		p      values
		body   string
		result any    // of a success
		err    string // of a failure
		fail   bool   // for good
	}{
		"fenced":        {values{"schema": values{}}, choice(`{"content": "` + "```json\\n{\\\"a\\\": 1}\\n```" + `"}`), values{"a": int64(1)}, "", false},
		"parts":         {values{}, choice(`{"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}`), "ab", "", false},
		"empty":         {values{}, choice(`{"content": null}`), "", "", false},
		"echoed key":    {values{}, choice(`{"content": "your key is ` + key + `"}`), "your key is ***", "", false},
		"refusal":       {values{}, choice(`{"refusal": "No."}`), nil, "the model refused: No.", true},
		"no choices":    {values{}, `{"error": {"message": "overloaded"}}`, nil, "it has no choices (overloaded)", false},
		"no message":    {values{}, `{"choices": [1]}`, nil, "no message", false},
		"a list":        {values{}, `[1, 2]`, nil, "no choices", false},
		"not JSON":      {values{}, `<html>`, nil, "not JSON", true},
		"half":          {values{}, `{"choices": [`, nil, "ends early", false},
		"empty as data": {values{"schema": values{}}, choice(`{"content": ""}`), nil, "it is empty", false},
		"deep as data":  {values{"schema": values{}}, choice(`{"content": "` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `"}`), nil, "it is not JSON", false},
		"no stream":     {values{"stream": true}, "", nil, "the stream ended before the answer did", false},
		"stream error":  {values{"stream": true}, "data: {\"error\": {\"message\": \"overloaded\"}}\n\n", nil, "overloaded", false},
		"stream ends":   {values{"stream": true}, "data: {\"choices\": [{\"delta\": {\"content\": \"a\"}}]}\n\n", nil, "ended before", false},
	} {
		r := answers(t, c.p, nil, 200, c.body)
		switch {
		case c.err == "" && r.Err != nil:
			t.Errorf("%s: %v", name, r.Err)
		case c.err == "" && mustJSON(r.Outputs["result"]) != mustJSON(c.result):
			t.Errorf("%s: %v", name, r.Outputs)
		case c.err != "" && (r.Err == nil || !strings.Contains(r.Err.Error(), c.err) || action.IsFail(r.Err) != c.fail):
			t.Errorf("%s: %v, for good: %t", name, r.Err, action.IsFail(r.Err))
		}
	}
	limited := answers(t, values{}, http.Header{"Retry-After": {"7"}}, 429, `{"error": {"message": "key `+key+`"}}`)
	if again, ok := limited.Err.(*action.RetryError); !ok || !again.Defer || again.After.Seconds() != 7 || action.UsedBy(limited.Err) != nil {
		t.Errorf("rate limit: %v", limited.Err)
	}
}

func mustJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// TestHostile meets answers that no client should choke on; all of them are bounded.
func TestHostile(t *testing.T) {
	url, _ := fake(t)
	for _, stream := range []bool{false, true} {
		for fault, want := range map[string][2]string{"huge": {"larger than", "larger than"}, "endless": {"larger than", "larger than"}, "html": {"not JSON", "stream ended"},
			"deep": {"not JSON", "stream ended"}, "cut": {"unexpected EOF", "unexpected EOF"}} {
			want := map[bool]string{false: want[0], true: want[1]}[stream]
			r := run(t, "ai.chat", actiontest.Call{Params: values{"url": url + "?fault=" + fault, "prompt": "x", "stream": stream}})
			if r.Err == nil || len(r.Err.Error()) > 3000 || !strings.Contains(r.Err.Error(), want) {
				t.Errorf("%s, stream %t: %v", fault, stream, r.Err)
			}
		}
	}
}

func TestProblems(t *testing.T) {
	for text, p := range map[string]values{
		"neither prompt nor messages": {},
		"messages[0] has no role":     {"messages": []any{"x"}},
		"tools[0] has no type":        {"prompt": "x", "tools": []any{values{}}},
		"schema is not a JSON Schema": {"prompt": "x", "schema": values{"type": "text"}},
		"only its own parts":          {"prompt": "x", "schema": values{"$ref": "file:///etc/passwd"}},
		"it is not an object":         {"prompt": "x", "schema": []any{}},
	} {
		p["url"] = "http://127.0.0.1:1/v1"
		r := run(t, "ai.chat", actiontest.Call{Params: p})
		if r.Err == nil || !strings.Contains(r.Err.Error(), text) {
			t.Errorf("%v, want %q", r.Err, text)
		}
	}
}

func TestTranscribe(t *testing.T) {
	url, asked := fake(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "lesson.mp3"), make([]byte, 160_000), 0o600); err != nil {
		t.Fatal(err)
	}
	transcribe := func(p values) actiontest.Result {
		p["url"], p["file"] = url, "lesson.mp3"
		return run(t, "ai.transcribe", actiontest.Call{Dir: dir, Params: p})
	}
	out := good(t, transcribe(values{"language": "en", "prompt": "Photosynthesis", "temperature": 0.1, "extra": values{"timestamp_granularities[]": []any{"word", "segment"}}}))
	segments, _ := out["segments"].([]any)
	text, _ := out["result"].(string)
	if !strings.HasPrefix(text, "This is lesson.mp3, 160000 bytes") || out["text"] != text || len(segments) != 2 || out["duration"] != int64(10) || out["usage"].(values)["seconds"] != int64(10) || out["language"] != "english" {
		t.Errorf("outputs %v", out)
	}
	if form := asked()[0].Form; form["language"] != "en" || form["prompt"] != "Photosynthesis" || form["temperature"] != "0.1" || form["timestamp_granularities[]"] != "segment" || form["response_format"] != "verbose_json" {
		t.Errorf("form %v", form)
	}
	if out := good(t, transcribe(values{"format": "srt", "filename": "other.mp3"})); !strings.HasPrefix(out["result"].(string), "1\n00:00:00,000") || !strings.Contains(out["result"].(string), "other.mp3") {
		t.Errorf("subtitles %v", out)
	}
	if r := run(t, "ai.transcribe", actiontest.Call{Dir: dir, Params: values{"url": url, "file": "none.mp3"}}); !action.IsFail(r.Err) || stepwell.CodeOf(r.Err) != stepwell.CodeNotFound {
		t.Errorf("no file: %v", r.Err)
	}
	if r := run(t, "ai.transcribe", actiontest.Call{Dir: dir, Params: values{"url": url + "?fault=html", "file": "lesson.mp3"}}); !action.IsFail(r.Err) {
		t.Errorf("a web page: %v", r.Err)
	}
}
