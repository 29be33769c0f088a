package worker_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/queue"
)

func timed(id, act string, seconds float64) definition.Step {
	s := step(id, act)
	s.TimeoutSeconds = seconds
	return s
}

// The time limit of a step, for handlers that heed it, that come late, and that do not heed it.
func TestTimeout(t *testing.T) {
	begun, open := make(chan struct{}, 10), make(chan struct{})
	r := newRig(t, app.Options{Grace: 30 * time.Millisecond},
		act("t.polite", func(ctx context.Context, _ *action.Call) (any, error) { <-ctx.Done(); return nil, ctx.Err() }),
		act("t.late", func(ctx context.Context, _ *action.Call) (any, error) {
			<-ctx.Done()
			return map[string]any{"late": true}, nil
		}),
		act("t.sly", func(ctx context.Context, _ *action.Call) (any, error) {
			<-ctx.Done()
			return nil, action.Defer(time.Hour, ctx.Err())
		}),
		act("t.deaf", func(context.Context, *action.Call) (any, error) {
			begun <- struct{}{}
			<-open
			return map[string]any{"late": true}, nil
		}))
	x, steps := r.run(timed("polite", "t.polite", 0.05), timed("late", "t.late", 0.05), timed("sly", "t.sly", 0.05), timed("deaf", "t.deaf", 0.05))
	if x.Status != stepwell.ExecutionFailed {
		t.Errorf("the execution is %s", x.Status)
	}
	for key, s := range steps {
		if s.Status != stepwell.StepTimedOut || s.Error.Code != stepwell.CodeTimeout || s.Error.Message != "not ended within 50ms" || s.Output != nil {
			t.Errorf("%s is %s: %+v, output %s", key, s.Status, s.Error, s.Output)
		}
	}
	close(open) // the deaf handler's late result changes nothing
	if x, _ := r.end(x.ID); x.Status != stepwell.ExecutionFailed {
		t.Errorf("the execution is %s afterwards", x.Status)
	}
}

// A handler sees its time limit in its context, and so do the contexts that it derives: their deadline, that they have timed
// out, and why. One that is stopped on request sees that it has been cancelled.
func TestContextOfAnAttempt(t *testing.T) {
	type seen struct {
		until      bool
		err, cause error
		child      error
	}
	begun, ended := make(chan struct{}, 2), make(chan seen, 1)
	r := newRig(t, app.Options{}, act("t.look", func(ctx context.Context, _ *action.Call) (any, error) {
		begun <- struct{}{}
		until, ok := ctx.Deadline()
		child, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		shorter, _ := child.Deadline()
		<-child.Done()
		ended <- seen{ok && shorter.Equal(until) && time.Until(until) < time.Minute, ctx.Err(), context.Cause(ctx), context.Cause(child)}
		return nil, nil
	}))
	r.run(timed("a", "t.look", 0.05))
	<-begun
	s := <-ended
	if !s.until || s.err != context.DeadlineExceeded || stepwell.CodeOf(s.cause) != stepwell.CodeTimeout || s.child != s.cause {
		t.Errorf("a handler whose time has passed sees %+v", s)
	}
	id := r.begin(timed("a", "t.look", 30))
	<-begun
	if err := r.Conductor.Cancel(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	if s := <-ended; !s.until || s.err != context.Canceled || stepwell.CodeOf(s.cause) != stepwell.CodeCancelled || s.child != s.cause {
		t.Errorf("a handler that is cancelled sees %+v", s)
	}
	r.end(id)
}

// As many handlers as there are workers may be abandoned without a loss; beyond that the pool shrinks, and
// it recovers when they return.
func TestAbandonedHandlersAreBounded(t *testing.T) {
	begun, open := make(chan struct{}, 100), make(chan struct{})
	r := newRig(t, app.Options{Grace: 10 * time.Millisecond, Workers: 2},
		act("t.deaf", func(context.Context, *action.Call) (any, error) { begun <- struct{}{}; <-open; return nil, nil }),
		act("t.echo", func(context.Context, *action.Call) (any, error) { return nil, nil }))
	var deaf []definition.Step
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		deaf = append(deaf, timed(id, "t.deaf", 0.02))
	}
	id := r.begin(deaf...)
	for range 4 { // twice the workers hold a goroutine …
		<-begun
	}
	if n := len(begun); n != 0 {
		t.Errorf("%d more handlers run than goroutines are allowed", n)
	}
	close(open) // … and the others start when these return
	_, steps := r.end(id)
	for _, key := range []string{"a", "b"} {
		if s := steps[key]; s.Status != stepwell.StepTimedOut {
			t.Errorf("%s is %s", key, s.Status)
		}
	}
	if x, _ := r.run(step("echo", "t.echo")); x.Status != stepwell.ExecutionCompleted {
		t.Errorf("afterwards, an execution is %s", x.Status)
	}
}

// A cancelled step's handler is stopped; a step still in the queue never runs.
func TestRevoke(t *testing.T) {
	begun, cancelled := make(chan struct{}, 100), make(chan struct{})
	r := newRig(t, app.Options{Workers: 1},
		act("t.block", func(ctx context.Context, _ *action.Call) (any, error) {
			begun <- struct{}{}
			<-ctx.Done()
			<-cancelled // the worker is busy until all three are revoked
			return nil, ctx.Err()
		}))
	id := r.begin(step("a", "t.block"), step("b", "t.block"), step("c", "t.block"))
	<-begun
	if err := r.Conductor.Cancel(t.Context(), id, "enough"); err != nil {
		t.Fatal(err)
	}
	close(cancelled)
	x, steps := r.end(id)
	if x.Status != stepwell.ExecutionCancelled || len(begun) != 0 {
		t.Errorf("the execution is %s, %d more handlers ran", x.Status, len(begun))
	}
	for key, s := range steps {
		if s.Status != stepwell.StepCancelled {
			t.Errorf("%s is %s", key, s.Status)
		}
	}
}

// A handler that has completed when it is told to stop has completed.
func TestCompletedAlthoughRevoked(t *testing.T) {
	begun := make(chan struct{})
	r := newRig(t, app.Options{}, act("t.stubborn", func(ctx context.Context, _ *action.Call) (any, error) {
		close(begun)
		<-ctx.Done()
		return map[string]any{"done": true}, nil
	}))
	id := r.begin(step("a", "t.stubborn"))
	<-begun
	if err := r.Conductor.Cancel(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	if x, steps := r.end(id); x.Status != stepwell.ExecutionCancelled || string(steps["a"].Output) != `{"done":true}` {
		t.Errorf("the execution is %s, a is %s with %s", x.Status, steps["a"].Status, steps["a"].Output)
	}
}

// A handler that is abandoned gives its place in the queue back: others of the queue go on.
func TestAbandonedHandlerFreesItsQueue(t *testing.T) {
	open := make(chan struct{})
	defer close(open)
	r := newRig(t, app.Options{Grace: 10 * time.Millisecond, Workers: 4, Queues: map[string]queue.Limits{"one": {Concurrency: 1}}},
		act("t.deaf", func(context.Context, *action.Call) (any, error) { <-open; return nil, nil }),
		act("t.echo", func(context.Context, *action.Call) (any, error) { return nil, nil }))
	deaf, echo := timed("deaf", "t.deaf", 0.02), step("echo", "t.echo")
	deaf.Queue, echo.Queue = "one", "one"
	_, steps := r.run(deaf, echo)
	if steps["deaf"].Status != stepwell.StepTimedOut || steps["echo"].Status != stepwell.StepCompleted {
		t.Errorf("deaf is %s, echo is %s", steps["deaf"].Status, steps["echo"].Status)
	}
}

// A queue's limit holds for handlers, not only for messages.
func TestQueueLimit(t *testing.T) {
	var now, most atomic.Int32
	r := newRig(t, app.Options{Workers: 8, Queues: map[string]queue.Limits{"two": {Concurrency: 2}}},
		act("t.count", func(context.Context, *action.Call) (any, error) {
			n := now.Add(1)
			defer now.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			runtime.Gosched()
			return nil, nil
		}))
	each := step("each", "t.count")
	each.Queue, each.ForEach = "two", &definition.ForEach{Items: 200}
	if x, _ := r.run(each); x.Status != stepwell.ExecutionCompleted || most.Load() > 2 {
		t.Errorf("the execution is %s, %d handlers ran at once", x.Status, most.Load())
	}
}
