package api_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/trigger/webhook"
)

func TestJobs(t *testing.T) {
	r := newRig(t)
	c, ctx := r.client("editor"), t.Context()
	j, err := c.Jobs().Create(ctx, api.NewJob{ID: "nightly", Name: "every night", Schedule: api.Timing{Type: "cron", Expression: "0 3 * * *", Timezone: "Europe/Berlin"},
		Target: &api.Callback{Action: "util.log", Params: api.Object{"message": "good night"}}, MaxRuns: 1000})
	good(t, err)
	if j.ID != "nightly" || j.ScheduleID != "nightly" || j.NextRunAt.IsZero() || !*j.Enabled || j.Status != "active" || j.Target.Type != "action" || j.Misfire != "run_once" || j.Overlap != "skip" {
		t.Errorf("made: %+v", j)
	}
	_, err = c.Jobs().Create(ctx, api.NewJob{ID: "nightly", Schedule: api.Timing{Type: "manual"}, Target: &api.Callback{Action: "util.log"}})
	want(t, err, stepwell.CodeConflict)
	for _, bad := range []api.NewJob{{Schedule: api.Timing{Type: "cron", Expression: "0 25 * * *"}, Target: &api.Callback{Action: "util.log"}}, {Schedule: api.Timing{Type: "cron", Expression: "@daily"}},
		{ID: "nosuch", Schedule: api.Timing{Type: "cron", Expression: "@daily"}}, {Schedule: api.Timing{Type: "cron", Expression: "@daily", Timezone: "Moon/Base"}, Target: &api.Callback{Action: "util.log"}}} {
		_, err = c.Jobs().Create(ctx, bad)
		want(t, err, stepwell.CodeInvalid)
	}
	got, tag, err := c.Jobs().Get(ctx, "every night") // by its name
	good(t, err)
	if got.ID != "nightly" || tag == "" {
		t.Errorf("got: %+v", got)
	}
	changed, err := c.Jobs().Update(ctx, "nightly", api.Fields{"schedule": api.Timing{Type: "interval", Expression: "@every 30m"}}, tag)
	good(t, err)
	if changed.Schedule.Timezone != "Europe/Berlin" { // it was not given
		t.Errorf("the zone became %q", changed.Schedule.Timezone)
	}
	r.do("", "GET", "/healthz", nil).is(200)
	r.do("", "GET", "/readyz", nil).is(200)
	if changed.Schedule.Type != "interval" || changed.MaxRuns != 1000 || changed.Name != "every night" {
		t.Errorf("changed: %+v", changed)
	}
	_, err = c.Jobs().Update(ctx, "nightly", api.Fields{}, tag)
	want(t, err, "precondition")
	next, err := c.NextRuns(ctx, "nightly", 3)
	good(t, err)
	if len(next.NextRuns) != 3 || next.NextRuns[1].Sub(next.NextRuns[0].Time) != 30*time.Minute {
		t.Errorf("next: %+v", next)
	}
	paused, err := c.PauseJob(ctx, "nightly")
	good(t, err)
	if *paused.Enabled || paused.Status != "paused" || !paused.NextRunAt.IsZero() {
		t.Errorf("paused: %+v", paused)
	}
	started, err := c.TriggerJob(ctx, "nightly", nil, "t-1")
	good(t, err)
	x, err := c.Execution(ctx, started.ID)
	good(t, err)
	if x.Job != "nightly" || x.TriggerType != "manual" || x.TriggeredBy != "editor" {
		t.Errorf("started: %+v", x.Execution)
	}
	byJob, err := c.Execute(ctx, api.ExecuteRequest{Job: "nightly"}, "")
	good(t, err)
	if byJob.ID == started.ID {
		t.Error("the same execution")
	}
	_, err = c.Execute(ctx, api.ExecuteRequest{Job: "nightly", Version: 2}, "")
	want(t, err, stepwell.CodeInvalid)
	_, err = c.ResumeJob(ctx, "nightly")
	good(t, err)
	now := time.Now()
	filled, err := c.BackfillJob(ctx, "nightly", api.BackfillRequest{From: now.Add(-3 * time.Hour), To: now.Add(-time.Hour)})
	good(t, err)
	if filled.Count < 3 || filled.Count > 5 {
		t.Errorf("filled: %+v", filled)
	}
	if rest, err := c.BackfillJob(ctx, "nightly", api.BackfillRequest{From: now.Add(-3 * time.Hour), To: now.Add(-time.Hour)}); err != nil || rest.Count != 0 || rest.Skipped != filled.Count {
		t.Errorf("what waits already is filled again: %+v, %v", rest, err)
	}
	firings, err := c.Firings(ctx, api.ListFirings{ID: "nightly", Limit: 2})
	good(t, err)
	if len(firings.Items) != 2 || firings.Next == "" || firings.Items[0].Status != "waiting" || !firings.Items[0].Backfill || firings.Items[0].Count != 1 {
		t.Errorf("firings: %+v", firings)
	}
	rest, err := c.Firings(ctx, api.ListFirings{ID: "nightly", Cursor: firings.Next})
	good(t, err)
	if len(rest.Items) != filled.Count-2 || rest.Next != "" {
		t.Errorf("the rest of the firings: %+v", rest)
	}
	_, err = c.BackfillJob(ctx, "nightly", api.BackfillRequest{From: now, To: now.Add(time.Hour)})
	want(t, err, stepwell.CodeInvalid)
	list, err := c.Jobs().List(ctx, api.ListJobs{Type: "interval"})
	good(t, err)
	if len(list.Items) != 1 || list.Items[0].RunCount != 2 {
		t.Errorf("list: %+v", list)
	}
	want(t, c.Jobs().Delete(ctx, "nightly", tag), "precondition")
	good(t, c.Jobs().Delete(ctx, "nightly", ""))
	_, err = c.TriggerJob(ctx, "nightly", nil, "")
	want(t, err, stepwell.CodeNotFound)
	want(t, r.client("operator").Jobs().Delete(ctx, "x", ""), stepwell.CodeForbidden)
}

func TestWebhooks(t *testing.T) {
	r := newRig(t)
	c, ctx := r.client("editor"), t.Context()
	w, err := c.Webhooks().Create(ctx, api.NewWebhook{Webhook: webhook.Webhook{Head: api.Head{Name: "push", Target: &api.Callback{Action: "util.log", Params: api.Object{"message": "{{ event.message }}"}}}, Headers: []string{"X-From"}}})
	good(t, err)
	if w.Secret == "" || w.Auth != "secret" || !*w.Enabled || w.URL != "/api/v1/webhooks/"+w.ID+"/trigger" {
		t.Errorf("made: %+v", w)
	}
	got := r.do("", "POST", w.URL, map[string]any{"message": "pushed"}, "X-Webhook-Secret", w.Secret, "X-Webhook-Id", "d-1", "X-From", "git").is(201).object()
	again := r.do("", "POST", w.URL, map[string]any{"message": "pushed"}, "X-Webhook-Secret", w.Secret, "X-Webhook-Id", "d-1", "X-From", "git").is(200).object()
	if got["execution_id"] != again["execution_id"] || got["status"] == nil {
		t.Errorf("deliveries: %v, %v", got, again)
	}
	x, err := c.Execution(ctx, got["execution_id"].(string))
	good(t, err)
	if x.TriggerType != "webhook" || x.Job != api.Ref(w.ID) || strings.Contains(string(x.Params), w.Secret) {
		t.Errorf("execution: %+v, %s", x.Execution, x.Params)
	}
	r.do("", "POST", w.URL, map[string]any{}, "X-Webhook-Secret", "wrong").problem(401, stepwell.CodeUnauthenticated)
	r.do("", "POST", w.URL, map[string]any{}).problem(401, stepwell.CodeUnauthenticated)
	r.do("", "POST", "/api/v1/webhooks/nosuch/trigger", map[string]any{}, "X-Webhook-Secret", "x").problem(404, stepwell.CodeNotFound)
	r.do("", "POST", w.URL, "{", "X-Webhook-Secret", w.Secret).problem(400, stepwell.CodeInvalid)
	r.do("", "POST", w.URL, `"`+strings.Repeat("x", 2<<20)+`"`, "X-Webhook-Secret", w.Secret).problem(413, stepwell.CodeLimit)

	checked, err := r.client("operator").ValidateWebhook(ctx, w.ID, w.Secret)
	good(t, err)
	wrong, err := r.client("operator").ValidateWebhook(ctx, w.ID, "wrong")
	good(t, err)
	none, err := r.client("operator").ValidateWebhook(ctx, "nosuch", "wrong")
	good(t, err)
	if !checked.Valid || wrong.Valid || none.Valid || checked.Job == "" {
		t.Errorf("checked: %+v, %+v, %+v", checked, wrong, none)
	}
	fresh, err := c.RotateWebhook(ctx, "push", api.RotateRequest{})
	good(t, err)
	r.do("", "POST", w.URL, map[string]any{"message": "x"}, "X-Webhook-Secret", w.Secret).problem(401, stepwell.CodeUnauthenticated)
	r.do("", "POST", w.URL, map[string]any{"message": "x"}, "X-Webhook-Secret", fresh.Secret).is(201)

	_, tag, err := c.Webhooks().Get(ctx, w.ID)
	good(t, err)
	changed, err := c.Webhooks().Update(ctx, w.ID, api.Fields{"enabled": false}, tag)
	good(t, err)
	if *changed.Enabled || changed.Name != "push" || len(changed.Headers) != 1 {
		t.Errorf("changed: %+v", changed)
	}
	r.do("", "POST", w.URL, map[string]any{"message": "x"}, "X-Webhook-Secret", fresh.Secret).problem(403, stepwell.CodeForbidden)
	raw := r.do("viewer", "GET", "/api/v1/webhooks", nil).is(200)
	if strings.Contains(string(raw.body), w.Secret) || strings.Contains(string(raw.body), fresh.Secret) || strings.Contains(string(raw.body), `"secret":"`) {
		t.Errorf("a list shows secrets: %s", raw.body)
	}
	want(t, c.Webhooks().Delete(ctx, w.ID, tag), "precondition")
	good(t, c.Webhooks().Delete(ctx, w.ID, ""))
	_, err = c.Webhooks().Create(ctx, api.NewWebhook{Webhook: webhook.Webhook{Auth: "none", Head: api.Head{Target: &api.Callback{Action: "util.log"}}}})
	want(t, err, stepwell.CodeInvalid)
}

// A change of what is started keeps what it leaves out, in jobs, webhooks and event triggers alike. What starts something
// else has to say the params of that.
func TestAChangeOfACallbackKeepsWhatItLeavesOut(t *testing.T) {
	r := newRig(t)
	c, ctx := r.client("editor"), t.Context()
	five := 5
	starts := func() *api.Callback {
		return &api.Callback{Action: "util.log", Params: api.Object{"message": "good night"}, Priority: &five}
	}
	_, err := c.Jobs().Create(ctx, api.NewJob{ID: "j", Schedule: api.Timing{Type: "manual"}, Target: starts()})
	good(t, err)
	_, err = c.Webhooks().Create(ctx, api.NewWebhook{Webhook: webhook.Webhook{ID: "w", Head: api.Head{Target: starts()}}})
	good(t, err)
	_, err = c.EventTriggers().Create(ctx, api.NewEventTrigger{ID: "e", EventType: "a", Head: api.Head{Target: starts()}})
	good(t, err)
	for _, path := range []string{"/api/v1/scheduler/jobs/j", "/api/v1/webhooks/w", "/api/v1/event-triggers/e"} {
		for _, step := range []struct{ change, want string }{
			{`{"action_type": "util.log"}`, `map[action_type:util.log params:map[message:good night] priority:5 type:action]`},
			{`{"priority": 0}`, `map[action_type:util.log params:map[message:good night] type:action]`},
			{`{"params": {"message": "good day"}}`, `map[action_type:util.log params:map[message:good day] type:action]`},
			{`{"action_type": "util.noop"}`, ""},
			{`{"type": "workflow"}`, ""},
			{`{"action_type": "util.noop", "params": {}}`, `map[action_type:util.noop type:action]`},
		} {
			answer := r.do("editor", "PUT", path, `{"callback": `+step.change+`}`)
			if step.want == "" {
				answer.problem(400, stepwell.CodeInvalid)
				continue
			}
			got := answer.is(200).object()["callback"].(map[string]any)
			if params, _ := got["params"].(map[string]any); len(params) == 0 {
				delete(got, "params")
			}
			if fmt.Sprint(got) != step.want {
				t.Errorf("%s after %s: %v, want %s", path, step.change, got, step.want)
			}
		}
	}
}

// An id names one event: with other content it is refused, and the same again starts nothing that was made since.
func TestAnIDNamesOneEvent(t *testing.T) {
	r := newRig(t)
	c, ctx := r.client("editor"), t.Context()
	listens := func(kind string) {
		t.Helper()
		_, err := c.EventTriggers().Create(ctx, api.NewEventTrigger{EventType: kind, Head: api.Head{Name: kind, Target: &api.Callback{Action: "util.noop"}}})
		good(t, err)
	}
	listens("a")
	event := api.Event{ID: "e-1", Type: "a", Data: api.Object{"n": 1}}
	unheard := api.Event{ID: "e-2", Type: "b", Data: api.Object{"n": 1}}
	first, err := c.SendEvent(ctx, event)
	good(t, err)
	_, err = c.SendEvent(ctx, unheard)
	good(t, err)
	listens("*")
	listens("b")
	for name, other := range map[string]api.Event{
		"data":      {ID: "e-1", Type: "a", Data: api.Object{"n": 2}},
		"type":      {ID: "e-1", Type: "b", Data: api.Object{"n": 1}},
		"key":       {ID: "e-1", Type: "a", Key: "k", Data: api.Object{"n": 1}},
		"unmatched": {ID: "e-2", Type: "b", Data: api.Object{"n": 2}},
	} {
		if _, err := c.SendEvent(ctx, other); stepwell.CodeOf(err) != stepwell.CodeConflict || stepwell.HintOf(err) == "" {
			t.Errorf("other %s: %v", name, err)
		}
	}
	again, err := c.SendEvent(ctx, event)
	good(t, err)
	if len(again.Started) != 1 || !again.Started[0].Repeated || again.Started[0].Execution != first.Started[0].Execution {
		t.Errorf("again: %+v, first %+v", again, first)
	}
	again, err = c.SendEvent(ctx, unheard)
	good(t, err)
	if len(again.Started) != 0 {
		t.Errorf("an event that nobody heard started later: %+v", again)
	}
}

func TestEvents(t *testing.T) {
	r := newRig(t)
	c, ctx := r.client("editor"), t.Context()
	trig, err := c.EventTriggers().Create(ctx, api.NewEventTrigger{EventType: "model.*", Filters: api.Object{"model.size": 7}, Head: api.Head{Name: "models", Target: &api.Callback{Action: "util.log", Params: api.Object{"message": "a model"}}}})
	good(t, err)
	got, err := c.SendEvent(ctx, api.Event{ID: "e-1", Type: "model.onboarded", Data: api.Object{"model": map[string]any{"size": 7}}})
	good(t, err)
	if len(got.Started) != 1 || got.Started[0].Trigger != trig.ID || got.Started[0].Execution == "" {
		t.Errorf("received: %+v", got)
	}
	again, err := c.SendEvent(ctx, api.Event{ID: "e-1", Type: "model.onboarded", Data: api.Object{"model": map[string]any{"size": 7}}})
	good(t, err)
	if !again.Started[0].Repeated || again.Started[0].Execution != got.Started[0].Execution {
		t.Errorf("again: %+v", again)
	}
	other, err := c.SendEvent(ctx, api.Event{Type: "model.onboarded", Data: api.Object{"model": map[string]any{"size": 8}}})
	good(t, err)
	if len(other.Started) != 0 || other.ID == "" {
		t.Errorf("other: %+v", other)
	}
	_, err = c.SendEvent(ctx, api.Event{Type: "execution.ended"})
	want(t, err, stepwell.CodeInvalid)
	_, err = r.client("viewer").SendEvent(ctx, api.Event{Type: "x"})
	want(t, err, stepwell.CodeForbidden)

	id := r.begin("name: waits\nsteps:\n  - {id: w, action: util.wait_for, params: {event: order-7}}\noutputs: {x: \"{{ steps.w.outputs.x }}\"}\n", nil)
	r.until("waiting", func() bool { x, err := c.Execution(ctx, id); return err == nil && x.Steps[0].Status == "waiting" })
	sent, err := c.SendEvent(ctx, api.Event{Type: "order", Key: "order-7", Data: api.Object{"x": 42}})
	good(t, err)
	if sent.Signal != "delivered" {
		t.Errorf("sent: %+v", sent)
	}
	if x, err := r.app.Conductor.Wait(ctx, id); err != nil || string(x.Outputs) != `{"x":42}` {
		t.Errorf("ended: %+v, %v", x, err)
	}

	name := "all models"
	_, tag, err := c.EventTriggers().Get(ctx, trig.ID)
	good(t, err)
	changed, err := c.EventTriggers().Update(ctx, trig.ID, api.Fields{"name": name, "filters": api.Object{}}, tag)
	good(t, err)
	if changed.Name != name || len(changed.Filters) != 0 || changed.Count != 1 {
		t.Errorf("changed: %+v", changed)
	}
	list, err := c.EventTriggers().List(ctx, api.ListEventTriggers{})
	good(t, err)
	if len(list.Items) != 1 {
		t.Errorf("list: %+v", list)
	}
	want(t, c.EventTriggers().Delete(ctx, trig.ID, tag), "precondition")
	good(t, c.EventTriggers().Delete(ctx, trig.ID, ""))
}

func TestApprovals(t *testing.T) {
	r := newRig(t)
	c, ctx := r.client("operator"), t.Context()
	id := r.begin(asking, nil)
	var list *api.ApprovalList
	r.until("asked", func() bool {
		var err error
		list, err = c.Approvals(ctx, api.ListApprovals{})
		good(t, err)
		return len(list.Approvals) == 1
	})
	a := list.Approvals[0]
	if a.ID != id+".ask" || a.Message != "Publish it?" || a.Step != "ask" || a.Pipeline != "asking" || a.Asked.IsZero() || !a.AllowComment {
		t.Errorf("asked: %+v", a)
	}
	_, err := r.client("viewer").Approve(ctx, a.ID, "")
	want(t, err, stepwell.CodeForbidden)
	d, err := c.Approve(ctx, a.ID, "looks good")
	good(t, err)
	if !d.Approved || d.By != "operator" {
		t.Errorf("decision: %+v", d)
	}
	x, err := r.app.Conductor.Wait(ctx, id)
	good(t, err)
	if out := string(x.Outputs); !strings.Contains(out, `"approved":true`) || !strings.Contains(out, `"by":"operator"`) || !strings.Contains(out, "looks good") {
		t.Errorf("outputs: %s", out)
	}
	_, err = c.Reject(ctx, a.ID, "") // too late
	want(t, err, stepwell.CodeNotFound)
	if e := r.audit.entriesOf("approval.approve"); len(e) != 2 || e[1].Object != a.ID {
		t.Errorf("audit: %+v", e)
	}

	id = r.begin("name: asking2\nsteps:\n  - {id: ask, action: util.approval, params: {message: \"?\", approvers: [anna], allow_comment: false}}\n", nil)
	r.until("asked", func() bool {
		list, err = c.Approvals(ctx, api.ListApprovals{})
		good(t, err)
		return len(list.Approvals) == 1
	})
	_, err = c.Reject(ctx, id+".ask", "")
	want(t, err, stepwell.CodeForbidden) // only anna may
	for _, bad := range []string{"x", id, id + ".other", "nonsense.ask", "01234567-0000-7000-8000-000000000000.ask"} {
		_, err = c.Approve(ctx, bad, "")
		want(t, err, stepwell.CodeNotFound)
	}

	id = r.begin(asking, nil)
	r.until("asked", func() bool {
		list, err = c.Approvals(ctx, api.ListApprovals{Limit: 1})
		good(t, err)
		return list.Next != ""
	})
	second, err := c.Approvals(ctx, api.ListApprovals{Limit: 1, Cursor: list.Next})
	good(t, err)
	if len(second.Approvals) != 1 || second.Approvals[0].Execution != id {
		t.Errorf("second page: %+v", second)
	}
	_, err = c.Reject(ctx, id+".ask", "no")
	good(t, err)
	if x, err := r.app.Conductor.Wait(ctx, id); err != nil || x.Status != stepwell.ExecutionFailed {
		t.Errorf("rejected: %+v, %v", x, err)
	}
}

func TestCallbacks(t *testing.T) {
	r := newRig(t)
	called := make(chan string, 1)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		called <- req.Header.Get("X-Stepwell-Callback")
		w.WriteHeader(http.StatusAccepted)
	}))
	defer service.Close()
	begin := func() (id, path string) {
		id = r.begin("name: remote\nsteps:\n  - {id: job, action: util.http, retry: {max_attempts: 1}, params: {url: "+service.URL+", method: POST, callback: {timeout_seconds: 60}}}\noutputs: {all: \"{{ steps.job.outputs }}\"}\n", nil)
		return id, strings.TrimPrefix(<-called, r.server.URL)
	}
	id, path := begin()
	r.do("", "POST", path, map[string]any{"result": 42}).is(200) // it may come before the step waits
	if x, err := r.app.Conductor.Wait(t.Context(), id); err != nil || string(x.Outputs) != `{"all":{"result":42}}` {
		t.Errorf("ended: %s, %v", x.Outputs, err)
	}
	if got := r.do("", "POST", path, map[string]any{"result": 43}).is(200).object(); got["repeated"] != true {
		t.Errorf("repeated: %v", got)
	}
	id, path = begin()
	r.do("", "POST", path, map[string]any{"status": "failed", "error": "no disk"}).is(200)
	if x, err := r.app.Conductor.Wait(t.Context(), id); err != nil || x.Status != stepwell.ExecutionFailed || !strings.Contains(x.Failure.Message, "no disk") {
		t.Errorf("ended: %+v, %v", x.Failure, err)
	}
	_, path = begin()
	r.do("", "POST", path, "{").problem(400, stepwell.CodeInvalid)
	r.do("", "POST", "/api/v1/callbacks/made-up", map[string]any{}).problem(404, stepwell.CodeNotFound)
}
