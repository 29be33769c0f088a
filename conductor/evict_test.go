package conductor_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// overtake commits the next version of an execution, as another process would.
func (r *rig) overtake(id string) {
	r.t.Helper()
	x, err := r.store.Execution(r.t.Context(), id)
	if err == nil {
		err = r.store.Commit(r.t.Context(), []store.Commit{{Execution: x.No, Version: x.Version + 1, Log: []byte(`{"t":1,"e":[]}`)}})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// noticed is a context that reports when its end is awaited.
type noticed struct {
	context.Context
	once sync.Once
	seen chan struct{}
}

func (n *noticed) Done() <-chan struct{} {
	n.once.Do(func() { close(n.seen) })
	return n.Context.Done()
}

// Another process has written the same execution: its batch has no effect, it is unloaded, and its callers get an
// error. All others go on, those of the same commit too.
func TestLostRaceEvictsOneExecution(t *testing.T) {
	lost, kept := newGate(), newGate()
	other := kept.action()
	other.Spec.Name = "t.other"
	hold := make(chan struct{})
	f := &faulty{}
	r := newRig(t, build{faulty: f, actions: append(actions(lost), other)})
	id := r.begin(pipeline(t, one("t.gate")+"  - {id: b, action: t.gate, depends_on: [a]}\n"))
	<-lost.begun
	fine := r.begin(pipeline(t, one("t.other")+"  - {id: b, action: t.echo, depends_on: [a], params: {n: 1}}\n"))
	<-kept.begun
	r.overtake(id)
	f.mu.Lock()
	f.before = func(int) error { <-hold; return nil } // so that both reports come into one batch
	f.mu.Unlock()
	started := make(chan error, 1)
	go func() {
		_, err := r.Start(t.Context(), conductor.Request{Pipeline: r.register(pipeline(t, one("t.echo")))})
		started <- err
	}()
	waits := &noticed{Context: t.Context(), seen: make(chan struct{})}
	waited := make(chan error, 1)
	go func() { _, err := r.Wait(waits, id); waited <- err }()
	<-waits.seen
	close(lost.open)
	close(kept.open)
	close(hold)
	if err := <-started; err != nil {
		t.Errorf("a start beside it: %v", err)
	}
	if err := <-waited; stepwell.CodeOf(err) != stepwell.CodeConflict || stepwell.HintOf(err) == "" || !strings.Contains(err.Error(), id) {
		t.Errorf("Wait gave %v", err)
	}
	r.end(fine, stepwell.ExecutionCompleted)
	wantCode(t, "a spawn of what was let go", r.Report(t.Context(), 1, engine.Event{Kind: engine.Spawned, Idx: 0, Epoch: 1}), stepwell.CodeConflict)
	if !r.log.has("let go") {
		t.Error("nothing is logged")
	}
	for _, active := range r.Active() {
		if active == id {
			t.Error("it is still in memory")
		}
	}
	if err := r.stop(); err != nil {
		t.Errorf("Run gave %v", err)
	}
	if len(lost.begun) != 0 {
		t.Error("the second step ran although nothing was committed")
	}
}

// A request for an execution that another process has changed is decided on its present state.
func TestRequestAfterLostRace(t *testing.T) {
	g := newGate()
	r := newRig(t, build{actions: actions(g)})
	id := r.begin(pipeline(t, one("t.gate")))
	<-g.begun
	r.overtake(id)
	if err := r.Cancel(t.Context(), id, "no longer needed"); err != nil {
		t.Fatal(err)
	}
	r.end(id, stepwell.ExecutionCancelled)
}

// A refusal that names none of the call's executions ends the conductor: nothing would ever be committed.
func TestRefusalOfNothingStops(t *testing.T) {
	f := &faulty{}
	r := newRig(t, build{faulty: f})
	f.refuse(&store.RefusedError{Refusals: []store.Refusal{{Execution: 999, Why: store.VersionTaken, Err: &stepwell.Error{Code: stepwell.CodeConflict, Message: "taken"}}}})
	if _, err := r.Start(t.Context(), conductor.Request{Pipeline: r.register(pipeline(t, one("t.echo")))}); err == nil {
		t.Error("it was started")
	}
	if _, ok := errors.AsType[*store.RefusedError](r.stop()); !ok {
		t.Error("Run did not say why")
	}
}

// Two conductors on one database take all executions of each other, again and again: every step ends once, and none is left.
func TestTwoConductors(t *testing.T) {
	db := filepath.Join(t.TempDir(), "two.db")
	g := newGate()
	b := build{db: db, shared: true, workers: 100, actions: actions(g)}
	rigs := []*rig{newRig(t, b), newRig(t, b)}
	doc := pipeline(t, one("t.gate")+"  - {id: b, action: t.flaky, depends_on: [a], params: {n: 2}, retry: {max_attempts: 9, backoff_seconds: 0.001}}\n  - {id: c, action: t.large, depends_on: [b]}\n")
	const n = 20
	ids := make(chan string, 2*n)
	var starting sync.WaitGroup
	for _, r := range rigs {
		p := r.register(doc)
		starting.Go(func() {
			for range n {
				id, err := r.Start(t.Context(), conductor.Request{Pipeline: p})
				if err != nil {
					t.Error(err)
					return
				}
				ids <- id
			}
		})
	}
	starting.Wait()
	close(ids)
	var all []string
	for id := range ids {
		all = append(all, id)
	}
	for range all {
		<-g.begun
	}
	for _, r := range rigs { // each has its own half in flight, and takes the other half
		for _, id := range all {
			if err := r.Recover(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(g.open)
	for open := true; open; {
		open = false
		for _, id := range all {
			for _, r := range rigs {
				if x, err := r.store.Execution(t.Context(), id); err != nil {
					t.Fatal(err)
				} else if x.Status.Terminal() {
					continue
				}
				open = true
				if err := r.Recover(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, id := range all {
		x, err := rigs[0].store.Execution(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if x.Status != stepwell.ExecutionCompleted {
			t.Errorf("%s is %s: %+v", id, x.Status, x.Failure)
		}
		events, err := rigs[1].store.Events(t.Context(), x.No, 0, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		ends := map[string]int{}
		for _, e := range events {
			if e.Type == "completed" {
				ends[e.StepKey]++
			}
		}
		if fmt.Sprint(ends) != "map[a:1 b:1 c:1]" {
			t.Errorf("%s: ends %v", id, ends)
		}
	}
	if !rigs[0].log.has("let go") && !rigs[1].log.has("let go") {
		t.Error("no race was lost: the test shows nothing")
	}
	for _, r := range rigs {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}
}

// Verify looks at a few idle executions at a time, at others each time, and at none in which something has just been committed.
func TestVerifyTakesTurns(t *testing.T) {
	g := newGate()
	var ahead atomic.Int64
	r := newRig(t, build{actions: actions(g), set: func(o *conductor.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}})
	for range 3 {
		r.begin(pipeline(t, one("t.gate")))
		<-g.begun
	}
	asked := func(idle int) (numbers []int64) {
		ids, err := r.Verify(t.Context(), idle, func(_ context.Context, owner int64, executions []int64) (map[int64]int64, error) {
			found := map[int64]int64{}
			for _, no := range executions {
				numbers, found[no] = append(numbers, no), 1
			}
			return found, nil
		})
		if err != nil || len(ids) > 0 {
			t.Fatalf("let go of %v, error %v", ids, err)
		}
		return numbers
	}
	if now := asked(10); len(now) > 0 {
		t.Errorf("looked at %v, which are not idle", now)
	}
	if now := asked(0); len(now) != 3 {
		t.Errorf("of all it looked at %v", now)
	}
	ahead.Store(int64(time.Minute))
	asked(10) // the rest of all
	for range 2 {
		var all []int64
		for range 3 {
			all = append(all, asked(1)...)
		}
		if slices.Sort(all); !slices.Equal(all, []int64{1, 2, 3}) {
			t.Errorf("one at a time it looked at %v", all)
		}
	}
	close(g.open)
}
