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
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/builtin"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/sim"
	"github.com/stepwell/stepwell/store"
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

// crashed is an execution that has ended, perhaps in a later life of its process.
type crashed struct {
	*sim.World
	t  *testing.T
	id string
}

// newCrashed makes a world with the actions of the rig and more of them.
func newCrashed(t *testing.T, fault func(sim.Passage) sim.Fate, more ...action.Action) crashed {
	t.Helper()
	clock, registry := &sim.Clock{}, &action.Registry{}
	err := builtin.Register(registry, builtin.Options{Now: clock.Now})
	if err == nil {
		err = registry.Add(append(basicActions(clock.Now), more...)...)
	}
	if err != nil {
		t.Fatal(err)
	}
	w, err := sim.New(t.Context(), sim.Options{Actions: registry, Clock: clock, Workers: 3, Fault: fault})
	if err != nil {
		t.Fatal(err)
	}
	return crashed{World: w, t: t}
}

// live does something that is asked for from outside and lets the world go on until nothing happens any more. Each time that the
// process has died another one takes over, and what was asked for, or was refused for now, is asked for again.
func (r *crashed) live(ask func() error) {
	r.t.Helper()
	for lives := 0; ; lives++ {
		err := ask()
		if err == nil {
			err = r.Run(r.t.Context())
		}
		for r.Dead() && lives < 20 {
			err = r.World.Restart(r.t.Context())
			lives++
			if err == nil {
				err = sim.ErrKilled
			}
		}
		if err == nil {
			return
		}
		if !errors.Is(err, sim.ErrKilled) && !store.IsAway(err) || lives >= 20 {
			r.t.Fatal(err)
		}
	}
}

// crashAnswer ends the wait of the step ask. Its sender repeats it until it is accepted.
var crashAnswer = store.Signal{Key: "key-crash", ID: "1", Body: []byte(`{"outputs":{"n":300},"by":"anna"}`)}

// crashRun runs crashPipeline, started and answered again by who does not know whether it has been.
func crashRun(t *testing.T, fault func(sim.Passage) sim.Fate) crashed {
	t.Helper()
	r := newCrashed(t, fault)
	if _, err := r.Store.CreateProgress(t.Context(), "crash"); err != nil {
		t.Fatal(err)
	}
	d := pipeline(t, crashPipeline)
	r.live(func() error {
		id, err := r.Begin(t.Context(), d, conductor.Request{Origin: store.Origin{Project: "crash", Key: "crash", KeyHash: []byte("same")}})
		if err == nil && r.id != "" && r.id != id {
			t.Fatalf("started %s again as %s", r.id, id)
		}
		if err == nil {
			r.id = id
			_, _, err = r.Signal(t.Context(), crashAnswer)
		}
		return err
	})
	if all, err := r.Store.Executions(t.Context(), store.Filter{}); err != nil || len(all) != 1 {
		t.Fatalf("%d executions were started for one key, error %v", len(all), err)
	}
	return r
}

// everywhere plays a run once for each fate of each passage of each point, and compares what came of it with the undisturbed run.
func everywhere(t *testing.T, want facts, play func(t *testing.T, fault func(sim.Passage) sim.Fate) crashed) (disturbed int) {
	t.Helper()
	for _, at := range sim.Fates {
		for _, fate := range at.Fates {
			for n := 1; ; n++ {
				passed := 0
				run := play(t, func(p sim.Passage) sim.Fate {
					if p.Point == at.Point {
						if passed++; passed == n {
							return fate
						}
					}
					return sim.Passes
				})
				if got := run.facts(); !got.equal(want) {
					t.Fatalf("passage %d of %s %s:\n%s", n, at.Point, fate, cmp.Diff(want, got, cmp.AllowUnexported(facts{})))
				}
				if passed < n {
					break // there are fewer passages
				}
				disturbed++
			}
		}
	}
	return disturbed
}

// The process dies, the store and the queue refuse, workers are lost and messages come twice at every passage of every point from
// the request to the end. No step is lost, none has completed twice, and no output differs from the undisturbed run's.
func TestCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	want := crashRun(t, nil).facts()
	if want.items != 4 {
		t.Fatalf("%d items were counted", want.items)
	}
	if want.status != "completed" || len(want.steps) != 16 || want.outputs != `{"total":322}` {
		t.Fatalf("the undisturbed run is %s with %s and steps %v", want.status, want.outputs, slices.Sorted(maps.Keys(want.steps)))
	}
	t.Logf("%d disturbed runs", everywhere(t, want, crashRun))
}

// The process dies twice: while it recovers, too.
func TestCrashTwice(t *testing.T) {
	t.Parallel()
	want := crashRun(t, nil).facts()
	for first := 1; first < 120; first += 5 {
		for second := 1; second <= 8; second++ {
			passed := 0
			if got := crashRun(t, func(sim.Passage) sim.Fate {
				if passed++; passed == first || passed == first+second {
					return sim.Dies
				}
				return sim.Passes
			}).facts(); !got.equal(want) {
				t.Fatalf("at passages %d and %d:\n%s", first, first+second, cmp.Diff(want, got, cmp.AllowUnexported(facts{})))
			}
		}
	}
}

// The state after each commit, folded from the log, is the state that was published with it.
func TestStateAtEachVersion(t *testing.T) {
	t.Parallel()
	type state struct {
		status   stepwell.ExecutionStatus
		progress string
	}
	var published []state
	r := newCrashed(t, nil)
	r.Observing(func(u *conductor.Update) {
		published = append(published, state{u.Execution.Status, cmp.Diff(nil, u.Progress)})
	})
	r.live(func() error {
		id, err := r.Begin(t.Context(), pipeline(t, crashPipeline), conductor.Request{})
		if r.id = id; err == nil {
			_, _, err = r.Signal(t.Context(), crashAnswer)
		}
		return err
	})
	for i, want := range published {
		run, err := r.At(t.Context(), r.id, int64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		if got := (state{run.Status(), cmp.Diff(nil, run.Progress())}); got != want {
			t.Errorf("version %d: %v, want %v", i+1, got, want)
		}
	}
	if _, err := r.At(t.Context(), r.id, int64(len(published)+1)); stepwell.CodeOf(err) != stepwell.CodeNotFound || len(published) < 10 {
		t.Errorf("%d versions; the next one: %v", len(published), err)
	}
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
	x, err := r.Store.Execution(r.t.Context(), r.id)
	if err != nil {
		r.t.Fatal(err)
	}
	list, err := r.Store.Progress(r.t.Context(), []string{"crash"})
	if err != nil {
		r.t.Fatal(err)
	}
	f := facts{status: x.Status.String(), outputs: string(x.Outputs), steps: map[string]string{}, ends: map[string]int{}}
	if len(list) > 0 {
		f.items = list[0].Done
	}
	steps, err := r.Store.Steps(r.t.Context(), x.No, store.StepFilter{Limit: 10_000})
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range steps {
		f.steps[steps[i].Key] = steps[i].Status.String() + " " + string(steps[i].Output)
	}
	events, err := r.Store.Events(r.t.Context(), x.No, 0, 10_000)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range events {
		switch e.Type {
		case "completed", "failed", "skipped", "spawned", "waiting", "start":
			f.ends[e.Type+" "+e.StepKey]++
		}
	}
	return f
}

// The queue loses one push after the other, and everything in it with the process that ends later: the store knows it all.
func TestQueueLosesEverything(t *testing.T) {
	t.Parallel()
	want := crashRun(t, nil).facts()
	for n := range 12 {
		pushes := 0
		r := crashRun(t, func(p sim.Passage) sim.Fate {
			if p.Point == sim.BeforePush {
				if pushes++; pushes > n && pushes < 1000 {
					return sim.Gone
				}
			}
			return sim.Passes
		})
		pushes = 1000 // the next process has a queue that works
		if err := r.World.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := r.facts(); !got.equal(want) {
			t.Errorf("lost from push %d on:\n%s", n, cmp.Diff(want, got, cmp.AllowUnexported(facts{})))
		}
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
	if !r.log.has("commit failed, retrying") {
		t.Error("the failure was not logged")
	}
}
