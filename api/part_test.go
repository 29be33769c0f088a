package api_test

import (
	"fmt"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

const parted = `name: parted
steps:
  - {id: a, action: transform, params: {input: 1, expression: "%s"}}
  - {id: b, action: transform, depends_on: [a], params: {input: 1, expression: "{{ steps.a.outputs.result }} of b"}}
  - {id: c, action: fail, depends_on: [b], params: {message: no}}
  - {id: side, action: util.noop}
finally:
  - {id: last, action: util.noop}
outputs:
  done: "{{ steps.c.outputs.x | default('nothing') }}, {{ steps.b.outputs.result }}"
`

func (r *rig) execute(t *testing.T, role string, body map[string]any) *api.Execution {
	t.Helper()
	var started api.Started
	r.do(role, "POST", "/api/v1/execute", body).is(201).into(&started)
	if _, err := r.app.Conductor.Wait(t.Context(), started.ID); err != nil {
		t.Fatal(err)
	}
	var x api.Execution
	r.do("viewer", "GET", "/api/v1/executions/"+started.ID, nil).is(200).into(&x)
	return &x
}

// states are the steps of an execution: their status, why they were skipped, and whether an attempt was made here.
func (r *rig) states(t *testing.T, id string) map[string]string {
	t.Helper()
	list, err := r.client("viewer").Steps(t.Context(), api.ListSteps{ExecutionPath: api.ExecutionPath{ID: id}, Limit: 100})
	good(t, err)
	out := map[string]string{}
	for _, s := range list.Steps {
		out[s.ID] = fmt.Sprintf("%s %d", s.Status, s.Attempt)
		if s.Error != nil {
			out[s.ID] += " " + s.Error.Message
		}
	}
	return out
}

func TestExecuteUntil(t *testing.T) {
	r := newRig(t)
	document := fmt.Sprintf(parted, "first")
	x := r.execute(t, "editor", map[string]any{"workflow_definition": document, "until": "b"})
	got := r.states(t, x.ID)
	want := map[string]string{"a": "completed 1", "b": "completed 1", "c": "skipped 0 not asked for", "side": "skipped 0 not asked for", "finally.last": "completed 1"}
	if x.Status != "completed" || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s with %v, want %v", x.Status, got, want)
	}
	changed := fmt.Sprintf(parted, "second")
	x = r.execute(t, "editor", map[string]any{"workflow_definition": changed, "until": "b", "seed": map[string]any{"execution_id": x.ID}})
	got = r.states(t, x.ID)
	want["a"] = "completed 0"
	if x.Status != "completed" || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("seeded: %s with %v, want %v", x.Status, got, want)
	}
	if outputs := r.do("viewer", "GET", "/api/v1/executions/"+x.ID, nil).is(200).object()["result"]; fmt.Sprint(outputs) != "map[done:nothing, first of b]" {
		t.Errorf("b did not see the result that was taken over: %v", outputs)
	}
	for name, body := range map[string]map[string]any{
		"an unknown step":      {"workflow_definition": document, "until": "bb"},
		"with a job":           {"job_id": "j", "until": "b"},
		"a seed with a job":    {"job_id": "j", "seed": map[string]any{"execution_id": x.ID}},
		"a seed without an id": {"workflow_definition": document, "seed": map[string]any{}},
	} {
		if got := r.do("editor", "POST", "/api/v1/execute", body); got.status != 400 && got.status != 422 {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	r.do("editor", "POST", "/api/v1/execute", map[string]any{"workflow_definition": document, "seed": map[string]any{"execution_id": "00000000-0000-0000-0000-000000000000"}}).problem(404, stepwell.CodeNotFound)
	r.do("operator", "POST", "/api/v1/execute", map[string]any{"workflow_definition": document, "until": "b"}).problem(403, stepwell.CodeForbidden)
}

// A stored version runs up to a step for operators too, and the rest of it runs on results of that execution.
func TestExecuteUntilOfAStoredPipeline(t *testing.T) {
	r := newRig(t)
	r.do("editor", "POST", "/api/v1/pipelines", map[string]any{"document": fmt.Sprintf(parted, "first")}).is(201)
	x := r.execute(t, "operator", map[string]any{"workflow_id": "parted", "until": "b"})
	if got := r.states(t, x.ID); got["b"] != "completed 1" || got["c"] != "skipped 0 not asked for" {
		t.Fatalf("the steps are %v", got)
	}
	x = r.execute(t, "operator", map[string]any{"workflow_id": "parted", "seed": map[string]any{"execution_id": x.ID}})
	if got := r.states(t, x.ID); x.Status != "failed" || got["a"] != "completed 0" || got["b"] != "completed 0" || got["side"] != "completed 1" || got["c"][:6] != "failed" {
		t.Fatalf("%s with %v", x.Status, got)
	}
	again := r.do("operator", "POST", "/api/v1/executions/"+x.ID+"/retry", map[string]any{}).is(201).object()["execution_id"].(string)
	if _, err := r.app.Conductor.Wait(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if got := r.states(t, again); got["a"] != "completed 0" || got["side"] != "completed 0" {
		t.Errorf("a retry runs %v", got)
	}
}
