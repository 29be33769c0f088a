package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

const greeting = `
name: greeting
parameters:
  - {name: who, type: string, required: true}
  - {name: token, type: string, secret: true, required: false}
steps:
  - {id: hello, action: util.set_output, params: {outputs: {text: "Hello, {{ params.who }}"}}}
  - {id: log, action: util.log, depends_on: [hello], params: {message: "{{ steps.hello.outputs.text }}"}}
outputs: {text: "{{ steps.hello.outputs.text }}"}
`

const failing = `
name: failing
steps:
  - {id: good, action: util.set_output, params: {outputs: {a: 1}}}
  - {id: bad, action: util.fail, depends_on: [good], params: {message: nope}}
  - {id: after, action: util.log, depends_on: [bad], params: {message: never}}
`

const waiting = `
name: waiting
steps:
  - {id: nap, action: util.wait, params: {seconds: 3600}}
  - {id: then, action: util.log, depends_on: [nap], params: {message: done}}
`

const asking = `
name: asking
steps:
  - {id: ask, action: util.approval, params: {message: "Publish it?"}}
  - {id: then, action: util.log, depends_on: [ask], params: {message: "{{ steps.ask.outputs.by }}"}}
outputs: {decision: "{{ steps.ask.outputs }}"}
`

func TestGetExecution(t *testing.T) {
	r := newRig(t)
	id := r.run(greeting, map[string]any{"who": "Ann", "token": "s3cret-value"})
	body := r.do("viewer", "GET", "/api/v1/executions/"+id, nil).is(200).object()
	for _, field := range []string{"execution_id", "job_id", "workflow_id", "status", "started_at", "completed_at", "duration_ms", "progress", "current_step", "steps", "result", "error"} {
		if _, ok := body[field]; !ok {
			t.Errorf("%s is missing", field)
		}
	}
	progress := body["progress"].(map[string]any)
	if body["execution_id"] != id || body["status"] != "completed" || progress["completed"] != 2.0 || progress["total"] != 2.0 || progress["percentage"] != 100.0 {
		t.Errorf("answer: %v", body)
	}
	if fmt.Sprint(body["result"]) != "map[text:Hello, Ann]" || body["error"] != nil || body["current_step"] != nil || body["job_id"] != nil {
		t.Errorf("answer: %v", body)
	}
	if p := body["params"].(map[string]any); p["token"] != "***" || p["who"] != "Ann" {
		t.Errorf("params: %v", p)
	}
	steps := body["steps"].([]any)
	if len(steps) != 2 || steps[0].(map[string]any)["step_id"] != "hello" || steps[0].(map[string]any)["status"] != "completed" {
		t.Errorf("steps: %v", steps)
	}
	if at := body["started_at"].(string); len(at) != len("2006-01-02T15:04:05.000Z") || !strings.HasSuffix(at, "Z") {
		t.Errorf("started_at: %s", at)
	}
	r.do("viewer", "GET", "/api/v1/executions/"+id[:35], nil).is(200) // a beginning that no other has
	r.do("viewer", "GET", "/api/v1/executions/01234567-0000-7000-8000-000000000000", nil).problem(404, stepwell.CodeNotFound)
	r.do("viewer", "GET", "/api/v1/executions/"+url.PathEscape("../../etc"), nil).problem(404, stepwell.CodeNotFound)
	r.do("", "GET", "/api/v1/executions/"+id, nil).problem(401, stepwell.CodeUnauthenticated)
}

func TestFailedExecution(t *testing.T) {
	r := newRig(t)
	id := r.run(failing, nil)
	var x api.ExecutionDetail
	r.do("viewer", "GET", "/api/v1/executions/"+id, nil).is(200).into(&x)
	if x.Status != "failed" || x.Error == nil || x.Error.Step != "bad" || !strings.Contains(x.Error.Message, "nope") {
		t.Errorf("%+v, error %+v", x.Execution, x.Error)
	}
	body := r.do("viewer", "GET", "/api/v1/pipeline/"+id, nil).is(200).object()
	if body["status"] != "failed" || !strings.Contains(fmt.Sprint(body["error_message"]), "nope") {
		t.Errorf("in the words of pipeline-steps: %v", body)
	}
	var status []string
	for _, s := range body["steps"].([]any) {
		status = append(status, fmt.Sprint(s.(map[string]any)["step_key"], "=", s.(map[string]any)["status"]))
	}
	if got := strings.Join(status, " "); got != "good=completed bad=failed after=pending" {
		t.Errorf("steps: %s", got)
	}
	again := r.do("operator", "POST", "/api/v1/pipeline/"+id+"/retry", nil).is(200).object()
	if again["execution_id"] != id {
		t.Errorf("retry: %v", again)
	}
	if e := r.audit.last(); e.Action != "steps.retry" || e.Object != id || e.Actor != "operator" || e.Result != "ok" || e.Remote == "" {
		t.Errorf("audit: %+v", e)
	}
	r.do("operator", "POST", "/api/v1/pipeline/"+r.run(greeting, map[string]any{"who": "x"})+"/retry", nil).problem(409, stepwell.CodeConflict)
}

func TestListExecutions(t *testing.T) {
	r := newRig(t)
	var want []string
	for i := range 7 {
		want = append([]string{r.run(greeting, map[string]any{"who": fmt.Sprint(i)})}, want...)
	}
	failed := r.run(failing, nil)
	var seen []string
	cursor := ""
	for n := 0; ; n++ {
		var list api.ExecutionList
		r.do("viewer", "GET", "/api/v1/executions?pipeline=greeting&limit=3&cursor="+cursor, nil).is(200).into(&list)
		for _, x := range list.Executions {
			seen = append(seen, x.ID)
		}
		if n == 0 { // what comes meanwhile does not move the pages
			r.run(greeting, map[string]any{"who": "late"})
		}
		if cursor = list.Next; cursor == "" {
			break
		}
	}
	if strings.Join(seen, " ") != strings.Join(want, " ") {
		t.Errorf("pages: %v\nwant   %v", seen, want)
	}
	raw := r.do("viewer", "GET", "/api/v1/executions?status=failed,cancelled", nil).is(200)
	var list api.ExecutionList
	if raw.into(&list); len(list.Executions) != 1 || list.Executions[0].ID != failed {
		t.Errorf("failed ones: %s", raw.body)
	}
	if strings.Contains(string(raw.body), "result") || strings.Contains(string(raw.body), "nope") {
		t.Errorf("a list shows results: %s", raw.body)
	}
	for _, bad := range []string{"status=done", "limit=0", "limit=501", "limit=x", "cursor=nonsense", "from=yesterday", "nosuch=1", "cursor=" + strings.Repeat("A", 601)} {
		p := r.do("viewer", "GET", "/api/v1/executions?"+bad, nil).problem(400, stepwell.CodeInvalid)
		if name, _, _ := strings.Cut(bad, "="); !strings.Contains(p.Message, name) {
			t.Errorf("%s: %s", bad, p.Message)
		}
	}
	steps := r.do("viewer", "GET", "/api/v1/executions/"+failed+"/steps?limit=1", nil).is(200).object()
	next := steps["next_cursor"].(string)
	r.do("viewer", "GET", "/api/v1/executions?cursor="+next, nil).problem(400, stepwell.CodeInvalid) // of another list
}

func TestStepsLogsHistory(t *testing.T) {
	r := newRig(t)
	id := r.run(greeting, map[string]any{"who": "Ann"})
	var steps api.StepList
	r.do("viewer", "GET", "/api/v1/executions/"+id+"/steps?outputs=true", nil).is(200).into(&steps)
	if len(steps.Steps) != 2 || string(steps.Steps[0].Outputs) != `{"text":"Hello, Ann"}` {
		t.Errorf("steps: %+v", steps)
	}
	var first, second api.StepList
	r.do("viewer", "GET", "/api/v1/executions/"+id+"/steps?limit=1", nil).is(200).into(&first)
	r.do("viewer", "GET", "/api/v1/executions/"+id+"/steps?limit=1&cursor="+first.Next, nil).is(200).into(&second)
	if first.Steps[0].ID != "hello" || second.Steps[0].ID != "log" || second.Next != "" || first.Steps[0].Outputs != nil {
		t.Errorf("pages: %+v, %+v", first, second)
	}
	var logs api.LogList
	r.do("viewer", "GET", "/api/v1/executions/"+id+"/logs?step_id=log&level=info&tail=10", nil).is(200).into(&logs)
	if len(logs.Logs) != 1 || logs.Logs[0].Message != "Hello, Ann" || logs.Logs[0].Step != "log" || logs.Logs[0].Level != "info" || string(logs.Logs[0].Metadata) != "{}" {
		t.Errorf("logs: %+v", logs)
	}
	for _, bad := range []string{"level=loud", "tail=-1", "since=x", "cursor=x"} {
		r.do("viewer", "GET", "/api/v1/executions/"+id+"/logs?"+bad, nil).problem(400, stepwell.CodeInvalid)
	}
	var history api.HistoryList
	r.do("viewer", "GET", "/api/v1/executions/"+id+"/history", nil).is(200).into(&history)
	types := map[string]bool{}
	for _, e := range history.Events {
		types[e.Type] = true
	}
	for _, want := range []string{"start", "queued", "started", "completed"} {
		if !types[want] {
			t.Errorf("no %s in %+v", want, history.Events)
		}
	}
	if d := r.do("viewer", "GET", "/api/v1/executions/"+id+"/definition", nil).is(200).object(); d["name"] != "greeting" {
		t.Errorf("definition: %v", d)
	}
}

func TestControl(t *testing.T) {
	r := newRig(t)
	id := r.begin(waiting, nil)
	at := "/api/v1/executions/" + id
	r.until("waiting", func() bool {
		return r.do("viewer", "GET", at, nil).is(200).object()["current_step"] == "nap"
	})
	if got := r.do("operator", "POST", at+"/pause", nil).is(200).object(); got["status"] != "paused" {
		t.Errorf("pause: %v", got)
	}
	if got := r.do("operator", "POST", at+"/resume", nil).is(200).object(); got["status"] != "running" {
		t.Errorf("resume: %v", got)
	}
	r.do("viewer", "POST", at+"/cancel", nil).problem(403, stepwell.CodeForbidden)
	if e := r.audit.last(); e.Action != "execution.cancel" || e.Result != "forbidden" || e.Actor != "viewer" || e.Object != id {
		t.Errorf("audit: %+v", e)
	}
	r.do("", "POST", at+"/cancel", nil).problem(401, stepwell.CodeUnauthenticated)
	r.do("operator", "POST", at+"/cancel", map[string]any{"reason": 7}).problem(400, stepwell.CodeInvalid)
	r.do("operator", "POST", at+"/retry", nil).problem(409, stepwell.CodeConflict)
	if got := r.do("operator", "POST", at+"/cancel", map[string]any{"reason": "enough"}).is(200).object()["status"]; got != "cancelling" && got != "cancelled" {
		t.Errorf("cancel: %v", got)
	}
	if _, err := r.app.Conductor.Wait(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := r.do("operator", "POST", at+"/cancel", nil).is(200).object(); got["status"] != "cancelled" { // twice is harmless
		t.Errorf("cancel: %v", got)
	}
	r.do("operator", "POST", at+"/pause", nil).problem(409, stepwell.CodeConflict)

	preview := r.do("viewer", "GET", at+"/restart/preview?step_id=nap", nil).is(200).object()
	if fmt.Sprint(preview["steps"]) != "[nap then]" {
		t.Errorf("preview: %v", preview)
	}
	r.do("viewer", "GET", at+"/restart/preview", nil).problem(400, stepwell.CodeInvalid)
	r.do("viewer", "GET", at+"/restart/preview?step_id=none", nil).problem(404, stepwell.CodeNotFound)
	r.do("operator", "POST", at+"/restart", map[string]any{"step_id": "none"}).problem(404, stepwell.CodeNotFound)
	r.do("operator", "POST", at+"/restart", map[string]any{}).problem(400, stepwell.CodeInvalid)
	if got := r.do("operator", "POST", at+"/restart", map[string]any{"step_id": "then"}).is(200).object(); got["execution_id"] != id {
		t.Errorf("restart: %v", got)
	}
}

func TestRetry(t *testing.T) {
	r := newRig(t)
	id := r.run(failing, nil)
	got := r.do("operator", "POST", "/api/v1/executions/"+id+"/retry", map[string]any{"from_step": "bad"}).is(http.StatusCreated)
	again := got.object()["execution_id"].(string)
	if again == id || got.header.Get("Location") != "/api/v1/executions/"+again {
		t.Errorf("retry: %s, at %s", got.body, got.header.Get("Location"))
	}
	if x := r.do("viewer", "GET", "/api/v1/executions/"+again, nil).is(200).object(); x["parent_id"] != id || x["trigger_type"] != "retry" {
		t.Errorf("retried: %v", x)
	}
	r.do("operator", "POST", "/api/v1/executions/"+id+"/retry", map[string]any{"from_step": "none"}).problem(404, stepwell.CodeNotFound)
}
