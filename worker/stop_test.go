package worker_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

// TestStopIsNoFailure shuts down gracefully while two steps run, whatever their retry policies: one goes on as the
// same attempt, any number of times; the other, which must not run twice, fails with the reason.
func TestStopIsNoFailure(t *testing.T) {
	t.Parallel()
	const stops = 4 // more than the workers that a step may lose
	db := filepath.Join(t.TempDir(), "stop.db")
	begun, seen := make(chan int, 10), make(chan struct{}, 10)
	observe := func(u *conductor.Update) {
		for _, row := range u.Rows {
			if row.Idx == 0 && row.Status == stepwell.StepRunning { // after a second; else it does not count as begun
				seen <- struct{}{}
			}
		}
	}
	attempts := func(ctx context.Context, c *action.Call) (any, error) {
		begun <- c.Attempt
		<-ctx.Done()
		return nil, ctx.Err()
	}
	last := func(context.Context, *action.Call) (any, error) { return nil, nil }
	var id string
	for life := range stops + 1 {
		run := attempts
		if life == stops {
			run = last
		}
		a := open(t, db, run, observe)
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- a.Run(ctx) }()
		if life == 0 {
			id = start(t, a, "t.again", "t.once")
			soon(t, begun)
		} else if err := a.Conductor.Recover(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if life < stops {
			if n := soon(t, begun); n != 1 {
				t.Errorf("attempt %d after %d stops", n, life)
			}
			soon(t, seen)
		} else {
			ended(t, a, id)
		}
		stop()
		if err := <-ran; err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// soon receives within half a minute.
func soon[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing came")
	}
	return v
}

func open(t *testing.T, db string, run action.HandlerFunc, observe func(*conductor.Update)) *app.App {
	t.Helper()
	a, err := app.New(t.Context(), app.Options{DB: db, Synchronous: "normal", Log: slog.New(slog.DiscardHandler), Observe: observe, Register: func(r *action.Registry) error {
		return r.Add(act("t.again", run), action.Action{Spec: spec.Spec{Name: "t.once", Summary: "For tests.", NotIdempotent: true}, Handler: run})
	}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func start(t *testing.T, a *app.App, actions ...string) string {
	t.Helper()
	d := &definition.Definition{Name: "stop", Settings: definition.Settings{FailFast: definition.FailFastOff}}
	for _, name := range actions {
		d.Steps = append(d.Steps, step(name[2:], name))
	}
	p, err := a.Conductor.Register(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	id, err := a.Conductor.Start(t.Context(), conductor.Request{Pipeline: p})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func ended(t *testing.T, a *app.App, id string) {
	t.Helper()
	x, err := a.Conductor.Wait(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := a.Store.Steps(t.Context(), x.No, store.StepFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		switch {
		case s.Key == "once" && (s.Status != stepwell.StepFailed || s.Error == nil || s.Error.Code != stepwell.CodeLost):
			t.Errorf("the step that must not run twice is %s: %+v", s.Status, s.Error)
		case s.Key == "again" && (s.Status != stepwell.StepCompleted || s.Attempt != 1):
			t.Errorf("the other is %s in attempt %d: %+v", s.Status, s.Attempt, s.Error)
		}
	}
}
