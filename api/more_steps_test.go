package api_test

import (
	"testing"
)

// An execution's answer says where /steps goes on behind the first thousand steps.
func TestMoreSteps(t *testing.T) {
	r := newRig(t)
	id := r.run("name: many\nsteps: [{id: loop, action: util.noop, for_each: 1003}]\n", nil)
	body := r.do("viewer", "GET", "/api/v1/executions/"+id, nil).is(200).object()
	cursor, _ := body["steps_cursor"].(string)
	if n := len(body["steps"].([]any)); n != 1000 || cursor == "" {
		t.Fatalf("%d steps, cursor %q", n, cursor)
	}
	rest := r.do("viewer", "GET", "/api/v1/executions/"+id+"/steps?cursor="+cursor, nil).is(200).object()
	steps := rest["steps"].([]any)
	if len(steps) != 4 || steps[0].(map[string]any)["step_id"] != "loop[999]" || rest["next_cursor"] != nil {
		t.Errorf("%d more steps, first %v", len(steps), steps[0])
	}
	if all := r.do("viewer", "GET", "/api/v1/executions/"+r.run(greeting, map[string]any{"who": "Ann"}), nil).is(200).object(); all["steps_cursor"] != nil {
		t.Errorf("two steps, cursor %v", all["steps_cursor"])
	}
}
