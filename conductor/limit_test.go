package conductor_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/worker"
)

// allocated is the bytes allocated by f, other goroutines included.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// gigabyte is a value of 1 GiB that takes one.
func gigabyte() []any {
	one, list := strings.Repeat("x", 1<<20), make([]any, 1<<10)
	for i := range list {
		list[i] = one
	}
	return list
}

// A handler's gigabyte of any kind is refused with the code limit before it is copied; the step fails, and the
// conductor goes on.
func TestAttackGigabytes(t *testing.T) {
	huge := gigabyte()
	for name, hand := range map[string]func(context.Context, *action.Call) (any, error){
		"one spawned step": func(ctx context.Context, c *action.Call) (any, error) {
			return nil, c.Spawn(ctx, action.NewStep{Name: "leaf", Key: "1", Action: "t.echo", Params: map[string]any{"n": huge}})
		},
		"many spawned steps": func(ctx context.Context, c *action.Call) (any, error) {
			steps := make([]action.NewStep, len(huge))
			for i := range steps {
				steps[i] = action.NewStep{Name: "leaf", Key: fmt.Sprint(i), Action: "t.echo", Params: map[string]any{"n": huge[i]}}
			}
			return nil, c.Spawn(ctx, steps...)
		},
		"outputs": func(context.Context, *action.Call) (any, error) { return map[string]any{"list": huge}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			attack := action.Action{Spec: spec.Spec{Name: "t.attack", Summary: "For tests.", Spawns: []string{"leaf"}}, Handler: action.HandlerFunc(hand)}
			r := newRig(t, build{actions: []action.Action{attack}})
			var x *store.Execution
			n := allocated(func() { x = r.end(r.begin(pipeline(t, one("t.attack"))), stepwell.ExecutionFailed) })
			if f := r.steps(x.No)["a"].Error; f == nil || f.Code != stepwell.CodeLimit || !strings.Contains(f.Message, "MiB") {
				t.Errorf("the step failed with %+v", f)
			}
			if n > 64<<20 {
				t.Errorf("%d MiB were allocated", n>>20)
			}
			r.end(r.begin(pipeline(t, one("t.echo"))), stepwell.ExecutionCompleted)
		})
	}
}

// A memo that is too large is refused, and so is a text; long texts are cut before they are looked through.
func TestAttackTexts(t *testing.T) {
	long := strings.Repeat("x", 64<<20)
	var memo error
	attack := anyAction("t.attack", func(ctx context.Context, c *action.Call) (any, error) {
		memo = c.Host.Record(ctx, "key", []byte(`"`+long+`"`))
		return nil, action.Fail(fmt.Errorf("%s", long))
	})
	r := newRig(t, build{actions: []action.Action{attack}})
	x := r.end(r.begin(pipeline(t, one("t.attack"))), stepwell.ExecutionFailed)
	if stepwell.CodeOf(memo) != stepwell.CodeLimit {
		t.Errorf("the memo: %v", memo)
	}
	if f := r.steps(x.No)["a"].Error; f == nil || len(f.Message) > 17<<10 {
		t.Errorf("the message of the failure has %d bytes", len(f.Message))
	}
	if err := r.Cancel(t.Context(), r.begin(pipeline(t, one("t.block"))), long); err != nil {
		t.Error(err)
	}
	_, err := r.Start(t.Context(), conductor.Request{Pipeline: r.register(pipeline(t, one("t.echo"))), Origin: store.Origin{Actor: long}})
	if stepwell.CodeOf(err) != stepwell.CodeLimit {
		t.Errorf("the actor: %v", err)
	}
}

// inflated makes outcomes and spawned steps larger than any worker lets them be.
type inflated struct {
	worker.Reporter
	spawned chan error
}

func (r inflated) Report(ctx context.Context, run int64, ev engine.Event) error {
	switch ev.Kind {
	case engine.Done:
		ev.Output = append(append([]byte(`{"x":"`), bytes.Repeat([]byte("x"), 65<<20)...), `"}`...)
	case engine.Spawned:
		for i := range ev.Spawns {
			ev.Spawns[i].Params = bytes.Repeat([]byte(" "), 65<<20)
		}
		err := r.Reporter.Report(ctx, run, ev)
		r.spawned <- err
		return err
	}
	return r.Reporter.Report(ctx, run, ev)
}

// An event too large for a commit is refused alone, for every kind of report.
func TestEventsHaveALimit(t *testing.T) {
	spawned := make(chan error, 3)
	r := newRig(t, build{report: func(to worker.Reporter) worker.Reporter { return inflated{to, spawned} }})
	x := r.end(r.begin(pipeline(t, one("t.echo"))), stepwell.ExecutionFailed)
	if f := r.steps(x.No)["a"].Error; f == nil || f.Code != stepwell.CodeLimit {
		t.Errorf("the step failed with %+v", f)
	}
	r.end(r.begin(pipeline(t, one("t.spawn"))), stepwell.ExecutionFailed)
	if err := <-spawned; stepwell.CodeOf(err) != stepwell.CodeLimit {
		t.Errorf("Spawn gave %v", err)
	}
	r.end(r.begin(pipeline(t, one("t.fail"))), stepwell.ExecutionFailed)
	if x := r.end(r.begin(pipeline(t, one("t.nap"))), stepwell.ExecutionCompleted); x == nil {
		t.Error("the conductor does not continue")
	}
}
