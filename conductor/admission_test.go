package conductor_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/store"
)

func limited(n int) func(*conductor.Options) {
	return func(o *conductor.Options) { o.MaxExecutions = n }
}

// gated is a pipeline of one step that waits to be let go, with settings.
func gated(t *testing.T, r *rig, settings string) *conductor.Pipeline {
	t.Helper()
	return r.register(pipeline(t, "name: gated\nparameters: [{name: k, type: string, default: k}]\n"+settings+"steps:\n  - {id: a, action: t.gate}\n"))
}

const byKey = "settings: {concurrency: {key: \"{{ params.k }}\"}}\n"

func (r *rig) start(p *conductor.Pipeline, priority int, params map[string]any) string {
	r.t.Helper()
	id, err := r.Start(r.t.Context(), conductor.Request{Pipeline: p, Params: params, Origin: store.Origin{Priority: priority}})
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

func (r *rig) status(id string, want stepwell.ExecutionStatus) {
	r.t.Helper()
	x, err := r.store.Execution(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	if x.Status != want || (want == stepwell.ExecutionPending) != x.Started.IsZero() {
		r.t.Fatalf("execution %d is %s, started %v, want %s", x.No, x.Status, x.Started, want)
	}
}

func (r *rig) counts(pending, running int) {
	r.t.Helper()
	if s := r.Stats(); s != (conductor.Stats{Active: pending + running, Pending: pending, Running: running}) {
		r.t.Fatalf("counted %+v, want %d pending and %d running", s, pending, running)
	}
}

// letGo lets the gated step that has begun end, and gives the execution that begins then.
func letGo(g *gate) string {
	g.open <- struct{}{}
	return (<-g.begun).Execution
}

// Executions beyond the limit are held, and begin one for one as others end: higher priority first, then in
// order.
func TestAdmission(t *testing.T) {
	g := newGate()
	r := newRig(t, build{actions: actions(g), set: limited(1)})
	p := gated(t, r, "")
	var ids []string
	for i := range 5 {
		ids = append(ids, r.start(p, map[int]int{3: 7}[i], nil))
	}
	if first := (<-g.begun).Execution; first != ids[0] {
		t.Fatalf("%s began first", first)
	}
	r.counts(4, 1)
	for _, id := range ids[1:] {
		r.status(id, stepwell.ExecutionPending)
	}
	if why, err := r.Why(t.Context(), ids[1], ""); err != nil || why[len(why)-1].Code != "held_by_limit" {
		t.Errorf("why: %+v, error %v", why, err)
	}
	if err := r.Cancel(t.Context(), ids[2], "not wanted"); err != nil {
		t.Fatal(err)
	}
	if x := r.end(ids[2], stepwell.ExecutionCancelled); !x.Started.IsZero() {
		t.Errorf("what never began is said to have begun at %v", x.Started)
	}
	if err := r.Pause(t.Context(), ids[0]); err != nil { // holds its place
		t.Fatal(err)
	}
	r.counts(3, 1)
	if err := r.Resume(t.Context(), ids[0]); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{ids[3], ids[1], ids[4]} {
		if next := letGo(g); next != want {
			t.Fatalf("%s begins, want %s of %v", next, want, ids)
		}
		if len(g.begun) > 0 {
			t.Fatal("two began")
		}
	}
	g.open <- struct{}{}
	r.end(ids[4], stepwell.ExecutionCompleted)
}

// A key holds only its own executions back; after a crash they go on in order.
func TestConcurrencyKey(t *testing.T) {
	db := filepath.Join(t.TempDir(), "keys.db")
	g := newGate()
	r := newRig(t, build{db: db, actions: actions(g)})
	p := gated(t, r, byKey)
	mine := func(k string) map[string]any { return map[string]any{"k": k} }
	a1, a2, a3 := r.start(p, 0, mine("a")), r.start(p, 0, mine("a")), r.start(p, 1, mine("a"))
	b1 := r.start(p, 0, mine("b"))
	if got := []string{(<-g.begun).Execution, (<-g.begun).Execution}; !slices.Contains(got, a1) || !slices.Contains(got, b1) {
		t.Fatalf("%v began, want %s and %s", got, a1, b1)
	}
	r.counts(2, 2)
	if why, err := r.Why(t.Context(), a2, ""); err != nil || why[len(why)-1].Code != "held_by_concurrency" {
		t.Errorf("why: %+v, error %v", why, err)
	}
	r.stop()

	g = newGate()
	again := newRig(t, build{db: db, actions: actions(g)})
	if err := again.RecoverAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := []string{(<-g.begun).Execution, (<-g.begun).Execution}; !slices.Contains(got, a1) || !slices.Contains(got, b1) {
		t.Fatalf("%v began again, want %s and %s", got, a1, b1)
	}
	again.counts(2, 2)
	again.status(a2, stepwell.ExecutionPending)
	if err := again.Cancel(t.Context(), b1, ""); err != nil {
		t.Fatal(err)
	}
	again.end(b1, stepwell.ExecutionCancelled)
	for _, want := range []string{a3, a2} {
		if next := letGo(g); next != want {
			t.Fatalf("%s begins, want %s", next, want)
		}
	}
	g.open <- struct{}{}
	again.end(a2, stepwell.ExecutionCompleted)
}

func TestConcurrencySkip(t *testing.T) {
	g := newGate()
	r := newRig(t, build{actions: actions(g), set: func(o *conductor.Options) { o.MaxExecutions, o.MaxPending = 1, 1 }})
	p := gated(t, r, "settings: {concurrency: {key: x, on_conflict: skip}}\n")
	id := r.start(p, 0, nil)
	_, fresh, err := r.StartOnce(t.Context(), keyed(p, "key", ""))
	if stepwell.CodeOf(err) != stepwell.CodeConflict || fresh || err == nil || !strings.Contains(err.Error(), id) {
		t.Fatalf("fresh %v, error %v", fresh, err)
	}
	held := r.start(gated(t, r, ""), 0, nil)
	if _, err := r.Start(t.Context(), conductor.Request{Pipeline: gated(t, r, "")}); stepwell.CodeOf(err) != stepwell.CodeLimit {
		t.Errorf("more than may wait: %v", err)
	}
	<-g.begun
	if next := letGo(g); next != held {
		t.Errorf("%s begins, want %s", next, held)
	}
	r.end(id, stepwell.ExecutionCompleted)
	second, fresh, err := r.StartOnce(t.Context(), keyed(p, "key", "")) // the refused start has left no trace
	if err != nil || !fresh {
		t.Fatalf("fresh %v, error %v", fresh, err)
	}
	if next := letGo(g); next != second {
		t.Errorf("%s begins, want %s", next, second)
	}
	g.open <- struct{}{}
	r.end(second, stepwell.ExecutionCompleted)
}

// The last one wins, and begins when the one before has ended, with its finally.
func TestConcurrencyCancelRunning(t *testing.T) {
	g := newGate()
	r := newRig(t, build{actions: actions(g)})
	d := pipeline(t, "name: last\nsettings: {concurrency: {key: x, on_conflict: cancel_running}}\nsteps:\n  - {id: a, action: t.block}\nfinally:\n  - {id: f, action: t.gate}\n")
	p := r.register(d)
	first := r.start(p, 0, nil)
	second := r.start(p, 0, nil)
	if c := <-g.begun; c.Execution != first {
		t.Fatalf("%s tidies up, want %s", c.Execution, first)
	}
	r.status(second, stepwell.ExecutionPending)
	third := r.start(p, 0, nil)
	if x := r.end(second, stepwell.ExecutionCancelled); !strings.Contains(x.Failure.Message, third) {
		t.Errorf("it was cancelled because %s", x.Failure.Message)
	}
	r.status(third, stepwell.ExecutionPending)
	g.open <- struct{}{}
	r.end(first, stepwell.ExecutionCancelled)
	r.until("the third runs", func() bool { // one cancelled before has no cleanup
		x, err := r.store.Execution(t.Context(), third)
		return err == nil && x.Status == stepwell.ExecutionRunning
	})
	if err := r.Cancel(t.Context(), third, ""); err != nil {
		t.Fatal(err)
	}
	g.open <- struct{}{}
	r.end(third, stepwell.ExecutionCancelled)
}

// watcher sees to it that no limit is exceeded at any commit.
type watcher struct {
	t       *testing.T
	mu      sync.Mutex
	running map[string]string // key by execution
	most    map[string]int
	order   []string
}

func (w *watcher) observe(u *conductor.Update) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id, key := u.Execution.ID, u.Execution.Concurrency
	_, was := w.running[id]
	switch s := u.Execution.Status; {
	case s.Terminal():
		delete(w.running, id)
	case s != stepwell.ExecutionPending && !was:
		w.running[id] = key
		w.order = append(w.order, id)
	}
	for _, n := range []string{"", key} {
		count := 0
		for _, k := range w.running {
			if n == "" || k == n {
				count++
			}
		}
		w.most[n] = max(w.most[n], count)
	}
}

// Many executions with limits of both kinds, some cancelled, in two lives: no limit is exceeded, every key
// keeps its order, and all end.
func TestAdmissionUnderLoad(t *testing.T) {
	db := filepath.Join(t.TempDir(), "load.db")
	w := &watcher{t: t, running: map[string]string{}, most: map[string]int{}}
	b := build{db: db, observe: w.observe, set: limited(7)}
	r := newRig(t, b)
	const text = "name: p\nparameters: [{name: k, type: string}]\nsettings: {concurrency: {key: \"{{ params.k }}\", limit: 2}}\nsteps:\n  - {id: a, action: t.nap}\n  - {id: b, action: t.echo, depends_on: [a]}\n"
	p := r.register(pipeline(t, text))
	var ids []string
	cancelled := map[string]bool{}
	for i := range 150 {
		id := r.start(p, 0, map[string]any{"k": fmt.Sprint("k", i%6)})
		if ids = append(ids, id); i%10 == 9 {
			if err := r.Cancel(t.Context(), ids[i-3], ""); err != nil {
				t.Fatal(err)
			}
			cancelled[ids[i-3]] = true
		}
	}
	r.stop()
	w.mu.Lock()
	w.running = map[string]string{}
	w.mu.Unlock()
	again := newRig(t, b)
	if err := again.RecoverAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	last := map[string]int64{}
	for _, id := range ids {
		x, err := again.Wait(t.Context(), id)
		if err != nil || x.Status != stepwell.ExecutionCompleted && !cancelled[id] {
			t.Fatalf("%v, error %v", x, err)
		}
	}
	seen := map[string]bool{}
	for _, id := range w.order {
		if seen[id] {
			continue // again, after the restart
		}
		seen[id] = true
		x, err := again.store.Execution(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if x.No < last[x.Concurrency] {
			t.Errorf("execution %d of %s began after %d", x.No, x.Concurrency, last[x.Concurrency])
		}
		last[x.Concurrency] = max(last[x.Concurrency], x.No)
	}
	if w.most[""] > 7 {
		t.Errorf("%d ran at once, want 7", w.most[""])
	}
	for key, n := range w.most {
		if key != "" && n > 2 {
			t.Errorf("%d of %s ran at once, want 2", n, key)
		}
	}
	again.counts(0, 0)
}

// One execution that cannot be taken up does not stop the others; paused ones stay paused.
func TestRecoverAll(t *testing.T) {
	db := filepath.Join(t.TempDir(), "all.db")
	g := newGate()
	r := newRig(t, build{db: db, actions: actions(g)})
	good, paused := r.begin(pipeline(t, one("t.gate"))), r.begin(pipeline(t, one("t.gate")))
	broken := r.begin(pipeline(t, one("t.gate")))
	for range 3 {
		<-g.begun
	}
	if err := r.Pause(t.Context(), paused); err != nil {
		t.Fatal(err)
	}
	x, err := r.store.Execution(t.Context(), broken)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.store.Commit(context.Background(), []store.Commit{{Execution: x.No, Version: x.Version + 1, Log: []byte(`{"t":1,"e":[{"k":99}]}`)}}); err != nil {
		t.Fatal(err)
	}
	r.stop()
	g = newGate()
	close(g.open)
	again := newRig(t, build{db: db, actions: actions(g)})
	if err := again.RecoverAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	again.end(good, stepwell.ExecutionCompleted)
	if !again.log.has("cannot be taken up again execution=" + broken) {
		t.Errorf("the log says %v", again.log.lines)
	}
	again.status(paused, stepwell.ExecutionPaused)
	if err := again.Resume(t.Context(), paused); err != nil {
		t.Fatal(err)
	}
	again.end(paused, stepwell.ExecutionCompleted)
}
