package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/definition"
)

// TestSource: what was written is shown as it was written, and of what was not kept the definition, which says so.
func TestSource(t *testing.T) {
	r := newRig(t)
	const text = "# why it is there\nname: told\nsteps:\n  - id: a # one\n    action: util.log\n    params: {message: hello}\n\n  - id: b\n    action: util.log\n    params: {message: x}\n"
	source := func(id string) (s api.ExecutionSource) {
		t.Helper()
		r.do("viewer", "GET", "/api/v1/executions/"+id+"/source", nil).is(200).into(&s)
		return s
	}
	start := func(body map[string]any) string {
		t.Helper()
		return fmt.Sprint(r.do("editor", "POST", "/api/v1/execute", body).is(201).object()["execution_id"])
	}
	inline := start(map[string]any{"workflow_definition": text})
	if s := source(inline); s.Document != text || s.Origin != "inline" || s.Format != "yaml" || fmt.Sprint(s.Steps) != "[{a 4 6} {b 8 10}]" {
		t.Errorf("%+v", s)
	}
	if d := string(r.do("viewer", "GET", "/api/v1/executions/"+inline+"/definition", nil).is(200).body); strings.Contains(d, "why it is there") {
		t.Errorf("the definition has the text: %s", d)
	}
	other := start(map[string]any{"workflow_definition": strings.ReplaceAll(text, "why it is there", "for another reason")})
	if s := source(other); !strings.HasPrefix(s.Document, "# for another reason\n") {
		t.Errorf("%+v", s)
	}
	if c := r.do("viewer", "GET", "/api/v1/executions/"+inline+"/compare/"+other, nil).is(200).object(); c["definition_differs"] != false {
		t.Errorf("comments make a difference: %v", c)
	}
	object := start(map[string]any{"workflow_definition": map[string]any{"name": "object", "steps": []any{map[string]any{"id": "a", "action": "util.log", "params": map[string]any{"message": "x"}}}}})
	if s := source(object); s.Origin != "inline" || s.Format != "json" || fmt.Sprint(s.Steps) != "[{a 1 1}]" {
		t.Errorf("%+v", s)
	}
	again := fmt.Sprint(r.do("operator", "POST", "/api/v1/executions/"+r.execute(t, "editor", map[string]any{"workflow_definition": "# mine\nname: wrong\nsteps: [{id: a, action: util.fail, params: {message: no}}]\n"}).ID+"/retry", nil).is(201).object()["execution_id"])
	if s := source(again); !strings.HasPrefix(s.Document, "# mine\n") || s.Origin != "inline" {
		t.Errorf("a retry: %+v", s)
	}
	action := start(map[string]any{"action_type": "util.log", "params": map[string]any{"message": "x"}})
	if s := source(action); s.Origin != "definition" || s.Format != "yaml" || !strings.Contains(s.Document, "action: util.log\n") || len(s.Steps) != 1 {
		t.Errorf("%+v", s)
	}
	// As all executions of earlier releases are.
	old := r.begin(text, nil)
	if s := source(old); s.Origin != "definition" || !strings.HasPrefix(s.Document, "name: told\n") || len(s.Steps) != 2 || s.Steps[1].Step != "b" || s.Steps[1].From <= s.Steps[0].From {
		t.Errorf("%+v", s)
	}

	r.do("editor", "POST", "/api/v1/pipelines", map[string]any{"document": text}).is(201)
	stored := start(map[string]any{"workflow_id": "told"})
	p := r.do("viewer", "GET", "/api/v1/pipelines/told", nil).is(200).object()
	id := fmt.Sprint(p["pipeline_id"])
	if s := source(stored); s.Document != text || s.Origin != "version" || s.Pipeline != id || s.Version != 1 {
		t.Errorf("%+v", s)
	}
	r.do("editor", "DELETE", "/api/v1/pipelines/told", nil).is(204)
	if s := source(stored); s.Origin != "definition" || s.Pipeline != "" {
		t.Errorf("of a deleted pipeline: %+v", s)
	}
	large := text + "# " + strings.Repeat("x", definition.MaxText)
	r.do("editor", "POST", "/api/v1/execute", map[string]any{"workflow_definition": large}).problem(413, stepwell.CodeLimit)
	r.do("viewer", "GET", "/api/v1/executions/00000000/source", nil).problem(404, stepwell.CodeNotFound)
}
