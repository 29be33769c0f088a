package api_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/api"
)

// TestValidateKnowsThePast: schedules and past executions of the pipeline that a document names count when it is validated and planned.
func TestValidateKnowsThePast(t *testing.T) {
	r := newRig(t)
	document := "name: slow\nsettings: {timeout_seconds: 0.2}\nsteps:\n  - {id: nap, action: util.wait, timeout_seconds: 0.1, params: {seconds: 0.01}}\n"
	codes := func(document, path string) (list []string) {
		t.Helper()
		var v api.Validation
		r.do("viewer", "POST", "/api/v1/pipelines/"+path, map[string]any{"document": document}).is(200).into(&v)
		for _, p := range v.Problems {
			if p.Code != "" && (!p.Warning || !v.Valid) {
				t.Errorf("%+v", p)
			}
			list = append(list, p.Code)
		}
		return list
	}
	if got := codes(document, "validate"); len(got) > 0 {
		t.Errorf("of a pipeline without a past: %v", got)
	}
	r.do("editor", "POST", "/api/v1/pipelines", map[string]any{"document": strings.Replace(document, "slow", "other", 1)}).is(201)
	r.do("editor", "POST", "/api/v1/pipelines", map[string]any{"document": strings.Replace(document, "name: slow", "name: timed", 1)}).is(201)
	for _, schedule := range []string{`{"type": "cron", "expression": "30 2 * * *", "timezone": "Europe/Berlin"}`, `{"type": "manual"}`} {
		r.do("editor", "POST", "/api/v1/scheduler/jobs", `{"name": "night", "schedule": `+schedule+`, "callback": {"workflow_id": "timed"}}`).is(201)
	}
	for _, path := range []string{"validate", "plan"} {
		if got := codes(strings.Replace(document, "slow", "timed", 1), path); len(got) == 0 || slices.ContainsFunc(got, func(c string) bool { return c != "SW502" }) {
			t.Errorf("%s: of a pipeline with a schedule: %v", path, got)
		}
		if got := codes(strings.Replace(document, "slow", "other", 1), path); len(got) > 0 {
			t.Errorf("%s: of another pipeline: %v", path, got)
		}
	}
}

// TestPastDurations: time limits are compared with what past executions took.
func TestPastDurations(t *testing.T) {
	r := newRig(t)
	document := "name: slow\nsteps:\n  - {id: nap, action: util.exec, params: {command: sleep 0.3}}\n"
	r.run(document, nil)
	hasty := strings.Replace(document, "steps:", "settings: {timeout_seconds: 0.2}\nsteps:", 1)
	hasty = strings.Replace(hasty, "util.exec,", "util.exec, timeout_seconds: 0.1,", 1)
	var v api.Validation
	r.do("viewer", "POST", "/api/v1/pipelines/validate", map[string]any{"document": hasty}).is(200).into(&v)
	if len(v.Problems) != 2 || v.Problems[0].Code != "SW504" || v.Problems[0].Line != 2 || v.Problems[1].Line != 4 || !strings.Contains(v.Problems[1].Message, `"nap" took`) {
		t.Errorf("%+v", v.Problems)
	}
	ignored := strings.Replace(hasty, "\nsteps:", " # stepwell: ignore SW504 it is meant\nsteps:", 1)
	r.do("viewer", "POST", "/api/v1/pipelines/validate", map[string]any{"document": ignored}).is(200).into(&v)
	if len(v.Problems) != 1 || v.Problems[0].Line != 4 {
		t.Errorf("%+v", v.Problems)
	}
}
