package conductor_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

// otherwise is a store whose log of one execution queues another step.
type otherwise struct {
	conductor.Store
	execution int64
	was, is   string
}

func (o *otherwise) StepLog(ctx context.Context, execution, after int64) iter.Seq2[store.LogEntry, error] {
	return o.changed(o.Store.StepLog(ctx, execution, after))
}

func (o *otherwise) StepLogs(ctx context.Context, executions []int64) iter.Seq2[store.LogEntry, error] {
	return o.changed(o.Store.StepLogs(ctx, executions))
}

func (o *otherwise) changed(log iter.Seq2[store.LogEntry, error]) iter.Seq2[store.LogEntry, error] {
	return func(yield func(store.LogEntry, error) bool) {
		for entry, err := range log {
			if entry.Execution == o.execution {
				entry.Body = bytes.Replace(entry.Body, []byte(o.was), []byte(o.is), 1)
			}
			if !yield(entry, err) {
				return
			}
		}
	}
}

// An execution whose log does not lead to its state is held, with the reason in its row; all others go on. It can be
// cancelled, not paused or restarted, and the program that it began with can take it up.
func TestDivergedExecutionIsHeld(t *testing.T) {
	db := filepath.Join(t.TempDir(), "diverged.db")
	const text = "name: waits\nsteps:\n  - {id: first, action: t.echo, params: {n: 1}}\n  - {id: left, action: t.await, params: {n: %}, depends_on: [first]}\n  - {id: right, action: t.echo, depends_on: [left], params: {n: 2}}\n"
	r := newRig(t, build{db: db})
	held, fine := r.begin(pipeline(t, strings.Replace(text, "%", "1", 1))), r.begin(pipeline(t, strings.Replace(text, "%", "2", 1)))
	for _, id := range []string{held, fine} {
		r.until("the wait", func() bool {
			x, err := r.store.Execution(t.Context(), id)
			return err == nil && r.steps(x.No)["left"].Status == stepwell.StepWaiting
		})
	}
	row, err := r.store.Execution(t.Context(), held)
	if err != nil {
		t.Fatal(err)
	}
	r.stop()
	recover := func(is string) *rig {
		r := newRig(t, build{db: db, set: func(o *conductor.Options) { o.Store = &otherwise{o.Store, row.No, `"q":[[1,1]]`, is} }})
		if err := r.RecoverAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		return r
	}
	for range 2 { // the reason is recorded once
		r = recover(`"q":[[2,1]]`)
		x, err := r.store.Execution(t.Context(), held)
		if err != nil || x.Status != stepwell.ExecutionRunning || x.Failure == nil || x.Failure.Code != engine.CodeDiverged || x.Version != row.Version+1 {
			t.Fatalf("the row says %s, %+v, version %d (%v)", x.Status, x.Failure, x.Version, err)
		}
		reasons, err := r.Why(t.Context(), held, "")
		if err != nil || len(reasons) != 1 || reasons[0].Code != engine.WhyDiverged || !strings.Contains(reasons[0].Message, "queued right where it would now queue left") ||
			!strings.Contains(reasons[0].Message, "cancel it") {
			t.Errorf("why: %+v, %v", reasons, err)
		}
		err = r.Pause(t.Context(), held)
		if d, ok := errors.AsType[*engine.Diverged](err); !ok || stepwell.CodeOf(err) != stepwell.CodeConflict || d.Version < 2 || len(d.Recorded) != 1 || len(d.Now) != 1 {
			t.Errorf("pause: %v", err)
		}
		r.stop()
	}
	r = recover(`"q":[[1,1]]`) // as it was recorded
	r.signal("key-1", "one", `{"outputs": {"ok": true}}`, true, true)
	if x := r.end(held, stepwell.ExecutionCompleted); x.Failure != nil {
		t.Errorf("it completed with %+v", x.Failure)
	}
	if row, err = r.store.Execution(t.Context(), fine); err != nil {
		t.Fatal(err)
	}
	r.stop()
	r = recover(`"q":[]`)
	if err := r.Cancel(t.Context(), fine, "not needed"); err != nil {
		t.Fatal(err)
	}
	x := r.end(fine, stepwell.ExecutionCancelled)
	if steps := r.steps(x.No); x.Failure.Message != "not needed" || x.Ended.IsZero() || steps["first"].Status != stepwell.StepCompleted || steps["left"].Status != stepwell.StepCancelled ||
		steps["right"].Status != stepwell.StepCancelled || x.Progress.Cancelled != 2 {
		t.Errorf("cancelled: %+v, %+v", x, steps)
	}
	if err := r.Cancel(t.Context(), fine, "again"); err != nil {
		t.Errorf("a second cancel: %v", err)
	}
}

// The defaults of an action when an execution began hold until it ends, for all later versions of the action. An
// older snapshot has no policies: the present ones hold.
func TestChangedDefaultsOfAnAction(t *testing.T) {
	for _, old := range []bool{false, true} {
		db := filepath.Join(t.TempDir(), "defaults.db")
		fails := func(retry *stepwell.Retry) build {
			return build{db: db, actions: []action.Action{{Spec: spec.Spec{Name: "t.fails", Summary: "For tests.", Retry: retry},
				Handler: action.HandlerFunc(func(context.Context, *action.Call) (any, error) { return nil, errors.New("no luck") })}}}
		}
		r := newRig(t, fails(&stepwell.Retry{MaxAttempts: 2, Backoff: time.Hour}))
		id := r.begin(pipeline(t, one("t.fails")))
		var row *store.Execution
		r.until("the first failure", func() (there bool) {
			row, _ = r.store.Execution(t.Context(), id)
			return r.steps(row.No)["a"].Status == stepwell.StepRetrying
		})
		r.stop()
		b := fails(nil)
		b.set = func(o *conductor.Options) {
			if old {
				o.Store = snapshotOfBefore{o.Store}
			}
		}
		r = newRig(t, b)
		reasons, err := r.Why(t.Context(), id, "a")
		if want := map[bool]string{false: engine.WhyBackoff, true: engine.WhyFailed}[old]; err != nil || reasons[0].Code != want {
			t.Errorf("snapshot of before %v: %+v, %v, want %s", old, reasons, err, want)
		}
		r.stop()
	}
}

// snapshotOfBefore is a store whose definitions hold no policies of actions.
type snapshotOfBefore struct{ conductor.Store }

func (s snapshotOfBefore) Definition(ctx context.Context, hash []byte) ([]byte, error) {
	body, err := s.Store.Definition(ctx, hash)
	if err != nil {
		return nil, err
	}
	d, err := definition.Decode(body)
	if err != nil || d.Policies == nil {
		return nil, errors.Join(err, errors.New("the snapshot has no policies"))
	}
	d.Policies = nil
	return definition.Encode(d)
}
