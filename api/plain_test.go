package api_test

import (
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

// What people read at a terminal is not escaped for web pages, and says what it is about.
func TestPlainMessages(t *testing.T) {
	r := newRig(t)
	if got := r.do("admin", "GET", "/api/v1/<x>", nil); !strings.Contains(string(got.body), "/api/v1/<x>") {
		t.Errorf("%s", got.body)
	}
	p := r.do("admin", "POST", "/api/v1/execute", `{"action_type":"util.noop","params":{"s":1e400}}`).problem(400, stepwell.CodeInvalid)
	if !strings.Contains(p.Message, "something in it has the wrong type: it is a number 1e400") {
		t.Errorf("%s", p.Message)
	}
	p = r.do("admin", "POST", "/api/v1/execute", `{}`).problem(400, stepwell.CodeInvalid)
	if !strings.Contains(p.Hint, "workflow_definition") {
		t.Errorf("the hint names no field of the request: %s", p.Hint)
	}
}

// A single problem's own hint is the answer's hint.
func TestHintOfOneDetail(t *testing.T) {
	r := newRig(t)
	r.do("admin", "POST", "/api/v1/scheduler/jobs", `{"job_id":"j","schedule":{"type":"cron","expression":"0 0 * * *"},"callback":{"action_type":"util.noop"}}`).is(201)
	p := r.do("admin", "POST", "/api/v1/scheduler/jobs/j/backfill", `{"from":"2026-11-08","to":"2026-11-09T00:00:00Z"}`).problem(400, stepwell.CodeInvalid)
	if p.Message != "body.from: not a time" || !strings.Contains(p.Hint, "2026-01-31T09:00:00Z") {
		t.Errorf("%s (%s)", p.Message, p.Hint)
	}
	p = r.do("admin", "POST", "/api/v1/execute", `{}`, "Content-Type", "application/x-www-form-urlencoded").problem(415, stepwell.CodeInvalid)
	if !strings.Contains(p.Hint, "application/json") {
		t.Errorf("%s (%s)", p.Message, p.Hint)
	}
}

// A job may come before what it starts, but a slip in its name is seen when it is stored.
func TestJobOfNothing(t *testing.T) {
	r := newRig(t)
	r.do("admin", "POST", "/api/v1/pipelines", `{"document":{"name":"there","steps":[{"id":"a","action":"util.noop"}]}}`).is(201)
	for callback, want := range map[string]string{`{"workflow_id":"there"}`: "", `{"workflow_id":"their"}`: "callback.workflow_id", `{"action_type":"util.noop"}`: "", `{"action_type":"util.nop"}`: "callback.action_type"} {
		var job api.Job
		made := r.do("admin", "POST", "/api/v1/scheduler/jobs", `{"schedule":{"type":"manual"},"callback":`+callback+`}`).is(201).into(&job)
		changed := api.Job{}
		r.do("admin", "PUT", "/api/v1/scheduler/jobs/"+job.ID, `{"name":"x"}`).is(200).into(&changed)
		for _, j := range []api.Job{job, changed} {
			if got := len(j.Warnings) == 1 && j.Warnings[0].Path == want; got != (want != "") || want == "" && len(j.Warnings) > 0 {
				t.Errorf("%s: %s", callback, made.body)
			}
		}
	}
}
