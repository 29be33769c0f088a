package conductor_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/builtin"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/queue"
)

// changedDefinition is a store whose definitions say something else, as if another program had other rules or defaults.
type changedDefinition struct {
	conductor.Store
	change func(steps map[string]map[string]any)
}

func (c *changedDefinition) Definition(ctx context.Context, hash []byte) ([]byte, error) {
	body, err := c.Store.Definition(ctx, hash)
	var doc map[string]any
	if err == nil {
		err = json.Unmarshal(body, &doc)
	}
	if err != nil {
		return nil, err
	}
	steps := map[string]map[string]any{}
	for _, s := range doc["steps"].([]any) {
		steps[s.(map[string]any)["id"].(string)] = s.(map[string]any)
	}
	c.change(steps)
	return json.Marshal(doc)
}

// Executions fold to the same decisions in a program of the same rules, and each of ten changes of rules or defaults is found.
func TestRefold(t *testing.T) {
	run := crashRun(t, nil)
	row, err := run.Store.Execution(t.Context(), run.id)
	if err != nil {
		t.Fatal(err)
	}
	if row.Status.String() != "completed" {
		t.Fatalf("the execution is %s", row.Status)
	}
	refold := func(change func(map[string]map[string]any)) error {
		t.Helper()
		registry := &action.Registry{}
		if err := errors.Join(builtin.Register(registry, builtin.Options{}), registry.Add(basicActions(run.Clock.Now)...)); err != nil {
			t.Fatal(err)
		}
		c, err := conductor.New(t.Context(), conductor.Options{Store: &changedDefinition{run.Store, change}, Queue: &queue.Memory{}, Blobs: run.Store.Blobs(), Catalog: registry})
		if err != nil {
			t.Fatal(err)
		}
		return c.Refold(t.Context(), row)
	}
	if err := refold(func(map[string]map[string]any) {}); err != nil {
		t.Fatalf("unchanged: %v", err)
	}
	for name, change := range map[string]func(map[string]map[string]any){
		"fewer attempts":               func(s map[string]map[string]any) { s["flaky"]["retry"] = map[string]any{"max_attempts": 1} },
		"another dependency":           func(s map[string]map[string]any) { s["spawn"]["depends_on"] = []any{} },
		"a step that waits for more":   func(s map[string]map[string]any) { s["large"]["depends_on"] = []any{"first"} },
		"a condition that holds":       func(s map[string]map[string]any) { delete(s["never"], "condition") },
		"a condition that does not":    func(s map[string]map[string]any) { s["nap"]["condition"] = "{{ 1 > 2 }}" },
		"more iterations":              func(s map[string]map[string]any) { s["each"]["for_each"].(map[string]any)["items"] = 5 },
		"fewer iterations":             func(s map[string]map[string]any) { s["each"]["for_each"].(map[string]any)["items"] = 3 },
		"one iteration at a time":      func(s map[string]map[string]any) { s["each"]["for_each"].(map[string]any)["max_concurrency"] = 1 },
		"a rule that is met too early": func(s map[string]map[string]any) { s["join"]["trigger_rule"] = "one_success" },
		"a rule that is not met":       func(s map[string]map[string]any) { s["join"]["trigger_rule"] = "one_failed" },
	} {
		err := refold(change)
		if d, ok := errors.AsType[*engine.Diverged](err); !ok || d.Version == 0 || len(d.Now)+len(d.Recorded) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after, err := run.Store.Execution(t.Context(), run.id); err != nil || after.Version != row.Version || after.Failure != nil {
		t.Errorf("the execution was changed: %+v, %v", after, err)
	}
}
