package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/store"
)

// entriesOf are the entries of one action.
func (a *auditBook) entriesOf(action string) (list []store.AuditEntry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.entries {
		if e.Action == action {
			list = append(list, e)
		}
	}
	return list
}

// TestCurl sends what the curl commands of budpipeline §10 send, as it is written there.
func TestCurl(t *testing.T) {
	r := newRig(t)
	var got map[string]any
	r.do("admin", "POST", "/api/v1/execute", `{
    "action_type": "util.wait",
    "params": {"seconds": 5}
  }`).is(201).into(&got)
	if len(got) != 3 || got["execution_id"] == nil || got["status"] != "running" || got["started_at"] == nil {
		t.Errorf("answer: %v", got)
	}
	document := `{"name":"model-deployment-pipeline","parameters":[{"name":"model_uri","type":"string","required":true}],"steps":[{"id":"onboard","action":"util.log","params":{"message":"{{ params.model_uri }}"}}]}`
	r.do("admin", "POST", "/api/v1/execute", `{
    "workflow_definition": `+document+`,
    "params": {"model_uri": "meta-llama/Llama-2-7b"}
  }`).is(201)
	p := r.do("admin", "POST", "/api/v1/execute", `{
    "action_type": "external.k8s.job",
    "params": {
      "cluster_id": "...",
      "image": "python:3.11",
      "command": ["python", "-c", "print(\"hello\")"]
    }
  }`)
	if p.status != 201 { // until there is Kubernetes
		p.problem(400, stepwell.CodeInvalid)
	}
	saved, err := r.client("editor").Pipelines().Create(t.Context(), api.NewPipeline{Document: api.Document(document)})
	good(t, err)
	r.do("admin", "POST", "/api/v1/scheduler/jobs", `{
    "job_id": "`+saved.ID+`",
    "schedule": {
      "type": "cron",
      "expression": "0 9 * * 1-5",
      "timezone": "America/New_York"
    }
  }`).is(201).into(&got)
	at, err := time.Parse(time.RFC3339, got["next_run_at"].(string))
	good(t, err)
	zone, err := time.LoadLocation("America/New_York")
	good(t, err)
	if got["schedule_id"] != saved.ID || at.In(zone).Hour() != 9 {
		t.Errorf("answer: %v", got)
	}
	id := r.run(greeting, map[string]any{"who": "Ann"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, res, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(r.server.URL, "http")+"/api/v1/executions/"+id+"/logs/stream", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer viewer"}}})
	if err != nil {
		t.Fatalf("%v: %v", err, res)
	}
	defer func() { _ = conn.CloseNow() }()
	types := map[string]map[string]any{}
	for types["complete"] == nil {
		_, raw, err := conn.Read(ctx)
		good(t, err)
		var m struct {
			Type string
			Data map[string]any
		}
		good(t, json.Unmarshal(raw, &m))
		types[m.Type] = m.Data
	}
	if types["log"]["message"] != "Hello, Ann" || types["log"]["step_id"] != "log" || types["status"]["status"] == nil || types["complete"]["status"] != "completed" {
		t.Errorf("messages: %v", types)
	}
}

func TestHealthAndMetrics(t *testing.T) {
	r := newRig(t, func(o *api.Options) {
		o.Vitals = func() api.Vitals { return api.Vitals{Active: 3, Scheduler: "running"} }
		o.Version = "1.2.3"
	})
	h := r.do("", "GET", "/api/v1/health", nil).is(200).object()
	if h["status"] != "healthy" || h["dapr_connected"] != false || h["active_workflows"] != 3.0 || h["scheduler_status"] != "running" || h["version"] != "1.2.3" {
		t.Errorf("health: %v", h)
	}
	if got := r.do("", "GET", "/api/v1/ready", nil).is(200).object(); got["ready"] != true {
		t.Errorf("ready: %v", got)
	}
	r.run(greeting, map[string]any{"who": "Ann"})
	r.run(failing, nil)
	m, err := r.client("viewer").Metrics(t.Context())
	good(t, err)
	if m.Executions.Total != 2 || m.Executions.Completed != 1 || m.Executions.Failed != 1 || m.Workflows.SuccessRate != 0.5 || m.Scheduler.Next != nil {
		t.Errorf("metrics: %+v", m)
	}
	for _, path := range []string{"/metrics", "/api/v1/metrics"} {
		got := r.do("viewer", "GET", path, nil, "Accept", "text/plain;version=0.0.4").is(200)
		if !strings.HasPrefix(got.header.Get("Content-Type"), "text/plain") || !bytes.Contains(got.body, []byte("# TYPE")) {
			t.Errorf("%s: %.200s", path, got.body)
		}
	}
	r.do("", "GET", "/metrics", nil).problem(401, stepwell.CodeUnauthenticated)
}

func TestDraining(t *testing.T) {
	r := newRig(t, func(o *api.Options) {
		o.Vitals = func() api.Vitals { return api.Vitals{Draining: true, Scheduler: "stopped"} }
	})
	if got := r.do("", "GET", "/api/v1/ready", nil).is(503).object(); got["ready"] != false || got["reason"] == nil {
		t.Errorf("ready: %v", got)
	}
	if got := r.do("", "GET", "/api/v1/health", nil).is(200).object(); got["status"] != "draining" {
		t.Errorf("health: %v", got)
	}
}

func TestDatabaseTakesNothing(t *testing.T) {
	r := newRig(t, func(o *api.Options) {
		o.Vitals = func() api.Vitals {
			return api.Vitals{Scheduler: "running", Unready: "the store takes nothing at the moment"}
		}
	})
	if got := r.do("", "GET", "/api/v1/ready", nil).is(503).object(); got["ready"] != false || got["reason"] != "the store takes nothing at the moment" {
		t.Errorf("ready: %v", got)
	}
	if got := r.do("", "GET", "/api/v1/health", nil).is(200).object(); got["status"] != "degraded" || got["scheduler_status"] != "running" {
		t.Errorf("health: %v", got)
	}
}

func TestPathsThatAreNotThere(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/", "/api/v1/nosuch", "/api/v1//executions", "/api/v1/executions/", "/api/v1/executions/../health", "/api/v1/executions/%2e%2e/health", "/API/V1/health", "/api/v1/pipelines/a%2Fb/c"} {
		r.do("admin", "GET", path, nil).problem(404, stepwell.CodeNotFound)
	}
	got := r.do("admin", "DELETE", "/api/v1/executions", nil)
	got.problem(405, stepwell.CodeInvalid)
	if allow := got.header.Get("Allow"); !strings.Contains(allow, "GET") {
		t.Errorf("Allow: %s", allow)
	}
}

func TestHeaders(t *testing.T) {
	r := newRig(t, func(o *api.Options) { o.Origins = []string{"https://ui.example.org"} })
	got := r.do("viewer", "GET", "/api/v1/actions", nil, "X-Request-ID", "abc-123")
	if got.header.Get("X-Request-ID") != "abc-123" || got.header.Get("X-Content-Type-Options") != "nosniff" || got.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("headers: %v", got.header)
	}
	if id := r.do("viewer", "GET", "/api/v1/actions", nil, "X-Request-ID", "bad id; drop").header.Get("X-Request-ID"); id == "" || strings.Contains(id, " ") {
		t.Errorf("request id: %q", id)
	}
	if h := r.do("", "OPTIONS", "/api/v1/execute", nil, "Origin", "https://ui.example.org", "Access-Control-Request-Method", "POST").is(204).header; h.Get("Access-Control-Allow-Origin") != "https://ui.example.org" {
		t.Errorf("preflight: %v", h)
	}
	if h := r.do("", "OPTIONS", "/api/v1/execute", nil, "Origin", "https://evil.example.org", "Access-Control-Request-Method", "POST").header; h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("preflight: %v", h)
	}
}

func TestPage(t *testing.T) {
	r := newRig(t)
	if got := r.do("", "GET", "/", nil).is(404); !strings.Contains(string(got.body), "the API is described at /docs") {
		t.Errorf("the root: %s", got.body)
	}
	if got := r.do("", "GET", "/", nil, "Accept", "text/html,*/*").is(200); !strings.Contains(string(got.body), "<title>Stepwell API") {
		t.Errorf("the root in a browser: %s", got.body)
	}
	page := r.do("", "GET", "/docs", nil).is(200)
	if regexp.MustCompile(`(src|href)="(https?:)?//`).Match(page.body) || !strings.Contains(page.header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("the page needs the network: %s", page.body)
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="(/[^"]+)"`).FindAllSubmatch(page.body, -1) {
		if got := r.do("", "GET", string(m[1]), nil); got.status != 200 {
			t.Errorf("%s: %d", m[1], got.status)
		}
	}
}

// limits stands for a caller that asks too often.
type limits struct{ wait time.Duration }

func (l limits) Allow(caller string) (bool, time.Duration) {
	return !strings.Contains(caller, "viewer") || l.wait == 0, l.wait
}

func TestLimits(t *testing.T) {
	r := newRig(t, func(o *api.Options) {
		o.Limit, o.MaxBody = limits{1500 * time.Millisecond}, 1000
		o.ClientAddr = func(*http.Request) netip.Addr { return netip.MustParseAddr("192.0.2.7") }
	})
	got := r.do("viewer", "GET", "/api/v1/actions", nil)
	got.problem(429, stepwell.CodeLimit)
	if got.header.Get("Retry-After") != "2" {
		t.Errorf("Retry-After: %s", got.header.Get("Retry-After"))
	}
	r.do("editor", "POST", "/api/v1/scheduler/jobs", `{"name":"`+strings.Repeat("x", 1000)+`"}`).problem(413, stepwell.CodeLimit)
	r.do("operator", "POST", "/api/v1/events", `{"type":"a","data":{"x":"`+strings.Repeat("x", 1<<20)+`"}}`).problem(413, stepwell.CodeLimit)
	r.do("editor", "POST", "/api/v1/pipelines", `{"document":"name: x"}`).problem(400, stepwell.CodeInvalid)
	if e := r.audit.last(); e.Remote != "192.0.2.7" {
		t.Errorf("audit: %+v", e)
	}
}

// TestLargeDocuments: what the library does not take is refused with 413 wherever a pipeline may be sent, and what it
// takes comes in, however its JSON is written.
func TestLargeDocuments(t *testing.T) {
	var most int
	r := newRig(t, func(o *api.Options) { most = o.Pipelines.MaxDocument() })
	head, step := "name: large\n", "steps: [{id: a, action: util.noop}]\n#"
	fits := head + step + strings.Repeat("ß", (most-len(head+step))/2)
	body := func(field, text string) string { // as clients do that write ASCII only
		raw, err := json.Marshal(map[string]string{field: text})
		good(t, err)
		return strings.ReplaceAll(string(raw), "ß", `\u00df`)
	}
	id, _ := r.do("editor", "POST", "/api/v1/pipelines", body("document", fits)).is(201).object()["pipeline_id"].(string)
	r.do("editor", "POST", "/api/v1/execute", body("workflow_definition", fits)).is(201)
	for path, field := range map[string]string{"POST /pipelines": "document", "PUT /pipelines/" + id: "document", "POST /pipelines/validate": "document", "POST /execute": "workflow_definition"} {
		method, path, _ := strings.Cut(path, " ")
		p := r.do("editor", method, "/api/v1"+path, body(field, fits+"ß")).problem(413, stepwell.CodeLimit)
		if !strings.Contains(p.Message, strconv.Itoa(most)) || p.Hint == "" {
			t.Errorf("%s: %+v", path, p)
		}
		r.do("editor", method, "/api/v1"+path, body(field, strings.Repeat(fits, 3))).problem(413, stepwell.CodeLimit)
	}
}

// broken is a store that fails in words that nobody should see.
type broken struct{ api.Store }

func (broken) Executions(context.Context, store.Filter) ([]store.Execution, error) {
	return nil, &os.PathError{Op: "open", Path: "/var/lib/secret-place.db", Err: os.ErrPermission}
}

func (broken) Execution(context.Context, string) (*store.Execution, error) { panic("a secret place") }

func TestFaultsAreNotShown(t *testing.T) {
	r := newRig(t, func(o *api.Options) { o.Store = broken{o.Store} })
	for _, path := range []string{"/api/v1/executions", "/api/v1/executions/01234567-0000-7000-8000-000000000000"} {
		got := r.do("viewer", "GET", path, nil)
		p := got.problem(500, stepwell.CodeInternal)
		if id := got.header.Get("X-Request-ID"); strings.Contains(string(got.body), "secret") || !strings.Contains(p.Hint, id) || !strings.Contains(r.log.String(), id) {
			t.Errorf("%s (request %s)", got.body, id)
		}
	}
	r.do("", "GET", "/api/v1/ready", nil).is(503)
}

func TestAdmin(t *testing.T) {
	var keys *access.Keys
	r := newRig(t, func(o *api.Options) { keys = o.Keys })
	c, ctx := r.client("admin"), t.Context()
	s, err := c.SetSecret(ctx, "api_token", "hunter2-hunter2", "")
	good(t, err)
	if s.Version != 1 || s.By != "admin" {
		t.Errorf("secret: %+v", s)
	}
	_, err = c.SetSecret(ctx, "api_token", "other-value", `"7"`)
	want(t, err, "precondition")
	_, err = c.SetSecret(ctx, "api_token", "other-value", `"1"`)
	good(t, err)
	list, err := c.Secrets().List(ctx, api.All{})
	good(t, err)
	if len(list.Items) != 1 || list.Items[0].Version != 2 {
		t.Errorf("secrets: %+v", list)
	}
	_, err = c.SetSecret(ctx, "1 bad name", "value", "")
	want(t, err, stepwell.CodeInvalid)
	for _, role := range []string{"viewer", "operator", "editor"} {
		_, err := r.client(role).Secrets().List(ctx, api.All{})
		want(t, err, stepwell.CodeForbidden)
	}
	good(t, c.Secrets().Delete(ctx, "api_token", ""))
	want(t, c.Secrets().Delete(ctx, "api_token", ""), stepwell.CodeNotFound)

	k, err := c.Keys().Create(ctx, api.NewKey{Name: "ci", Role: access.Operator})
	good(t, err)
	if p, err := keys.Authenticate(ctx, k.Token); err != nil || p.Role != access.Operator || k.ID == "" {
		t.Errorf("key: %+v, %+v, %v", k, p, err)
	}
	_, err = c.Keys().Create(ctx, api.NewKey{Name: "ci", Role: access.Viewer})
	want(t, err, stepwell.CodeConflict)
	_, err = c.Keys().Create(ctx, api.NewKey{Name: "x", Role: 9})
	want(t, err, stepwell.CodeInvalid)
	raw := r.do("admin", "GET", "/api/v1/keys", nil).is(200)
	if strings.Contains(string(raw.body), k.Token) {
		t.Errorf("a list shows a token: %s", raw.body)
	}
	revoked, err := c.RevokeKey(ctx, k.ID)
	good(t, err)
	if revoked.Revoked.IsZero() {
		t.Errorf("revoked: %+v", revoked)
	}
	good(t, c.Keys().Delete(ctx, k.ID, ""))
	me, err := c.Me(ctx)
	good(t, err)
	if me.Role != "admin" || me.Name != "admin" {
		t.Errorf("me: %+v", me)
	}
}

func TestAuditLog(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	var entries []store.AuditEntry
	for i := range 5 {
		entries = append(entries, store.AuditEntry{At: time.Now(), Actor: "ann", Action: "schedule.update", Object: strings.Repeat("x", i), Result: "ok"})
	}
	good(t, r.app.Store.AppendAudit(ctx, entries))
	c := r.client("admin")
	first, err := c.Audit(ctx, api.ListAudit{AuditFilter: store.AuditFilter{Actor: "ann"}, Limit: 3})
	good(t, err)
	second, err := c.Audit(ctx, api.ListAudit{AuditFilter: store.AuditFilter{Actor: "ann"}, Limit: 3, Cursor: first.Next})
	good(t, err)
	if len(first.Items) != 3 || len(second.Items) != 2 || second.Next != "" || first.Items[0].Object != "xxxx" {
		t.Errorf("pages: %+v, %+v", first, second)
	}
}

// TestNoSecretLeaves puts a secret into the vault and into a secret parameter, lets steps spread them, and reads every
// answer of every operation that shows something.
func TestNoSecretLeaves(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	const vault, param = "vault-s3cret-4711", "param-s3cret-0815"
	c := r.client("admin")
	_, err := c.SetSecret(ctx, "token", vault, "")
	good(t, err)
	document := `
name: leaky
parameters: [{name: password, type: string, secret: true, required: true}]
steps:
  - {id: say, action: util.log, params: {message: "with {{ secrets.token }} and {{ params.password }}"}}
  - {id: keep, action: util.set_output, params: {outputs: {a: "{{ secrets.token }}", b: "{{ params.password | upper }}"}}}
  - {id: fail, action: util.fail, depends_on: [keep], params: {message: "no {{ secrets.token }} {{ params.password }}"}, on_failure: continue}
outputs: {a: "{{ steps.keep.outputs.a }}"}
`
	saved, err := c.Pipelines().Create(ctx, api.NewPipeline{Document: api.Document(document)})
	good(t, err)
	started, err := c.Execute(ctx, api.ExecuteRequest{Workflow: saved.ID, Params: api.Object{"password": param}}, "")
	good(t, err)
	if _, err := r.app.Conductor.Wait(ctx, started.ID); err != nil {
		t.Fatal(err)
	}
	x := "/api/v1/executions/" + started.ID
	var all bytes.Buffer
	for _, path := range []string{x, x + "/steps?outputs=true", x + "/logs", x + "/history", x + "/definition", x + "/why", x + "/why?step_id=fail", x + "/events", "/api/v1/executions",
		"/api/v1/pipeline/" + started.ID, "/api/v1/pipelines/" + saved.ID, "/api/v1/secrets", "/api/v1/audit", x + "/retry/preview"} {
		got := r.do("admin", "GET", path, nil).is(200)
		all.Write(got.body)
	}
	all.WriteString(r.log.String())
	for _, secret := range []string{vault, param, strings.ToUpper(param)} {
		if i := strings.Index(all.String(), secret); i >= 0 {
			t.Errorf("%s is shown: …%s…", secret, all.String()[max(0, i-100):min(all.Len(), i+100)])
		}
	}
	if strings.Contains(all.String(), "sealed:") {
		t.Error("sealed values are shown as they are")
	}
	if !strings.Contains(all.String(), "with *** and ***") {
		t.Errorf("the log line is missing: %s", all.String())
	}
}
