package fakeai

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

func serve(t *testing.T, o Options) string {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server.URL
}

// ask sends a request and returns the status, the headers and the body.
func ask(t *testing.T, method, url, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		raw = append(raw, []byte("… "+err.Error())...)
	}
	return resp.StatusCode, resp.Header, string(raw)
}

type answer struct {
	Model   string
	Choices []struct {
		Message struct {
			Content   string
			ToolCalls []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Delta        struct{ Content string }
		FinishReason string `json:"finish_reason"`
	}
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	}
}

func read(t *testing.T, body string) (a answer) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%v: %.300s", err, body)
	}
	return a
}

func TestChat(t *testing.T) {
	url := serve(t, Options{}) + "/v1/chat/completions"
	const question = `{"model": "m", "messages": [{"role": "user", "content": "What is a leaf?"}]}`
	status, header, first := ask(t, "POST", url, question)
	_, _, second := ask(t, "POST", url, question)
	a := read(t, first)
	if status != 200 || first != second || !strings.Contains(a.Choices[0].Message.Content, "What is a leaf?") || a.Choices[0].FinishReason != "stop" || header.Get("X-Request-Id") != "fake-1" {
		t.Errorf("%d %v %s, then %s", status, header, first, second)
	}
	if a.Usage.Prompt != 4 || a.Usage.Completion == 0 || a.Usage.Total != a.Usage.Prompt+a.Usage.Completion {
		t.Errorf("usage %+v", a.Usage)
	}
	if _, _, other := ask(t, "POST", url, strings.Replace(question, "leaf", "root", 1)); other == first {
		t.Error("another question has the same answer")
	}
	_, _, short := ask(t, "POST", url, strings.Replace(question, `"m"`, `"m", "max_tokens": 2`, 1))
	if a := read(t, short); a.Choices[0].FinishReason != "length" || a.Usage.Completion > 2 {
		t.Errorf("cut: %+v", a)
	}
	for body, want := range map[string]int{`{`: 400, `{"messages": [{}]}`: 400, `{"model": "m"}`: 400, strings.Repeat("x", maxBody+1): 413} {
		if status, _, text := ask(t, "POST", url, body); status != want || !strings.Contains(text, `"error"`) {
			t.Errorf("%.20s: %d %s", body, status, text)
		}
	}
}

func TestStream(t *testing.T) {
	url := serve(t, Options{}) + "/v1/chat/completions"
	const members = `"model": "m", "messages": [{"role": "user", "content": "A long question about leaves, roots and light"}]`
	_, _, whole := ask(t, "POST", url, "{"+members+"}")
	_, header, text := ask(t, "POST", url, `{"stream": true, "stream_options": {"include_usage": true}, `+members+"}")
	var got strings.Builder
	var last answer
	end := ""
	for line := range strings.Lines(text) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		last = read(t, data)
		for _, c := range last.Choices {
			got.WriteString(c.Delta.Content)
			end += c.FinishReason
		}
	}
	words := strings.SplitN(read(t, whole).Choices[0].Message.Content, ":", 2)[1] // before it stands the hash of the request
	if !strings.HasSuffix(got.String(), words) || end != "stop" || !strings.HasSuffix(text, "data: [DONE]\n\n") || header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%q, %q\n%s", got.String(), end, text)
	}
	if len(last.Choices) != 0 || last.Usage.Total == 0 {
		t.Errorf("the last piece is %+v", last)
	}
}

func TestTools(t *testing.T) {
	url := serve(t, Options{}) + "/v1/chat/completions"
	for body, called := range map[string]bool{
		`"messages": [{"role": "user", "content": "call weather"}]`:                                          true,
		`"messages": [{"role": "user", "content": "hello"}]`:                                                 false,
		`"messages": [{"role": "user", "content": "hello"}], "tool_choice": "required"`:                      true,
		`"messages": [{"role": "user", "content": "weather"}], "tool_choice": "none"`:                        false,
		`"messages": [{"role": "user", "content": "x"}], "tool_choice": {"function": {"name": "weather"}}`:   true,
		`"messages": [{"role": "user", "content": "weather"}, {"role": "tool", "content": "it is raining"}]`: false,
	} {
		_, _, text := ask(t, "POST", url, `{"model": "m", "tools": [{"type": "function", "function": {"name": "weather",
			"parameters": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}}}], `+body+"}")
		a := read(t, text).Choices[0]
		if calls := a.Message.ToolCalls; (len(calls) == 1) != called || called && (calls[0].Function.Name != "weather" || !strings.Contains(calls[0].Function.Arguments, `"city":"`) || a.FinishReason != "tool_calls") {
			t.Errorf("%s: %s", body, text)
		}
	}
}

// TestFitting has the JSON Schema library judge what is made up.
func TestFitting(t *testing.T) {
	for _, schema := range []string{
		`true`, `{}`, `{"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "integer", "minimum": 7}}}`,
		`{"type": "array", "minItems": 3, "maxItems": 5, "uniqueItems": true, "items": {"type": "string", "minLength": 40}}`,
		`{"$ref": "#/$defs/q", "$defs": {"q": {"type": "object", "properties": {"more": {"type": "array", "items": {"$ref": "#/$defs/q"}}}, "additionalProperties": false}}}`,
		`{"anyOf": [false, {"const": 3}]}`, `{"oneOf": [{"type": "string", "pattern": "^[a-f]{3}-(x|y)+$"}, {"type": "integer"}]}`,
		`{"allOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"b": {"enum": ["x"]}}}], "type": "object"}`,
		`{"type": ["null", "number"], "exclusiveMinimum": 1, "multipleOf": 0.5, "maximum": 2}`, `{"type": "string", "maxLength": 2}`, `{"type": "null"}`, `{"type": "boolean"}`,
		`{"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string", "format": "date-time"}], "items": false}`,
	} {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("urn:x", doc); err != nil {
			t.Fatal(err)
		}
		var plain any
		if err := json.Unmarshal([]byte(schema), &plain); err != nil {
			t.Fatal(err)
		}
		text, err := fitting(plain, "1234")
		if err != nil {
			t.Errorf("%s: %v", schema, err)
			continue
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err == nil {
			err = c.MustCompile("urn:x").Validate(v)
		}
		if err != nil {
			t.Errorf("%s: %s: %v", schema, text, err)
		}
	}
	for _, schema := range []any{false, map[string]any{"type": "nothing"}, map[string]any{"$ref": "https://example.com/schema"}, map[string]any{"$ref": "#"},
		map[string]any{"type": "array", "minItems": 1e9}, map[string]any{"type": "string", "pattern": "(?!a)b"}, map[string]any{"type": "string", "minLength": 1e12}} {
		if text, err := fitting(schema, "1234"); err == nil {
			t.Errorf("%v: %.100s", schema, text)
		}
	}
}

func send(t *testing.T, url, name string, content []byte, fields map[string]string) (int, string) {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for k, v := range fields {
		_ = w.WriteField(k, v)
	}
	if name != "" {
		part, _ := w.CreateFormFile("file", name)
		_, _ = part.Write(content)
	}
	_ = w.Close()
	status, _, text := ask(t, "POST", url+"/v1/audio/transcriptions", body.String(), "Content-Type", w.FormDataContentType(), "Authorization", "Bearer sk-never-shown")
	return status, text
}

func TestTranscribe(t *testing.T) {
	url := serve(t, Options{})
	sound := bytes.Repeat([]byte("sound!"), 40_000) // 15 seconds
	var got struct {
		Text     string
		Duration float64
		Language string
		Segments []struct {
			Start, End float64
			Text       string
		}
		Usage struct{ Seconds float64 }
	}
	status, text := send(t, url, "lesson.mp3", sound, map[string]string{"model": "w", "response_format": "verbose_json", "language": "de"})
	if err := json.Unmarshal([]byte(text), &got); err != nil || status != 200 {
		t.Fatalf("%d %s: %v", status, text, err)
	}
	if !strings.HasPrefix(got.Text, "This is lesson.mp3, 240000 bytes, ") || got.Duration != 15 || got.Usage.Seconds != 15 || len(got.Segments) != 3 || got.Segments[2].End != 15 || got.Language != "german" {
		t.Errorf("%+v", got)
	}
	for format, want := range map[string]string{"text": "This is lesson.mp3", "srt": "1\n00:00:00,000 --> 00:00:05,000\nThis is", "vtt": "WEBVTT\n\n00:00:00.000 -->", "json": `{"text":"This is`} {
		if status, text := send(t, url, "lesson.mp3", sound, map[string]string{"model": "w", "response_format": format}); status != 200 || !strings.HasPrefix(text, want) {
			t.Errorf("%s: %d %s", format, status, text)
		}
	}
	if status, text := send(t, url, "", nil, map[string]string{"model": "w"}); status != 400 || !strings.Contains(text, "file is missing") {
		t.Errorf("no file: %d %s", status, text)
	}
	if status, _ := send(t, url, "a", sound, map[string]string{"model": strings.Repeat("w", maxField+1)}); status != 400 {
		t.Errorf("a large field: %d", status)
	}
	_, _, asked := ask(t, "GET", url+"/requests", "")
	if !strings.Contains(asked, `"name":"lesson.mp3","bytes":240000,"sha256":"`) || strings.Contains(asked, "never-shown") || !strings.Contains(asked, `"authorized":true`) {
		t.Errorf("asked: %s", asked)
	}
}

func TestFaults(t *testing.T) {
	url := serve(t, Options{Key: "k", Faults: "rate_limit=2,retry_after=0.5"})
	const question = `{"model": "m", "messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_object"}}`
	if status, _, _ := ask(t, "POST", url+"/v1/chat/completions", question); status != 401 {
		t.Errorf("without a key: %d", status)
	}
	say := func(query string, headers ...string) (int, http.Header, string) {
		return ask(t, "POST", url+"/v1/chat/completions"+query, question, append(headers, "Authorization", "Bearer k")...)
	}
	var statuses []int
	for range 4 {
		status, header, _ := say("")
		statuses = append(statuses, status)
		if (header.Get("Retry-After") == "0.5") != (status == 429) {
			t.Errorf("%d: %v", status, header)
		}
	}
	for range 3 {
		status, _, _ := say("", Header, "error=3")
		statuses = append(statuses, status)
	}
	if fmt.Sprint(statuses) != "[200 429 200 429 200 200 500]" {
		t.Errorf("statuses %v", statuses)
	}
	if _, _, text := say("?fault=invalid"); json.Valid([]byte(read(t, text).Choices[0].Message.Content)) {
		t.Errorf("it is valid: %s", text)
	}
	if _, header, _ := say("?fault=html"); header.Get("Content-Type") != "text/html" {
		t.Errorf("%v", header)
	}
	if _, _, text := say("?fault=cut"); !strings.Contains(text, "unexpected EOF") {
		t.Errorf("whole: %s", text)
	}
	began := time.Now()
	if _, _, _ = say("?fault=slow=100ms"); time.Since(began) < 100*time.Millisecond {
		t.Error("it was quick")
	}
	if status, _, text := say("?fault=typo"); status != 400 || !strings.Contains(text, "typo") {
		t.Errorf("%d %s", status, text)
	}
	if _, err := New(Options{Faults: "rate_limit=0"}); err == nil {
		t.Error("every 0th request")
	}
	for range maxKept {
		say("")
	}
	_, _, asked := ask(t, "GET", url+"/requests", "")
	if n := strings.Count(asked, `"number"`); n != maxKept {
		t.Errorf("%d requests are remembered", n)
	}
	if status, _, _ := ask(t, "DELETE", url+"/requests", ""); status != 204 {
		t.Errorf("%d", status)
	}
}

func TestRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, Options{}, out) }()
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "http://127.0.0.1:") {
		t.Fatalf("%q, %v", line, err)
	}
	if status, _, text := ask(t, "GET", strings.TrimSpace(line)+"/models", ""); status != 200 || !strings.Contains(text, `"fake-chat"`) {
		t.Errorf("%d %s", status, text)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
