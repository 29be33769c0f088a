package conductor_test

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/worker"
)

// crashPipeline has a retry, spawned steps, a for_each, conditions, a wait, a signal, a large output and a join.
const crashPipeline = `
name: crash
steps:
  - {id: first, action: t.echo, params: {n: 3}}
  - {id: flaky, action: t.flaky, depends_on: [first], params: {n: "{{ steps.first.outputs.v * 2 }}"}, retry: {max_attempts: 3, backoff_seconds: 0.001}}
  - {id: spawn, action: t.spawn, depends_on: [first]}
  - {id: each, action: t.echo, depends_on: [first], for_each: {items: 4}, params: {n: "{{ item }}"}}
  - {id: large, action: t.large}
  - {id: nap, action: t.nap}
  - {id: ask, action: t.await, params: {n: crash}}
  - {id: never, action: t.echo, depends_on: [flaky], condition: "{{ steps.flaky.outputs.v > 100 }}"}
  - {id: join, action: t.echo, depends_on: [leaf, each, never, large, nap, ask], params: {n: "{{ steps.each.outputs.completed + steps.flaky.outputs.v + steps.large.outputs.n + steps.nap.outputs.n + steps.ask.outputs.n }}"}}
outputs:
  total: "{{ steps.join.outputs.v }}"
progress:
  items: each
`

// world is everything that a crash ends. The kill happens at the n-th passage of one point; from then
// on nothing becomes durable, as if the process were gone.
type world struct {
	point string
	n     int

	mu     sync.Mutex
	passed int
	dead   bool
	died   chan struct{}
}

var errDead = &stepwell.Error{Code: stepwell.CodeInternal, Message: "the process is dead"}

// pass reports whether the process is still alive after a point.
func (w *world) pass(point string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if point == w.point && !w.dead {
		if w.passed++; w.passed == w.n {
			w.dead = true
			close(w.died)
		}
	}
	if w.dead {
		return errDead
	}
	return nil
}

// mortalQueue, mortalReporter and the hooks of faulty drop all traffic when the process dies.
type mortalQueue struct {
	queue.Queue
	w *world
}

func (q mortalQueue) Push(ctx context.Context, messages []queue.Message) error {
	if err := q.w.pass("before push"); err != nil {
		return err
	}
	if err := q.Queue.Push(ctx, messages); err != nil {
		return err
	}
	return q.w.pass("after push")
}

func (q mortalQueue) Pull(ctx context.Context, most int) ([]queue.Lease, error) {
	leases, err := q.Queue.Pull(ctx, most)
	if err != nil {
		return nil, err
	}
	if q.w.pass("after pull") != nil { // the message is gone with its worker
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return leases, nil
}

func (q mortalQueue) Ack(ctx context.Context, leases []queue.Lease) error {
	if err := q.w.pass("before ack"); err != nil {
		return err
	}
	return q.Queue.Ack(ctx, leases)
}

type mortalReporter struct {
	worker.Reporter
	w *world
}

func (r mortalReporter) Report(ctx context.Context, run int64, ev engine.Event) error {
	if err := r.w.pass("before report"); err != nil {
		return err
	}
	if err := r.Reporter.Report(ctx, run, ev); err != nil {
		return err
	}
	return r.w.pass("after report")
}

// The process dies at every passage of every point between apply and acknowledgement. After recovery no
// step is lost, none has completed twice, and no output differs from the undisturbed run's.
func TestCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	want := crashRun(t, &world{}).facts()
	if want.items != 4 {
		t.Fatalf("%d items were counted", want.items)
	}
	if want.status != "completed" || len(want.steps) != 16 || want.outputs != `{"total":322}` {
		t.Fatalf("the undisturbed run is %s with %s and steps %v", want.status, want.outputs, slices.Sorted(maps.Keys(want.steps)))
	}
	kills := 0
	for _, point := range []string{"before commit", "after commit", "before push", "after push", "after pull", "before report", "after report", "before ack", "before signal", "after signal"} {
		step := 1
		if testing.Short() {
			step = 5
		}
		for n := 1; ; n += step {
			w := &world{point: point, n: n}
			run := crashRun(t, w)
			if got := run.facts(); !got.equal(want) {
				t.Fatalf("killed at passage %d of %q:\n%s", n, point, cmp.Diff(want, got, cmp.AllowUnexported(facts{})))
			}
			run.stop()
			if !w.dead {
				break // there are fewer passages
			}
			kills++
		}
	}
	t.Logf("%d kills", kills)
}

// crashed is a run that has ended, perhaps in a second life.
type crashed struct {
	*rig
	id string
}

// crashAnswer ends the wait of the step ask. Its sender repeats it until it is accepted.
var crashAnswer = store.Signal{Key: "key-crash", ID: "1", Body: []byte(`{"outputs":{"n":300},"by":"anna"}`)}

func crashRun(t *testing.T, w *world) crashed {
	t.Helper()
	w.died = make(chan struct{})
	db := filepath.Join(t.TempDir(), "crash.db")
	f := &faulty{before: func(int) error { return w.pass("before commit") }, after: func(int) error { return w.pass("after commit") }, signal: w.pass}
	r := newRig(t, build{db: db, faulty: f, workers: 3,
		queue:  func(q queue.Queue) queue.Queue { return mortalQueue{q, w} },
		report: func(r worker.Reporter) worker.Reporter { return mortalReporter{r, w} }})
	if _, err := r.store.CreateProgress(t.Context(), "crash"); err != nil {
		t.Fatal(err)
	}
	request := func(r *rig) conductor.Request {
		return conductor.Request{Pipeline: r.register(pipeline(t, crashPipeline)), Origin: store.Origin{Project: "crash", Key: "crash", KeyHash: []byte("same")}}
	}
	id, err := r.Start(t.Context(), request(r))
	if err == nil {
		_, _, err = r.Signal(t.Context(), crashAnswer)
	}
	if err == nil {
		ended := make(chan error, 1)
		go func() { _, err := r.Wait(t.Context(), id); ended <- err }()
		select {
		case err = <-ended:
		case <-w.died:
			err = errDead
			r.stop()
			<-ended
		}
	}
	if err == nil && w.pass("end") == nil {
		return crashed{r, id}
	}
	r.stop()
	again := newRig(t, build{db: db})
	if err := again.RecoverAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	same, fresh, err := again.StartOnce(t.Context(), request(again))
	if err != nil || id != "" && !fresh && same != id {
		t.Fatalf("started %s again as %s: %v", id, same, err)
	}
	if all, err := again.store.Executions(t.Context(), store.Filter{}); err != nil || len(all) != 1 {
		t.Fatalf("%d executions were started for one key, error %v", len(all), err)
	}
	if _, _, err := again.Signal(t.Context(), crashAnswer); err != nil {
		t.Fatal(err)
	}
	return crashed{again, same}
}

// facts must not depend on crashes.
type facts struct {
	status, outputs string
	steps           map[string]string // status and output by key
	ends            map[string]int    // how often the log has each end
	items           int64             // counted for the project
}

func (f facts) equal(g facts) bool {
	return f.status == g.status && f.outputs == g.outputs && maps.Equal(f.steps, g.steps) && maps.Equal(f.ends, g.ends) && f.items == g.items
}

func (r crashed) facts() facts {
	r.t.Helper()
	x, err := r.Wait(r.t.Context(), r.id)
	if err != nil {
		r.t.Fatal(err)
	}
	list, err := r.store.Progress(r.t.Context(), []string{"crash"})
	if err != nil {
		r.t.Fatal(err)
	}
	f := facts{status: x.Status.String(), outputs: string(x.Outputs), steps: map[string]string{}, ends: map[string]int{}}
	if len(list) > 0 {
		f.items = list[0].Done
	}
	for key, s := range r.steps(x.No) {
		f.steps[key] = s.Status.String() + " " + string(s.Output)
	}
	events, err := r.store.Events(r.t.Context(), x.No, 0, 10_000)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range events {
		if e.Type == "failed" && e.Detail == "stopped, because the process ends" {
			continue // put back by an orderly stop: the attempt goes on
		}
		switch e.Type {
		case "completed", "failed", "skipped", "spawned", "waiting", "start":
			f.ends[e.Type+" "+e.StepKey]++
		}
	}
	return f
}

// forgetful is a queue that loses everything from one push on.
type forgetful struct {
	queue.Queue
	mu   sync.Mutex
	left int
	lost chan struct{}
}

func (q *forgetful) Push(ctx context.Context, messages []queue.Message) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.left--; q.left < 0 {
		if q.left == -1 {
			close(q.lost)
		}
		return nil
	}
	return q.Queue.Push(ctx, messages)
}

// The queue loses everything in the middle: the store knows it all.
func TestQueueLosesEverything(t *testing.T) {
	calm := crashRun(t, &world{})
	want := calm.facts()
	for n := range 8 {
		db := filepath.Join(t.TempDir(), "lost.db")
		q := &forgetful{left: n, lost: make(chan struct{})}
		r := newRig(t, build{db: db, workers: 2, queue: func(inner queue.Queue) queue.Queue { q.Queue = inner; return q }})
		r.project("crash")
		id := r.beginFor("crash", crashPipeline)
		if _, _, err := r.Signal(t.Context(), crashAnswer); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if _, err := r.Wait(t.Context(), id); err != nil && stepwell.CodeOf(err) != stepwell.CodeUnavailable {
				t.Error(err)
			}
		}()
		select {
		case <-q.lost:
		case <-ended: // everything went out in fewer pushes
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		<-ended
		again := newRig(t, build{db: db})
		if err := again.Recover(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		got := crashed{again, id}
		if f := got.facts(); !f.equal(want) {
			t.Errorf("lost from push %d on:\n%s", n, cmp.Diff(want, f, cmp.AllowUnexported(facts{})))
		}
		again.stop()
	}
}

// refusing is a queue that is away for a while.
type refusing struct {
	queue.Queue
	mu   sync.Mutex
	left int
}

func (q *refusing) Push(ctx context.Context, messages []queue.Message) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.left--; q.left >= 0 {
		return errors.New("the queue is unavailable")
	}
	return q.Queue.Push(ctx, messages)
}

func TestPushIsTriedAgain(t *testing.T) {
	t.Parallel()
	q := &refusing{left: 1}
	r := newRig(t, build{queue: func(inner queue.Queue) queue.Queue { q.Queue = inner; return q }})
	r.end(r.begin(pipeline(t, one("t.echo"))), stepwell.ExecutionCompleted)
	if !r.log.has("push failed, retrying") {
		t.Error("the failure was not logged")
	}
}

// A commit refused for a moment is retried; one stored despite the error is not taken for another process's work.
func TestCommitIsTriedAgain(t *testing.T) {
	away := errors.New("the store is unavailable")
	for name, f := range map[string]*faulty{
		"refused": {before: func(call int) error {
			if call == 2 {
				return away
			}
			return nil
		}},
		"stored all the same": {after: func(call int) error {
			if call == 2 {
				return away
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, build{faulty: f})
			id := r.begin(pipeline(t, crashPipeline))
			if _, _, err := r.Signal(t.Context(), crashAnswer); err != nil {
				t.Fatal(err)
			}
			if x := r.end(id, stepwell.ExecutionCompleted); string(x.Outputs) != `{"total":322}` {
				t.Errorf("outputs %s", x.Outputs)
			}
			if !r.log.has("commit failed, retrying") {
				t.Error("the failure was not logged")
			}
		})
	}
}

// A store that stays away stops the conductor: every waiting caller gets the reason, and no uncommitted decision has
// happened.
func TestStoreStaysAway(t *testing.T) {
	t.Parallel()
	full := &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the disk is full", Hint: "free some space"}
	g := newGate()
	f := &faulty{}
	db := filepath.Join(t.TempDir(), "full.db")
	r := newRig(t, build{db: db, faulty: f, actions: actions(g)})
	id := r.begin(pipeline(t, one("t.gate")))
	<-g.begun
	f.refuse(full)
	close(g.open)
	_, err := r.Wait(t.Context(), id)
	if stepwell.CodeOf(err) != stepwell.CodeUnavailable || !strings.Contains(err.Error(), "the disk is full") || stepwell.HintOf(err) != "free some space" {
		t.Errorf("Wait gave %v, hint %q", err, stepwell.HintOf(err))
	}
	if _, err := r.Start(t.Context(), conductor.Request{Pipeline: r.register(pipeline(t, one("t.gate")))}); !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("Start gave %v", err)
	}
	if err := r.stop(); !errors.Is(err, full) {
		t.Errorf("Run gave %v", err)
	}
	again := newRig(t, build{db: db, actions: actions(g)})
	if err := again.Recover(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	again.end(id, stepwell.ExecutionCompleted)
}

// With patience the conductor waits while the disk is full, reports it meanwhile, and goes on.
func TestStoreComesBack(t *testing.T) {
	t.Parallel()
	full := &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the disk is full", Hint: "free some space"}
	var r *rig
	var stalled error
	f := &faulty{before: func(call int) error {
		switch {
		case call == 7: // one more would be too many without patience
			stalled = r.Stalled()
			return full
		case call > 1 && call < 7:
			return full
		}
		return nil
	}}
	r = newRig(t, build{faulty: f, set: func(o *conductor.Options) { o.Patience = time.Minute }})
	r.end(r.begin(pipeline(t, one("t.echo"))), stepwell.ExecutionCompleted)
	if stepwell.CodeOf(stalled) != stepwell.CodeUnavailable || stepwell.HintOf(stalled) != "free some space" {
		t.Errorf("meanwhile: %v", stalled)
	}
	if err := r.Stalled(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
