package worker_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is all of Stepwell in one process, with the actions of a test.
type rig struct {
	*app.App
	t *testing.T
}

func newRig(t *testing.T, o app.Options, actions ...action.Action) *rig {
	t.Helper()
	o.DB, o.Synchronous = filepath.Join(t.TempDir(), "worker.db"), "normal"
	o.Register = func(r *action.Registry) error { return r.Add(actions...) }
	o.Log = slog.New(slog.DiscardHandler)
	a, err := app.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return &rig{a, t}
}

// begin starts a pipeline of these steps.
func (r *rig) begin(steps ...definition.Step) string {
	r.t.Helper()
	p, err := r.Conductor.Register(r.t.Context(), &definition.Definition{Name: "test", Steps: steps, Settings: definition.Settings{FailFast: definition.FailFastOff}})
	if err != nil {
		r.t.Fatal(err)
	}
	id, err := r.Conductor.Start(r.t.Context(), conductor.Request{Pipeline: p})
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// end waits for an execution and gives its steps by key.
func (r *rig) end(id string) (*store.Execution, map[string]store.Step) {
	r.t.Helper()
	ctx, stop := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer stop()
	x, err := r.Conductor.Wait(ctx, id)
	if err != nil {
		r.t.Fatal(err)
	}
	list, err := r.Store.Steps(ctx, x.No, store.StepFilter{})
	if err != nil {
		r.t.Fatal(err)
	}
	steps := map[string]store.Step{}
	for _, s := range list {
		steps[s.Key] = s
	}
	return x, steps
}

func (r *rig) run(steps ...definition.Step) (*store.Execution, map[string]store.Step) {
	r.t.Helper()
	return r.end(r.begin(steps...))
}

// act is an action of one function that takes any parameters.
func act(name string, f action.HandlerFunc) action.Action {
	return action.Action{Spec: spec.Spec{Name: name, Summary: "For tests.", OpenParams: true}, Handler: f}
}

func step(id, action string) definition.Step { return definition.Step{ID: id, Action: action} }
