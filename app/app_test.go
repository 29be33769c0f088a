package app_test

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/stepwell/stepwell/store/sqlite"
)

// gates are actions that say when they have begun and wait to be let go; the deaf one does not heed
// the end of its context.
type gates struct{ begun, open chan struct{} }

func newGates() *gates { return &gates{begun: make(chan struct{}, 100), open: make(chan struct{})} }

func (g *gates) register(r *action.Registry) error {
	polite := action.HandlerFunc(func(ctx context.Context, _ *action.Call) (any, error) {
		g.begun <- struct{}{}
		select {
		case <-g.open:
			return map[string]any{"ok": true}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	deaf := action.HandlerFunc(func(context.Context, *action.Call) (any, error) {
		g.begun <- struct{}{}
		<-g.open
		return map[string]any{"ok": true}, nil
	})
	return r.Add(action.Action{Spec: spec.Spec{Name: "t.gate", Summary: "For tests."}, Handler: polite},
		action.Action{Spec: spec.Spec{Name: "t.deaf", Summary: "For tests."}, Handler: deaf})
}

func newApp(t *testing.T, o app.Options) *app.App {
	t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	a, err := app.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func startOne(t *testing.T, a *app.App, act string) (id string) {
	t.Helper()
	d := &definition.Definition{Name: "one", Steps: []definition.Step{{ID: "a", Action: act}}}
	p, err := a.Conductor.Register(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if id, err = a.Conductor.Start(t.Context(), conductor.Request{Pipeline: p}); err != nil {
		t.Fatal(err)
	}
	return id
}

func stepA(t *testing.T, a *app.App, id string) store.Step {
	t.Helper()
	x, err := a.Store.Execution(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := a.Store.Steps(t.Context(), x.No, store.StepFilter{})
	if err != nil || len(steps) == 0 {
		t.Fatalf("%d steps, error %v", len(steps), err)
	}
	return steps[0]
}

func TestSecondAppIsRefused(t *testing.T) {
	db := filepath.Join(t.TempDir(), "two.db")
	newApp(t, app.Options{DB: db})
	_, err := app.New(t.Context(), app.Options{DB: db})
	if stepwell.CodeOf(err) != stepwell.CodeConflict || stepwell.HintOf(err) == "" {
		t.Errorf("the second app: %v", err)
	}
}

func TestRefusedOptions(t *testing.T) {
	wrong := errors.New("wrong")
	_, err := app.New(t.Context(), app.Options{DB: filepath.Join(t.TempDir(), "x.db"), Register: func(*action.Registry) error { return wrong }})
	if !errors.Is(err, wrong) {
		t.Errorf("New gave %v", err)
	}
	if _, err = app.New(t.Context(), app.Options{DB: filepath.Join(t.TempDir(), "none", "x.db")}); stepwell.CodeOf(err) != stepwell.CodeNotFound {
		t.Errorf("New gave %v", err)
	}
}

// Another process leaves a request in the database.
func TestRequestFromASecondConnection(t *testing.T) {
	db := filepath.Join(t.TempDir(), "request.db")
	g := newGates()
	a := newApp(t, app.Options{DB: db, Register: g.register})
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error)
	go func() { ran <- a.Run(ctx) }()
	id := startOne(t, a, "t.gate")
	<-g.begun
	other, err := sqlite.Open(t.Context(), sqlite.Options{Path: db})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	body, err := json.Marshal(conductor.RequestBody{Reason: "from outside"})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []store.Request{{Execution: "none", Kind: conductor.RequestCancel}, {Execution: id, Kind: "dance"}, {Execution: id, Kind: conductor.RequestPause, Body: json.RawMessage(`"x"`)},
		{Execution: id, Kind: conductor.RequestPause}, {Execution: id, Kind: conductor.RequestResume}, {Execution: id, Kind: conductor.RequestCancel, Body: body}} {
		if err := other.PutRequest(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	x, err := a.Conductor.Wait(t.Context(), id)
	if err != nil || x.Status != stepwell.ExecutionCancelled || x.Failure.Message != "from outside" {
		t.Errorf("%+v, error %v", x, err)
	}
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
}

// A drain lets the running step finish, and its result counts.
func TestDrain(t *testing.T) {
	g := newGates()
	a := newApp(t, app.Options{DB: filepath.Join(t.TempDir(), "drain.db"), Register: g.register, Workers: 1})
	ran := make(chan error)
	go func() { ran <- a.Run(t.Context()) }()
	id := startOne(t, a, "t.gate")
	<-g.begun
	queued := startOne(t, a, "t.gate")
	a.Drain()
	a.Drain()
	close(g.open)
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if s := stepA(t, a, id); s.Status != stepwell.StepCompleted {
		t.Errorf("the running step is %s", s.Status)
	}
	if s := stepA(t, a, queued); s.Status != stepwell.StepQueued {
		t.Errorf("the other step is %s", s.Status)
	}
	if len(g.begun) != 0 {
		t.Error("a step was started during the drain")
	}
}

// When a process is stopped, it does not wait for a handler that will not end, and its step is tried
// again by the next.
func TestHardStop(t *testing.T) {
	for _, act := range []string{"t.gate", "t.deaf"} {
		t.Run(act, func(t *testing.T) {
			db := filepath.Join(t.TempDir(), "stop.db")
			g := newGates()
			o := app.Options{DB: db, Register: g.register, Grace: 20 * time.Millisecond, Log: slog.New(slog.DiscardHandler)}
			a, err := app.New(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ran := make(chan error)
			go func() { ran <- a.Run(ctx) }()
			id := startOne(t, a, act)
			<-g.begun
			stop()
			if err := <-ran; err != nil {
				t.Error(err)
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			close(g.open) // the deaf handler returns, to nobody
			b := newApp(t, o)
			ran = make(chan error)
			go func() { ran <- b.Run(t.Context()) }()
			if err := b.Conductor.Recover(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			x, err := b.Conductor.Wait(t.Context(), id)
			if err != nil || x.Status != stepwell.ExecutionCompleted {
				t.Errorf("%+v, error %v", x, err)
			}
			if s := stepA(t, b, id); s.Attempt != 1 || string(s.Output) != `{"ok":true}` {
				t.Errorf("attempt %d gave %s", s.Attempt, s.Output)
			}
			b.Drain()
			if err := <-ran; err != nil {
				t.Error(err)
			}
		})
	}
}
