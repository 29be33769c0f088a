package api_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/trigger/webhook"
)

func (r *rig) client(role string) *client.Client {
	r.t.Helper()
	c, err := client.New(client.Options{URL: r.server.URL, Token: role})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// want fails the test unless the error has the code.
func want(t *testing.T, err error, code stepwell.Code) {
	t.Helper()
	if stepwell.CodeOf(err) != code {
		t.Fatalf("error %v (%s), want code %q", err, stepwell.CodeOf(err), code)
	}
}

func good(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPipelines(t *testing.T) {
	r := newRig(t)
	c, ctx := r.client("editor"), t.Context()
	made, err := c.Pipelines().Create(ctx, api.NewPipeline{Document: api.Document(greeting), Note: "first"})
	good(t, err)
	if made.Name != "greeting" || made.Version != 1 || made.Steps != 2 || made.CreatedBy != "editor" {
		t.Errorf("made: %+v", made)
	}
	_, err = c.Pipelines().Create(ctx, api.NewPipeline{Document: api.Document(greeting)})
	want(t, err, stepwell.CodeConflict)
	_, err = c.Pipelines().Create(ctx, api.NewPipeline{Document: api.Document("name: bad\nsteps:\n  - {id: a, action: util.nosuch}\n  - {id: a, action: util.log}\n")})
	want(t, err, stepwell.CodeInvalid)
	if details, ok := errors.AsType[client.Details](err); !ok || len(details) < 2 || details[0].Line == 0 {
		t.Errorf("details: %v", err)
	}
	_, err = r.client("operator").Pipelines().Create(ctx, api.NewPipeline{Document: api.Document(failing)})
	want(t, err, stepwell.CodeForbidden)

	p, tag, err := c.Pipelines().Get(ctx, "greeting")
	good(t, err)
	if p.ID != made.ID || p.Document != greeting || tag == "" {
		t.Errorf("got: %+v, tag %s", p, tag)
	}
	if got := r.do("viewer", "GET", "/api/v1/pipelines/greeting", nil, "If-None-Match", tag); got.status != http.StatusNotModified || len(got.body) > 0 || got.header.Get("ETag") != tag {
		t.Errorf("unchanged: %d %s", got.status, got.body)
	}
	longer := strings.Replace(greeting, "\noutputs: {text:", "\n  - {id: more, action: util.log, params: {message: more}}\noutputs: {text:", 1)
	_, err = c.Pipelines().Update(ctx, p.ID, api.PipelineChange{Document: api.Document(longer)}, `"999"`)
	want(t, err, "precondition")
	changed, err := c.Pipelines().Update(ctx, p.ID, api.PipelineChange{Document: api.Document(longer)}, tag)
	good(t, err)
	_, err = c.Pipelines().Update(ctx, p.ID, api.PipelineChange{Document: api.Document(greeting)}, tag) // the tag of before
	want(t, err, "precondition")
	if changed.Version != 2 || changed.Steps != 3 {
		t.Errorf("changed: %+v", changed)
	}
	diff, err := c.DiffPipeline(ctx, p.ID, 1, 0)
	good(t, err)
	if strings.Join(diff.Added, " ") != "more" || len(diff.Removed) != 0 || !strings.Contains(diff.Text, "+  - {id: more") {
		t.Errorf("diff: %+v", diff)
	}
	versions, err := c.PipelineVersions(ctx, api.ListVersions{PipelinePath: api.PipelinePath{ID: p.ID}, Limit: 1})
	good(t, err)
	if len(versions.Items) != 1 || versions.Items[0].Version != 2 || versions.Next == "" {
		t.Errorf("versions: %+v", versions)
	}
	first, err := c.PipelineVersion(ctx, p.ID, 1)
	good(t, err)
	if first.Document != greeting || first.Note != "first" {
		t.Errorf("first: %+v", first)
	}
	_, err = c.PipelineVersion(ctx, p.ID, 9)
	want(t, err, stepwell.CodeNotFound)

	v, err := r.client("viewer").ValidatePipeline(ctx, api.Document(`{"name":"x","steps":[{"id":"a","action":"util.log"}]}`))
	good(t, err)
	if v.Valid || v.Name != "x" || len(v.Problems) == 0 {
		t.Errorf("validation: %+v", v)
	}
	yes := true
	archived, err := c.Pipelines().Update(ctx, p.ID, api.PipelineChange{Archived: &yes}, "")
	good(t, err)
	if !archived.Archived {
		t.Errorf("archived: %+v", archived)
	}
	_, err = c.Execute(ctx, api.ExecuteRequest{Workflow: p.ID, Params: api.Object{"who": "Ann"}}, "")
	want(t, err, stepwell.CodeConflict)
	list, err := c.Pipelines().List(ctx, api.ListPipelines{Archived: "true"})
	good(t, err)
	if len(list.Items) != 1 {
		t.Errorf("list: %+v", list)
	}
	good(t, c.Pipelines().Delete(ctx, p.ID, ""))
	want(t, c.Pipelines().Delete(ctx, p.ID, ""), stepwell.CodeNotFound)
}

func TestExecuteOnce(t *testing.T) {
	r := newRig(t)
	c, ctx := r.client("editor"), t.Context()
	req := api.ExecuteRequest{Action: "util.log", Params: api.Object{"message": "once"}, By: "ann@example.org"}
	first, err := c.Execute(ctx, req, "key-1")
	good(t, err)
	again, err := c.Execute(ctx, req, "key-1")
	good(t, err)
	if first.ID != again.ID {
		t.Errorf("started twice: %s, %s", first.ID, again.ID)
	}
	_, err = c.Execute(ctx, api.ExecuteRequest{Action: "util.log", Params: api.Object{"message": "another"}}, "key-1")
	want(t, err, stepwell.CodeConflict)
	other, err := r.client("admin").Execute(ctx, req, "key-1") // keys are everybody's own
	good(t, err)
	if other.ID == first.ID {
		t.Error("one principal has found another's key")
	}
	x, err := c.Execution(ctx, first.ID)
	good(t, err)
	if x.TriggeredBy != "ann@example.org" || x.TriggerType != "manual" {
		t.Errorf("execution: %+v", x.Execution)
	}
	if e := r.audit.entriesOf("execution.start"); len(e) != 4 || e[0].Object != first.ID || e[0].Actor != "editor" || e[2].Result != "conflict" {
		t.Errorf("audit: %+v", e)
	}
	for _, bad := range []api.ExecuteRequest{{By: "nobody"}, {Action: "util.log", Workflow: "x"}, {Action: "util.nosuch"}, {Action: "util.log"}, {Job: "x", Action: "util.log"},
		{Definition: api.Document("steps: {")}, {Definition: api.Document(greeting), Params: api.Object{"who": 7}}} {
		_, err := c.Execute(ctx, bad, "")
		want(t, err, stepwell.CodeInvalid)
	}
	_, err = c.Execute(ctx, api.ExecuteRequest{Workflow: "nosuch"}, "")
	want(t, err, stepwell.CodeNotFound)
	r.do("operator", "POST", "/api/v1/execute", req, "Idempotency-Key", "\"open").problem(400, stepwell.CodeInvalid)

	failed := r.run(failing, nil)
	one, err := c.Retry(ctx, failed, "bad", "retry-1")
	good(t, err)
	two, err := c.Retry(ctx, failed, "bad", "retry-1")
	good(t, err)
	if one.ID != two.ID {
		t.Errorf("retried twice: %s, %s", one.ID, two.ID)
	}
	would, err := c.PreviewRetry(ctx, failed, "")
	good(t, err)
	if strings.Join(would.Repeated, " ") != "bad after" || would.Counts.Repeated != 2 || would.Counts.Again != 0 {
		t.Errorf("a retry would run %+v", would)
	}
	reasons, err := c.Why(ctx, failed, "after")
	good(t, err)
	if len(reasons) == 0 || !strings.Contains(reasons[0].Message+strings.Join(reasons[0].Steps, ""), "bad") {
		t.Errorf("why: %+v", reasons)
	}
	_, err = c.Why(ctx, failed, "nosuch")
	want(t, err, stepwell.CodeNotFound)
}

func TestStream(t *testing.T) {
	r := newRig(t)
	c := r.client("viewer")
	id := r.run(greeting, map[string]any{"who": "Ann"})
	var types []string
	var middle string
	for m, err := range c.Stream(t.Context(), id, client.StreamOptions{}) {
		good(t, err)
		if types = append(types, m.Type); len(types) == 2 {
			middle = m.Seq
		}
	}
	if types[0] != "snapshot" || types[len(types)-1] != "complete" || !strings.Contains(strings.Join(types, " "), "log") {
		t.Errorf("messages: %q", types)
	}
	rest := 0
	for m, err := range c.Stream(t.Context(), id, client.StreamOptions{Since: middle}) {
		good(t, err)
		if m.Type != "snapshot" {
			rest++
		}
	}
	if rest != len(types)-2 {
		t.Errorf("behind the second of %d messages come %d", len(types), rest)
	}
	for _, err := range c.Stream(t.Context(), "01234567-0000-7000-8000-000000000000", client.StreamOptions{}) {
		want(t, err, stepwell.CodeNotFound)
	}
	r.do("viewer", "GET", "/api/v1/executions/"+id+"/events?since=nonsense", nil).problem(400, stepwell.CodeInvalid)
	r.do("viewer", "GET", "/api/v1/executions/"+id+"/logs/stream", nil).problem(http.StatusUpgradeRequired, stepwell.CodeInvalid)
	r.do("", "GET", "/api/v1/executions/"+id+"/events", nil).problem(401, stepwell.CodeUnauthenticated)
}

func TestClientOfTheRest(t *testing.T) {
	draining := false
	r := newRig(t, func(o *api.Options) { o.Vitals = func() api.Vitals { return api.Vitals{Draining: draining} } })
	c, ctx := r.client("admin"), t.Context()
	good(t, c.Ready(ctx))
	draining = true
	if err := c.Ready(ctx); stepwell.CodeOf(err) != stepwell.CodeUnavailable || !strings.Contains(err.Error(), "stopping") {
		t.Errorf("ready: %v", err)
	}
	id := r.begin(asking, nil)
	var a *api.Approval
	r.until("it asks", func() bool {
		var err error
		a, err = c.Approval(ctx, id+".ask")
		return err == nil
	})
	if a.Message != "Publish it?" || a.Execution != id {
		t.Errorf("approval: %+v", a)
	}
	definition, err := c.Definition(ctx, id)
	good(t, err)
	if !strings.Contains(string(definition), `"util.approval"`) {
		t.Errorf("definition: %s", definition)
	}
	told, err := c.Callback(ctx, callbacks{}.token("callback:"+id+"/ask#1"), map[string]any{"n": 1})
	good(t, err)
	if told.Delivered || told.Repeated {
		t.Errorf("callback: %+v", told)
	}
	_, err = c.Callback(ctx, "nosuch", nil)
	want(t, err, stepwell.CodeNotFound)
	made, err := c.Keys().Create(ctx, api.NewKey{Name: "reader", Role: access.Viewer})
	good(t, err)
	if k, tag, err := c.Keys().Get(ctx, "reader"); err != nil || tag == "" || k.ID != made.ID || k.Role != access.Viewer {
		t.Errorf("key: %+v, %v", k, err)
	}
	w, err := c.Webhooks().Create(ctx, api.NewWebhook{Webhook: webhook.Webhook{Head: api.Head{Target: &api.Callback{Action: "util.log", Params: api.Object{"message": "{{ event.message }}"}}}}})
	good(t, err)
	one, err := r.client("").TriggerWebhook(ctx, w.ID, w.Secret, "d-1", map[string]any{"message": "x"})
	good(t, err)
	two, err := r.client("").TriggerWebhook(ctx, w.ID, w.Secret, "d-1", map[string]any{"message": "x"})
	good(t, err)
	if one.ID != two.ID {
		t.Errorf("one delivery started %s and %s", one.ID, two.ID)
	}
	_, err = c.TriggerWebhook(ctx, w.ID, "wrong", "", nil)
	want(t, err, stepwell.CodeUnauthenticated)
}

// TestCallIf: what has changed meanwhile is not changed again, and what was changed has a new tag.
func TestCallIf(t *testing.T) {
	r := newRig(t)
	c, ctx := r.client("editor"), t.Context()
	made, err := c.Pipelines().Create(ctx, api.NewPipeline{Document: api.Document(greeting)})
	good(t, err)
	path := "/api/v1/pipelines/" + made.ID
	var now map[string]any
	tag, err := c.CallIf(ctx, http.MethodGet, path, "", nil, &now)
	good(t, err)
	second, err := c.CallIf(ctx, http.MethodPut, path, tag, map[string]any{"archived": true}, &now)
	good(t, err)
	if tag == "" || second == "" || second == tag || now["archived"] != true {
		t.Errorf("tags %s and %s: %v", tag, second, now)
	}
	_, err = c.CallIf(ctx, http.MethodPut, path, tag, map[string]any{"archived": false}, nil)
	want(t, err, "precondition")
}

func TestTimesAreMilliseconds(t *testing.T) {
	raw, err := json.Marshal([]api.Time{{Time: time.Date(2026, 5, 1, 9, 0, 0, 123456789, time.FixedZone("x", 3600))}, {}})
	if err != nil || string(raw) != `["2026-05-01T08:00:00.123Z",null]` {
		t.Errorf("%s, %v", raw, err)
	}
	var at []api.Time
	if err := json.Unmarshal([]byte(`["2026-05-01T10:00:00+02:00",null]`), &at); err != nil || at[0].UTC().Hour() != 8 || !at[1].IsZero() {
		t.Errorf("%v, %v", at, err)
	}
	if json.Unmarshal([]byte(`["yesterday"]`), &at) == nil || json.Unmarshal([]byte(`[7]`), &at) == nil {
		t.Error("that is not a time")
	}
}
