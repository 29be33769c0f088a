package app_test

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/stream"
)

// odd is a secret of the vault with what JSON writes otherwise, and characters of one to four bytes.
const odd = "Oo8\"\\/\b\t<&>'é€😀\u2028{[$%+=~Zz"

// pemKey is one of several lines.
func pemKey() string {
	sum := sha512.Sum512([]byte("a key"))
	body := base64.StdEncoding.EncodeToString(slices.Concat(sum[:], sum[:32], sum[16:48]))
	var b strings.Builder
	b.WriteString("-----BEGIN PRIVATE KEY-----\n")
	for ; len(body) > 64; body = body[64:] {
		b.WriteString(body[:64] + "\n")
	}
	b.WriteString(body + "\n-----END PRIVATE KEY-----\n")
	return b.String()
}

// secretServer is a server, and everything that it has ever answered.
type secretServer struct {
	*serverRig
	dir string
	see *seen

	mu      sync.Mutex
	answers map[string]string
	outside *httptest.Server // what steps reach
	came    chan string      // the addresses of callbacks
}

func newSecretServer(t *testing.T) *secretServer {
	t.Helper()
	s := &secretServer{dir: t.TempDir(), see: &seen{values: map[string]any{}}, answers: map[string]string{}, came: make(chan string, 1)}
	s.outside = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at := r.Header.Get("X-Stepwell-Callback"); at != "" {
			s.came <- at
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":%q,"header":%q}`, r.URL.Query().Get("k"), r.Header.Get("Authorization"))
	}))
	t.Cleanup(s.outside.Close)
	log, err := os.Create(filepath.Join(s.dir, "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	s.serverRig = serve(t, filepath.Join(s.dir, "stepwell.db"), newGate(), func(o *app.ServerOptions) {
		o.Log = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.Register, o.Modules = s.see.register, []stream.Module{leakySource(), leakyModifier()}
		o.HTTP.AllowPrivate = true
		o.MaxExecutions = 50
	})
	return s
}

// ask asks the API, notes what it answers and gives it.
func (s *secretServer) ask(want int, method, path string, body any, header ...string) map[string]any {
	s.t.Helper()
	var raw []byte
	if body != nil {
		raw, _ = json.Marshal(body)
	}
	if !strings.HasPrefix(path, "http") {
		path = s.URL() + path
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, path, bytes.NewReader(raw))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if res.StatusCode != want {
		s.t.Fatalf("%s %s: %d, not %d: %.500s", method, path, res.StatusCode, want, text)
	}
	s.note(fmt.Sprint(method, " ", path, " ", len(s.answers)), fmt.Sprint(res.Header)+string(text))
	out := map[string]any{}
	if strings.Contains(res.Header.Get("Content-Type"), "json") && len(text) > 0 && text[0] == '{' {
		if err := json.Unmarshal(text, &out); err != nil {
			s.t.Fatal(err)
		}
	}
	return out
}

func (s *secretServer) note(what, answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[what] = answer
}

// follow reads the WebSocket of an execution until it is closed.
func (s *secretServer) follow(id string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	c, res, err := websocket.Dial(ctx, strings.Replace(s.URL(), "http", "ws", 1)+"/api/v1/executions/"+id+"/logs/stream", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if res.Body != nil {
		res.Body.Close()
	}
	c.SetReadLimit(64 << 20)
	for n := 0; ; n++ {
		_, text, err := c.Read(ctx)
		if err != nil {
			if n < 2 {
				s.t.Fatalf("%d messages: %v", n, err)
			}
			return
		}
		s.note(fmt.Sprint("WebSocket of ", id, " ", n), string(text))
		if strings.Contains(string(text), `"type":"complete"`) {
			_ = c.CloseNow()
			return
		}
	}
}

func (s *secretServer) field(m map[string]any, name string) string {
	s.t.Helper()
	text, ok := m[name].(string)
	if !ok || text == "" {
		s.t.Fatalf("%s is not in %v", name, m)
	}
	return text
}

// finished waits for an execution.
func (s *secretServer) finished(id, want string) {
	s.t.Helper()
	x, err := s.Conductor.Wait(s.t.Context(), id)
	if err != nil || x.Status.String() != want {
		s.t.Fatalf("%s is %v: %+v, %v", id, x.Status, x.Failure, err)
	}
}

const talkingDocument = `
name: talking
parameters:
  - {name: token, type: string, secret: true}
  - {name: count, type: integer, default: 1}
  - {name: tenant, type: string, default: none}
settings: {concurrency: {key: "{{ params.tenant }}", limit: 3}}
steps:
  - {id: ask, action: util.approval, params: {message: "May {{ secrets.odd }} go?", allow_comment: true}}
  - {id: arrived, action: util.wait_for, params: {event: order-7}}
  - {id: got, action: t.see, depends_on: [arrived], params: {value: "{{ steps.arrived.outputs.odd }}"}}
  - {id: call, action: util.http, params: {url: "URL/job", method: POST, json: {key: "{{ secrets.pem }}"}, callback: {timeout_seconds: 60}}}
  - {id: called, action: t.see, depends_on: [call], params: {value: "{{ steps.call.outputs.pem }}"}}
  - {id: said, action: t.see, depends_on: [ask], params: {value: "{{ steps.ask.outputs.comment }}"}}
  - {id: exec, action: util.exec, params: {command: [sh, -c, 'echo "$K"; echo "$K" >&2; echo "$O" | base64; echo "$K" | base64'], env: {K: "{{ secrets.pem }}", O: "{{ secrets.odd }}"}}}
  - {id: text, action: t.see, params: {value: "{{ {'pem': secrets.pem, 'odd': [secrets.odd]} | tojson }}"}}
  - {id: coded, action: t.see, params: {value: "{{ ('prefix ' ~ secrets.pem) | b64encode }} {{ secrets.odd | urlencode }}"}}
  - {id: fail, action: t.fail, on_failure: continue, params: {value: "{{ secrets.odd }}{{ secrets.pem }}"}}
`

// TestServerTellsNobody is the acceptance of secrets: whatever they pass through, neither the database and a copy of it,
// nor logs, reports and answers of the server hold them, while handlers get them whole.
func TestServerTellsNobody(t *testing.T) {
	s := newSecretServer(t)
	pem := pemKey()
	for name, value := range map[string]string{"api": vaulted, "odd": odd, "pem": pem} {
		s.ask(200, "PUT", "/api/v1/secrets/"+name, map[string]any{"value": value})
	}
	ids := []string{s.whole(), s.talk(pem)}
	ids = append(ids, s.triggered(pem)...)
	s.refused()
	for _, id := range ids {
		s.read(id)
	}
	for _, path := range []string{"/api/v1/executions", "/api/v1/pipelines", "/api/v1/pipelines/talking", "/api/v1/webhooks", "/api/v1/event-triggers", "/api/v1/secrets", "/api/v1/audit", "/api/v1/metrics",
		"/metrics", "/openapi.json", "/api/v1/approvals", "/api/v1/me", "/api/v1/scheduler/jobs"} {
		s.ask(200, "GET", path, nil)
	}
	if err := s.Store.Backup(t.Context(), filepath.Join(s.dir, "copy.db"), nil); err != nil {
		t.Fatal(err)
	}
	what := forms(vaulted, odd, pem, handed, strings.ToUpper(vaulted), strings.ToUpper(handed), vaulted[:12], odd[:10])
	for line := range strings.Lines(pem) {
		if !strings.HasPrefix(line, "-") {
			maps.Copy(what, forms(strings.TrimSpace(line)))
		}
	}
	but := []string{"out.ndjson", "stepwell.db.key"}
	search(t, s.dir, but, what) // with the WAL
	s.Drain()
	s.ended()
	search(t, s.dir, but, what)
	s.check(what, pem)
}

// check looks at what was answered, and at what handlers were given.
func (s *secretServer) check(what map[string]string, pem string) {
	s.t.Helper()
	hidden := 0
	for name, answer := range s.answers {
		hidden += strings.Count(answer, secret.Hidden)
		if strings.Contains(answer, "\u2983sealed") || strings.Contains(answer, `\u2983`) {
			s.t.Errorf("%s shows what is sealed: %.300s", name, answer)
		}
		for form, text := range what {
			if at := strings.Index(answer, text); at >= 0 {
				s.t.Errorf("%s holds the %.40q: …%q…", name, form, answer[max(0, at-60):min(len(answer), at+60)])
			}
		}
	}
	if len(s.answers) < 80 || hidden < 100 {
		s.t.Errorf("%d answers were searched, with %d secrets that are hidden", len(s.answers), hidden)
	}
	raw, err := os.ReadFile(filepath.Join(s.dir, "server.log"))
	if err != nil || bytes.Count(raw, []byte("\n")) < 3 {
		s.t.Errorf("the log is %s, %v", raw, err)
	}
	for _, file := range []string{"failures.json", "summary.json"} {
		if raw, err := os.ReadFile(filepath.Join(s.dir, file)); err != nil || file == "failures.json" && !bytes.Contains(raw, []byte(secret.Hidden)) {
			s.t.Errorf("%s: %.300s, %v", file, raw, err)
		}
	}
	for step, want := range map[string]any{"whole": vaulted, "given": "Bearer " + handed, "got": "of " + odd, "called": pem, "said": "because of " + odd + " and " + handed, "hooked": odd + pem, "evented": pem} {
		if got := s.see.values[step]; got != want {
			s.t.Errorf("%s was given %#v, not %#v", step, got, want)
		}
	}
}

// whole runs the document of the other tests, with its report.
func (s *secretServer) whole() string {
	s.t.Helper()
	doc := strings.ReplaceAll(secretsDocument, "URL", s.outside.URL)
	doc = strings.ReplaceAll(doc, "path: out.ndjson", "path: "+filepath.Join(s.dir, "out.ndjson"))
	doc += fmt.Sprintf("settings: {output_failures: %q, output_summary: %q}\n", filepath.Join(s.dir, "failures.json"), filepath.Join(s.dir, "summary.json"))
	s.ask(201, "POST", "/api/v1/pipelines", map[string]any{"document": doc})
	start := map[string]any{"workflow_id": "secretive", "params": map[string]any{"token": handed, "number": 4711004711, "open": "nothing"}}
	id := s.field(s.ask(201, "POST", "/api/v1/execute", start, "Idempotency-Key", "once"), "execution_id")
	if again := s.field(s.ask(200, "POST", "/api/v1/execute", start, "Idempotency-Key", "once"), "execution_id"); again != id {
		s.t.Errorf("the repetition started %s", again)
	}
	start["params"] = map[string]any{"token": handed + "x", "number": 4711004711}
	s.ask(409, "POST", "/api/v1/execute", start, "Idempotency-Key", "once")
	s.finished(id, "completed_with_failures")
	again := s.field(s.ask(201, "POST", "/api/v1/executions/"+id+"/retry", map[string]any{"from_step": "again"}), "execution_id")
	if x, err := s.Conductor.Wait(s.t.Context(), again); err != nil || !x.Status.Terminal() {
		s.t.Fatal(err)
	}
	s.read(again)
	return id
}

// talk answers what a pipeline asks for: a decision, an event and a callback.
func (s *secretServer) talk(pem string) string {
	s.t.Helper()
	s.ask(201, "POST", "/api/v1/pipelines", map[string]any{"document": strings.ReplaceAll(talkingDocument, "URL", s.outside.URL)})
	id := s.field(s.ask(201, "POST", "/api/v1/execute", map[string]any{"workflow_id": "talking", "params": map[string]any{"token": handed, "tenant": "of " + odd}}), "execution_id")
	var approval string
	s.until("the question", func() bool {
		list, _ := s.ask(200, "GET", "/api/v1/approvals", nil)["approvals"].([]any)
		if len(list) == 0 {
			return false
		}
		approval = s.field(list[0].(map[string]any), "approval_id")
		return true
	})
	s.ask(200, "GET", "/api/v1/approvals/"+approval, nil)
	s.ask(200, "GET", "/api/v1/executions/"+id+"/why", nil)
	s.ask(200, "POST", "/api/v1/events", map[string]any{"type": "order", "key": "order-7", "data": map[string]any{"odd": "of " + odd}})
	at := <-s.came
	s.ask(200, "POST", "/api/v1/approvals/"+approval+"/approve", map[string]any{"comment": "because of " + odd + " and " + handed})
	s.ask(200, "POST", at, map[string]any{"pem": pem})
	s.ask(200, "POST", at, map[string]any{"pem": pem + odd})
	s.finished(id, "completed_with_failures")
	return id
}

// triggered are executions that a webhook and an event start, with secrets in what they bring.
func (s *secretServer) triggered(pem string) (ids []string) {
	s.t.Helper()
	s.ask(201, "POST", "/api/v1/pipelines", map[string]any{"document": "name: hooked\nparameters: [{name: a, type: string}, {name: number, type: integer, default: 1}]\nsteps:\n" +
		"  - {id: hooked, action: t.see, params: {value: \"{{ params.a }}\"}}\n"})
	s.ask(201, "POST", "/api/v1/pipelines", map[string]any{"document": "name: evented\nparameters: [{name: event, type: object}]\nsteps:\n" +
		"  - {id: evented, action: t.see, params: {value: \"{{ params.event.data.key }}\"}}\n"})
	hook := s.ask(201, "POST", "/api/v1/webhooks", map[string]any{"name": "hook", "secret": "hook-secret-of-its-own", "callback": map[string]any{"workflow_id": "hooked"}, "headers_to_include": []string{"X-Odd"}})
	delete(s.answers, fmt.Sprint("POST ", s.URL(), "/api/v1/webhooks ", len(s.answers)-1)) // it shows the webhook's secret, once
	path := "/api/v1/webhooks/" + s.field(hook, "webhook_id") + "/trigger"
	known := []string{"X-Webhook-Secret", "hook-secret-of-its-own", "X-Odd", vaulted, "X-Webhook-Id", "first"}
	id := s.field(s.ask(201, "POST", path, map[string]any{"a": odd + pem}, known...), "execution_id")
	s.ask(200, "POST", path, map[string]any{"a": odd + pem}, known...)
	s.finished(id, "completed")
	known[5] = "second"
	s.ask(400, "POST", path, map[string]any{"a": "x", "number": odd}, known...) // quotes it, in last_error too
	s.ask(401, "POST", path, map[string]any{"a": "x"}, "X-Webhook-Secret", vaulted)
	s.ask(201, "POST", "/api/v1/event-triggers", map[string]any{"event_type": "key.*", "callback": map[string]any{"workflow_id": "evented"}})
	s.ask(400, "POST", "/api/v1/event-triggers", map[string]any{"event_type": "key.*", "callback": map[string]any{"action_type": "util.wait", "params": map[string]any{"seconds": odd}}})
	s.ask(201, "POST", "/api/v1/pipelines", map[string]any{"document": "name: numbered\nparameters: [{name: event, type: integer}]\nsteps:\n  - {id: a, action: util.noop}\n"})
	s.ask(201, "POST", "/api/v1/event-triggers", map[string]any{"event_type": "key.*", "callback": map[string]any{"workflow_id": "numbered"}}) // the event is no integer, and quoted
	got := s.ask(200, "POST", "/api/v1/events", map[string]any{"type": "key.made", "source": odd, "key": "nobody-waits", "data": map[string]any{"key": pem}})
	for _, one := range got["started"].([]any) {
		if started, _ := one.(map[string]any)["execution_id"].(string); started != "" {
			s.finished(started, "completed")
			ids = append(ids, started)
		}
	}
	if len(ids) != 1 {
		s.t.Errorf("the event started %v", got)
	}
	return append(ids, id)
}

// refused asks for what is wrong, so that errors quote it.
func (s *secretServer) refused() {
	s.t.Helper()
	s.ask(400, "POST", "/api/v1/execute", map[string]any{"workflow_id": "talking", "params": map[string]any{"token": handed, "count": odd}})
	s.ask(400, "POST", "/api/v1/execute", map[string]any{"workflow_id": "talking", "params": map[string]any{"token": map[string]any{"x": handed}}})
	s.ask(400, "POST", "/api/v1/execute", map[string]any{"action_type": "util.wait", "params": map[string]any{"seconds": odd}})
	s.ask(404, "GET", "/api/v1/pipelines/"+strings.Repeat("n", 20)+"%20"+strings.ReplaceAll(vaulted, "%", "%25")[:3], nil)
	id := s.field(s.ask(201, "POST", "/api/v1/execute", map[string]any{"action_type": "util.wait", "params": map[string]any{"seconds": 60}}), "execution_id")
	s.ask(200, "POST", "/api/v1/executions/"+id+"/cancel", map[string]any{"reason": "for " + odd + pemKey()})
	s.finished(id, "cancelled")
	s.read(id)
}

// firstStep is the first step at top level of an execution.
func (s *secretServer) firstStep(id string) string {
	s.t.Helper()
	steps, _ := s.ask(200, "GET", "/api/v1/executions/"+id+"/steps?limit=1", nil)["steps"].([]any)
	if len(steps) == 0 {
		s.t.Fatalf("%s has no steps", id)
	}
	step, _ := steps[0].(map[string]any)
	return s.field(step, "step_id")
}

// read reads everything that there is of an execution.
func (s *secretServer) read(id string) {
	s.t.Helper()
	first := s.firstStep(id)
	for _, what := range []string{"", "/steps", "/logs?limit=500", "/history", "/definition", "/why", "/events", "/retry/preview?from_step=" + first} {
		s.ask(200, "GET", "/api/v1/executions/"+id+what, nil)
	}
	s.ask(200, "GET", "/api/v1/pipeline/"+id, nil)
	s.follow(id)
}
