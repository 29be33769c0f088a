package conductor_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
)

// owners says that some executions are another node's.
type owners map[string]string

func (o owners) Mine(_ context.Context, id string) error {
	if node := o[id]; node != "" {
		return &conductor.ElsewhereError{Node: node}
	}
	return nil
}

// No request loads an execution of another node; the error names the node.
func TestElsewhere(t *testing.T) {
	db := filepath.Join(t.TempDir(), "owners.db")
	g := newGate()
	first := newRig(t, build{db: db, actions: actions(g)})
	theirs, mine := first.begin(pipeline(t, one("t.gate"))), first.begin(pipeline(t, one("t.gate")))
	<-g.begun
	<-g.begun
	first.stop()
	close(g.open)
	o := owners{}
	r := newRig(t, build{db: db, actions: actions(g), set: func(options *conductor.Options) { options.Owners = o }})
	o[theirs] = "b"
	for what, err := range map[string]error{
		"Recover": r.Recover(t.Context(), theirs), "Cancel": r.Cancel(t.Context(), theirs[:30], ""), "Pause": r.Pause(t.Context(), theirs),
		"Restart": r.Restart(t.Context(), theirs, "a", false),
	} {
		if elsewhere, ok := errors.AsType[*conductor.ElsewhereError](err); !ok || elsewhere.Node != "b" || stepwell.CodeOf(err) != stepwell.CodeConflict {
			t.Errorf("%s gave %v", what, err)
		}
	}
	if err := r.RecoverAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.end(mine, stepwell.ExecutionCompleted)
	if n := len(r.Active()); n != 0 {
		t.Errorf("%d executions are in memory", n)
	}
	delete(o, theirs)
	if err := r.Recover(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	r.end(theirs, stepwell.ExecutionCompleted)
}

// Where workers outlive the process, attempts in flight are expected back: a recovery records and dispatches nothing,
// the task can be made again, and the outcome ends the same attempt.
func TestExpect(t *testing.T) {
	db := filepath.Join(t.TempDir(), "expect.db")
	g := newGate()
	first := newRig(t, build{db: db, actions: actions(g)})
	id := first.begin(pipeline(t, one("t.gate")+"    params: {n: 1}\n  - {id: b, action: t.echo, depends_on: [a], params: {n: \"{{ steps.a.outputs.v }}\"}}\n"))
	<-g.begun
	before, err := first.store.Execution(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	first.faulty.refuse(&stepwell.Error{Code: stepwell.CodeInternal, Message: "the process is dead"}) // reports of the stop are lost, as by kill -9
	first.stop()
	flying := make(chan []engine.Flight, 1)
	r := newRig(t, build{db: db, actions: actions(g), set: func(o *conductor.Options) {
		o.Expect = func(_ int64, list []engine.Flight) { flying <- list }
	}})
	if err := r.RecoverAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	list := <-flying
	if len(list) != 1 || list[0] != (engine.Flight{Idx: 0, Epoch: 1}) {
		t.Fatalf("in flight: %+v", list)
	}
	if x, err := r.store.Execution(t.Context(), id); err != nil || x.Version != before.Version {
		t.Errorf("version %d became %+v, %v", before.Version, x, err)
	}
	task, err := r.Task(t.Context(), before.No, 0, 1)
	if err != nil || task.Key != "a" || task.Attempt != 1 || task.Execution != id {
		t.Errorf("task %+v, error %v", task, err)
	}
	_, err = r.Task(t.Context(), before.No, 0, 2)
	wantCode(t, "a task of another attempt", err, stepwell.CodeConflict)
	_, err = r.Task(t.Context(), 999, 0, 1)
	wantCode(t, "a task of another execution", err, stepwell.CodeConflict)
	done := engine.Event{Kind: engine.Done, At: 5, Idx: 0, Epoch: 1, Started: 4, Worker: "far", Output: []byte(`{"v":7}`)}
	if err := r.ReportAll(t.Context(), []conductor.RunEvent{{Run: before.No, Event: done}}); err != nil {
		t.Fatal(err)
	}
	r.end(id, stepwell.ExecutionCompleted)
	if a, b := r.steps(before.No)["a"], r.steps(before.No)["b"]; a.Attempt != 1 || a.Worker != "far" || string(b.Output) != `{"v":7}` {
		t.Errorf("steps: %+v, %+v", a, b)
	}
	if len(g.begun) != 0 {
		t.Error("the attempt was dispatched again")
	}
}

func (owners) Yield(context.Context, int64, int) error { return nil }
