package conductor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// Steps spawned under one name give 40 MB together, above the limit for readers. A reader fails with the reason and
// the remedy; a dependent that does not read them runs; each output is stored, and the conductor goes on.
func TestFamilyThatIsTooLarge(t *testing.T) {
	t.Parallel()
	r := newRig(t, build{workers: 4, actions: []action.Action{
		{Spec: spec.Spec{Name: "t.many", Summary: "For tests.", Spawns: []string{"big"}}, Handler: action.HandlerFunc(func(ctx context.Context, c *action.Call) (any, error) {
			for i := range 40 {
				if err := c.Spawn(ctx, action.NewStep{Name: "big", Key: fmt.Sprint(i), Action: "t.big"}); err != nil {
					return nil, err
				}
			}
			return nil, nil
		})},
		{Spec: spec.Spec{Name: "t.big", Summary: "For tests."}, Handler: callHandler(func(*action.Call) (any, error) {
			return map[string]any{"text": strings.Repeat("x", 1<<20)}, nil
		})},
	}})
	id := r.begin(pipeline(t, `
name: large
settings: {fail_fast: false}
steps:
  - {id: many, action: t.many}
  - {id: reads, action: t.echo, depends_on: [big], params: {n: "{{ steps.big.outputs | length }}"}}
  - {id: loops, action: t.echo, depends_on: [big], for_each: "{{ steps.big.outputs }}", params: {n: 1}}
  - {id: asks, action: t.echo, depends_on: [big], condition: "{{ steps.big.outputs | length > 1 }}"}
  - {id: waits, action: t.echo, depends_on: [big], params: {n: 7}}
`))
	x := r.end(id, stepwell.ExecutionFailed)
	steps := r.steps(x.No)
	for _, key := range []string{"reads", "loops", "asks"} {
		f := steps[key].Error
		if f == nil || f.Code != stepwell.CodeLimit || f.Message != "the outputs of the steps big exceed 16 MiB" || f.Hint != "let the steps return less, or write to files and return their names" {
			t.Errorf("%s: %v %+v", key, steps[key].Status, f)
		}
	}
	if steps["waits"].Status != stepwell.StepCompleted {
		t.Errorf("who only waits: %v %+v", steps["waits"].Status, steps["waits"].Error)
	}
	for _, key := range []string{"big:0", "big:39"} {
		if s := steps[key]; s.Status != stepwell.StepCompleted || len(s.Output) == 0 {
			t.Errorf("%s: %v", key, s.Status)
		}
	}
	r.end(r.begin(pipeline(t, one("t.echo"))), stepwell.ExecutionCompleted)
}
