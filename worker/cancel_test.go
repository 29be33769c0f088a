package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
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

// external is an action whose work runs outside until its job is done.
type external struct {
	asleep    chan struct{} // a call has left the work to itself
	cancelled chan string   // state and parameter of each Cancel
	done      atomic.Bool
	runs      atomic.Int32
	slow      chan struct{} // Cancel waits for it, if not nil
	fault     error
	repeats   bool // Cancel comes again, a second after it failed
}

// newExternal is made before the rig, so that it is looked at after the process has stopped.
func newExternal(t *testing.T) *external {
	e := &external{asleep: make(chan struct{}, 1000), cancelled: make(chan string, 1000)}
	t.Cleanup(func() {
		if !e.repeats && len(e.cancelled) > 0 {
			t.Errorf("cancelled once more: %s", <-e.cancelled)
		}
	})
	return e
}

func (e *external) action() action.Action {
	return action.Action{Spec: spec.Spec{Name: "t.external", Summary: "For tests.", Params: []spec.Field{{Name: "job", Type: spec.Any}}}, Handler: e}
}

func (e *external) Run(_ context.Context, c *action.Call) (any, error) {
	e.runs.Add(1)
	e.asleep <- struct{}{}
	return nil, action.Poll(e.next(), "job", fmt.Sprint("job ", c.Params["job"]))
}

func (e *external) next() time.Time {
	if e.done.Load() {
		return time.Now()
	}
	return time.Now().Add(time.Hour)
}

func (e *external) Poll(_ context.Context, c *action.Call) (any, error) {
	return map[string]any{"state": c.State, "attempt": c.Attempt}, nil
}

func (e *external) Cancel(_ context.Context, c *action.Call) error {
	if e.slow != nil {
		<-e.slow
	}
	var state string
	if err := json.Unmarshal(c.State, &state); err != nil {
		return err
	}
	e.cancelled <- fmt.Sprint(state, " with ", c.Params)
	return e.fault
}

func job(id string) definition.Step {
	s := step(id, "t.external")
	s.Params = map[string]any{"job": "{{ 1 + 1 }}"}
	return s
}

// wantCancelled waits for n calls of Cancel.
func (e *external) wantCancelled(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case got := <-e.cancelled:
			if got != "job 2 with map[]" {
				t.Errorf("cancelled %s", got)
			}
		case <-time.After(time.Minute):
			t.Fatal("the work elsewhere was not cancelled")
		}
	}
}

func TestPollerGoesOn(t *testing.T) {
	e := newExternal(t)
	e.done.Store(true)
	r := newRig(t, app.Options{}, e.action())
	_, steps := r.run(job("a"))
	if out := string(steps["a"].Output); out != `{"attempt":1,"state":"job 2"}` || e.runs.Load() != 1 {
		t.Errorf("gave %s (%+v) after %d runs", out, steps["a"].Error, e.runs.Load())
	}
}

func TestCancelOfAWaitingStep(t *testing.T) {
	e := newExternal(t)
	r := newRig(t, app.Options{}, e.action())
	id := r.begin(job("a"))
	<-e.asleep
	r.sleeps(id, "a")
	if err := errors.Join(r.Conductor.Cancel(t.Context(), id, "enough"), r.Conductor.Cancel(t.Context(), id, "twice")); err != nil {
		t.Fatal(err)
	}
	if x, steps := r.end(id); x.Status != stepwell.ExecutionCancelled || steps["a"].Status != stepwell.StepCancelled {
		t.Errorf("the execution is %s, a is %s", x.Status, steps["a"].Status)
	}
	e.wantCancelled(t, 1)
}

// sleeps returns when a step waits for something outside; its row comes with the commit.
func (r *rig) sleeps(id, key string) {
	r.t.Helper()
	x, err := r.Store.Execution(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	for r.t.Context().Err() == nil {
		steps, err := r.Store.Steps(r.t.Context(), x.No, store.StepFilter{Key: key})
		if err != nil {
			r.t.Fatal(err)
		}
		if len(steps) == 1 && steps[0].Status == stepwell.StepWaiting {
			return
		}
	}
}

// The wish to stop may come while the call that begins the work is still running.
func TestCancelWhileTheWorkBegins(t *testing.T) {
	e := newExternal(t)
	begun := make(chan struct{})
	a := e.action()
	a.Handler = late{e, begun}
	r := newRig(t, app.Options{}, a)
	id := r.begin(job("a"))
	<-begun
	if err := r.Conductor.Cancel(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	if x, _ := r.end(id); x.Status != stepwell.ExecutionCancelled {
		t.Errorf("the execution is %s", x.Status)
	}
	e.wantCancelled(t, 1)
}

// late begins the work although it is told to stop.
type late struct {
	*external
	begun chan struct{}
}

func (l late) Run(ctx context.Context, c *action.Call) (any, error) {
	close(l.begun)
	<-ctx.Done()
	return l.external.Run(ctx, c)
}

// The ways in which a waiting step ends but its own.
func TestCancelAtTheEndOf(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(d *definition.Definition)
	}{
		{"the execution's time", func(d *definition.Definition) { d.Settings.TimeoutSeconds = 3 }},
		{"a group's time", func(d *definition.Definition) {
			d.Steps = []definition.Step{{ID: "group", TimeoutSeconds: 3, Steps: d.Steps}}
		}},
		{"a failure beside it", func(d *definition.Definition) {
			d.Settings.FailFast = definition.FailFastCancel
			d.Steps = append(d.Steps, step("fails", "t.fails"))
		}},
		{"a for_each that may fail no more", func(d *definition.Definition) {
			d.Settings.FailFast = definition.FailFastCancel
			d.Steps[0].ForEach = &definition.ForEach{Items: int64(3)}
			d.Steps = append(d.Steps, step("fails", "t.fails"))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // the work must have begun when its time is over
			e := newExternal(t)
			release := make(chan struct{})
			r := newRig(t, app.Options{}, e.action(), act("t.fails", func(ctx context.Context, _ *action.Call) (any, error) {
				<-release
				return nil, errors.New("no")
			}))
			d := &definition.Definition{Name: "test", Steps: []definition.Step{job("a")}}
			test.change(d)
			keys := []string{"a"}
			if d.Steps[0].ForEach != nil {
				keys = []string{"a[0]", "a[1]", "a[2]"}
			}
			p, err := r.Conductor.Register(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			id, err := r.Conductor.Start(t.Context(), conductor.Request{Pipeline: p})
			if err != nil {
				t.Fatal(err)
			}
			if len(d.Steps) > 1 {
				for _, key := range keys {
					<-e.asleep
					r.sleeps(id, key)
				}
				close(release)
			}
			if x, _ := r.end(id); !x.Status.Terminal() || x.Status == stepwell.ExecutionCompleted {
				t.Errorf("the execution is %s", x.Status)
			}
			e.wantCancelled(t, len(keys))
		})
	}
}

// A restart gives the work of the former attempt up.
func TestCancelAtARestart(t *testing.T) {
	e := newExternal(t)
	r := newRig(t, app.Options{}, e.action())
	id := r.begin(job("a"))
	<-e.asleep
	r.sleeps(id, "a")
	e.done.Store(true) // the next one is quick
	if err := r.Conductor.Restart(t.Context(), id, "a", false); err != nil {
		t.Fatal(err)
	}
	if x, _ := r.end(id); x.Status != stepwell.ExecutionCompleted || e.runs.Load() != 2 {
		t.Errorf("the execution is %s after %d runs", x.Status, e.runs.Load())
	}
	e.wantCancelled(t, 1)
}

// A drain waits for the calls of Cancel, and their messages are in the step's log.
func TestCancelIsLogged(t *testing.T) {
	for name, fault := range map[string]error{"was cancelled": nil, "could not be cancelled: no such job": action.Fail(errors.New("no such job")),
		"could not be cancelled, retrying: away": errors.New("away")} {
		e := newExternal(t)
		e.slow, e.fault, e.repeats = make(chan struct{}), fault, strings.HasSuffix(name, "away")
		r := newRig(t, app.Options{}, e.action())
		id := r.begin(job("a"))
		<-e.asleep
		r.sleeps(id, "a")
		if err := r.Conductor.Cancel(t.Context(), id, ""); err != nil {
			t.Fatal(err)
		}
		x, _ := r.end(id)
		r.Drain()
		close(e.slow)
		e.wantCancelled(t, 1)
		if err := r.logged(x.No, name); err != nil {
			t.Error(err)
		}
	}
}

// A call of Cancel that fails is repeated; the row that demands it is there until then.
func TestCancelIsRepeated(t *testing.T) {
	e := newExternal(t)
	fails := errors.New("away")
	e.slow = make(chan struct{}, 1)
	e.slow <- struct{}{} // for the first call; the second waits until the row was seen
	a := e.action()
	a.Handler = once{e, &fails}
	r := newRig(t, app.Options{}, a)
	id := r.begin(job("a"))
	<-e.asleep
	r.sleeps(id, "a")
	if err := r.Conductor.Cancel(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	x, _ := r.end(id)
	e.wantCancelled(t, 1)
	rows, err := r.Store.OutsideWork(t.Context(), x.No, store.OutsideWork{}, 0)
	if err != nil || len(rows) != 1 || rows[0].StepKey != "a" || rows[0].Held {
		t.Fatalf("after the call that failed: %+v, %v", rows, err)
	}
	close(e.slow)
	e.wantCancelled(t, 1)
	for len(rows) > 0 {
		if rows, err = r.Store.OutsideWork(t.Context(), x.No, store.OutsideWork{}, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// once fails at the first call of Cancel.
type once struct {
	*external
	fails *error
}

func (o once) Cancel(ctx context.Context, c *action.Call) error {
	err := errors.Join(o.external.Cancel(ctx, c), *o.fails)
	*o.fails = nil
	return err
}

// logged waits for a line in an execution's log.
func (r *rig) logged(no int64, text string) error {
	ctx, stop := context.WithTimeout(r.t.Context(), time.Minute)
	defer stop()
	for {
		lines, err := r.Store.Logs(ctx, no, store.LogFilter{})
		if err != nil {
			return fmt.Errorf("no line with %q: %w", text, err)
		}
		for _, l := range lines {
			if strings.Contains(l.Message, text) {
				return nil
			}
		}
	}
}
