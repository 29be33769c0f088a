package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/worker"
)

// refusing is a Reporter of attempts that another worker has.
type refusing struct{}

func (refusing) Report(context.Context, int64, engine.Event) error {
	return stepwell.Errorf(stepwell.CodeConflict, "", "taken")
}

// noBlobs is for attempts that write little.
type noBlobs struct{ store.Blobs }

// TestRunner runs attempts without a pool, a queue or a store: a prepared attempt may run in another place.
func TestRunner(t *testing.T) {
	actions := &action.Registry{}
	add := func(s spec.Spec, f action.HandlerFunc) {
		s.Summary = "For tests."
		if err := actions.Add(action.Action{Spec: s, Handler: f}); err != nil {
			t.Fatal(err)
		}
	}
	called := 0
	add(spec.Spec{Name: "t.add", Params: []spec.Field{{Name: "n", Type: spec.Integer, Required: true, Doc: "x"}, {Name: "by", Type: spec.Integer, Default: int64(1), Doc: "x"}}},
		func(_ context.Context, c *action.Call) (any, error) {
			called++
			return map[string]any{"sum": c.Params["n"].(int64) + c.Params["by"].(int64)}, nil
		})
	add(spec.Spec{Name: "t.stop", NotIdempotent: true}, func(ctx context.Context, _ *action.Call) (any, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	runner, err := worker.NewRunner(worker.Options{Actions: actions, Reporter: refusing{}, Records: nothing{}, Blobs: noBlobs{}, Name: "here"})
	if err != nil {
		t.Fatal(err)
	}
	task := func(name, params string) *engine.Task {
		v, err := plan.CompileValue(map[string]any{"n": params})
		if err != nil {
			t.Fatal(err)
		}
		return &engine.Task{Run: 1, Idx: 3, Epoch: 2, Attempt: 1, Key: "s", Step: &plan.Step{ID: "s", Action: name, Params: v, Policy: &plan.Policy{}}}
	}
	p := runner.Prepare(t.Context(), task("t.add", "{{ 20 + 1 }}"))
	if p.Err != nil || called != 0 || string(p.Input) != `{"n":21}` || p.Params["by"] != int64(1) {
		t.Fatalf("prepared %+v after %d calls", p, called)
	}
	bare := &engine.Task{Run: 1, Idx: 3, Epoch: 2, Attempt: 1, Key: "s", Step: &plan.Step{ID: "s", Action: "t.add", Policy: &plan.Policy{}}}
	for where, p := range map[string]worker.Prepared{"here": p, "elsewhere": {Task: bare, Params: p.Params}} {
		if ev := runner.Run(t.Context(), p); ev.Kind != engine.Done || string(ev.Output) != `{"sum":22}` || ev.Idx != 3 || ev.Epoch != 2 || ev.Worker != "here" || ev.Started == 0 {
			t.Errorf("%s: %+v", where, ev)
		}
	}
	called = 0
	for _, params := range []string{"x", "{{ nothing.there }}"} {
		ev := runner.Run(t.Context(), runner.Prepare(t.Context(), task("t.add", params)))
		if ev.Kind != engine.Failed || !ev.Permanent || ev.Failure.Code != stepwell.CodeInvalid || !strings.HasPrefix(ev.Failure.Message, "params: ") {
			t.Errorf("with %s: %+v %+v", params, ev, ev.Failure)
		}
	}
	if ev := runner.Run(t.Context(), runner.Prepare(t.Context(), task("t.none", "1"))); ev.Kind != engine.Failed || ev.Failure.Code != stepwell.CodeNotFound {
		t.Errorf("an action that is not here: %+v", ev)
	}
	ended, end := context.WithCancelCause(t.Context())
	end(errors.New("over"))
	if ev := runner.Run(ended, p); ev.Kind != engine.Failed || !ev.Defer {
		t.Errorf("when the process ends: %+v", ev)
	}
	if called > 0 {
		t.Errorf("the handler was called %d times for attempts that could not run", called)
	}
	once := task("t.stop", "1")
	once.Step.Params, once.Step.Policy = nil, &plan.Policy{NotIdempotent: true, Timeout: time.Minute}
	if ev := runner.Run(t.Context(), runner.Prepare(t.Context(), once)); ev.Kind != 0 {
		t.Errorf("an attempt that another worker has: %+v", ev)
	}
}
