package engine

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/plan"
)

// fanout is n steps without dependencies and a last step that waits for all of them.
func fanout(t testing.TB, n int) *plan.Plan {
	d := &definition.Definition{Name: "fanout", Steps: make([]definition.Step, n+1)}
	join := &d.Steps[n]
	join.ID, join.Action = "join", "work"
	for i := range n {
		d.Steps[i] = definition.Step{ID: fmt.Sprintf("s%d", i), Action: "work"}
		join.DependsOn = append(join.DependsOn, d.Steps[i].ID)
	}
	return mustCompile(t, d)
}

// chain is n steps, each after the one before.
func chain(t testing.TB, n int, condition string) *plan.Plan {
	d := &definition.Definition{Name: "chain", Steps: make([]definition.Step, n), Settings: definition.Settings{Sequential: true}}
	for i := range n {
		d.Steps[i] = definition.Step{ID: fmt.Sprintf("s%d", i), Action: "work", Condition: condition}
	}
	return mustCompile(t, d)
}

func loop(t testing.TB, n int) *plan.Plan {
	return mustCompile(t, &definition.Definition{Name: "loop", Steps: []definition.Step{
		{ID: "loop", Action: "work", Params: map[string]any{"i": "{{ item }}"}, ForEach: &definition.ForEach{Items: int64(n)}}}})
}

func mustCompile(t testing.TB, d *definition.Definition) *plan.Plan {
	t.Helper()
	p, err := plan.Compile(d, catalog{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// worked runs a plan to its end: each batch reports the tasks that the one before dispatched. It returns the run and
// the number of batches.
func worked(t testing.TB, p *plan.Plan) (*Run, int) {
	r, batches := New(p, 1, "run"), 0
	var fx Effects
	ev := Event{Kind: Start, At: 1, Begin: &Begin{}}
	if _, err := r.Apply(&ev, &fx); err != nil {
		t.Fatal(err)
	}
	r.Settle(1, &fx)
	var tasks []*Task
	for {
		tasks = append(tasks[:0], fx.Tasks...)
		if fx.Reset(); len(tasks) == 0 {
			break
		}
		batches++
		for _, task := range tasks {
			ev := Event{Kind: Done, At: 2, Idx: task.Idx, Epoch: task.Epoch}
			if changed, err := r.Apply(&ev, &fx); !changed || err != nil {
				t.Fatalf("%s: %v %v", task.Key, changed, err)
			}
		}
		r.Settle(2, &fx)
	}
	if r.Status() != stepwell.ExecutionCompleted {
		t.Fatalf("the run is %v: %v", r.Status(), r.Failure())
	}
	return r, batches
}

// TestLargeRuns: 100,000 steps are no effort for the engine.
func TestLargeRuns(t *testing.T) {
	const n = 100_000
	for _, c := range []struct {
		name string
		plan *plan.Plan
	}{{"fan-out and join", fanout(t, n)}, {"chain", chain(t, n, "")}, {"for_each", loop(t, n)}, {"chain of skipped steps", chain(t, n, "false")}} {
		start := time.Now()
		r, batches := worked(t, c.plan)
		took := time.Since(start)
		t.Logf("%s: %v, %d batches, %d steps", c.name, took.Round(time.Millisecond), batches, r.Progress().Total)
		if limit := 20 * time.Second * slower; took > limit { // quadratic cost would take minutes
			t.Errorf("%s took %v", c.name, took)
		}
	}
}

// TestCostPerEvent: the cost of an event does not depend on the size of the run. Each step of the chain dispatches
// the next one when it ends.
func TestCostPerEvent(t *testing.T) {
	cost := func(n int) float64 {
		r := New(chain(t, n, ""), 1, "run")
		var fx Effects
		ev := Event{Kind: Start, At: 1, Begin: &Begin{}}
		if _, err := r.Apply(&ev, &fx); err != nil {
			t.Fatal(err)
		}
		r.Settle(1, &fx)
		return testing.AllocsPerRun(50, func() {
			idx, epoch := fx.Tasks[0].Idx, fx.Tasks[0].Epoch
			fx.Reset()
			done := Event{Kind: Done, At: 2, Idx: idx, Epoch: epoch}
			if changed, _ := r.Apply(&done, &fx); !changed {
				t.Fatal("a report that changes nothing")
			}
			r.Settle(2, &fx)
		})
	}
	small, large := cost(100), cost(100_000)
	if small != large || small > 2 { // the task, and at times a longer list
		t.Errorf("%v allocations in a run of 100 steps, %v in one of 100,000", small, large)
	}
}

// TestMemoryPerStep: a step that has not started, or has ended without outputs that templates read, costs one node.
func TestMemoryPerStep(t *testing.T) {
	const n = 100_000
	p := fanout(t, n)
	before := heap()
	r, _ := worked(t, p)
	after := heap()
	per := float64(after-before) / n
	t.Logf("%.1f bytes per step", per)
	if per > 64 {
		t.Errorf("%.1f bytes of state per step", per)
	}
	runtime.KeepAlive(r)
	runtime.KeepAlive(p)
}

// TestWindowMemory: a for_each costs memory for its window only.
func TestWindowMemory(t *testing.T) {
	r, _ := worked(t, loop(t, 50_000))
	if n := len(r.where); n > DefaultWindow {
		t.Errorf("%d steps are left in memory", n)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkFanout(b *testing.B) { benchmark(b, fanout(b, 1000), 1001) }

func BenchmarkChain(b *testing.B) { benchmark(b, chain(b, 1000, ""), 1000) }

func BenchmarkForEach(b *testing.B) { benchmark(b, loop(b, 1000), 1000) }

func benchmark(b *testing.B, p *plan.Plan, steps int) {
	b.ReportAllocs()
	for b.Loop() {
		worked(b, p)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*steps), "ns/step")
}

// TestLargeChanges: a cancel, a restart or a recovery visits every step once.
func TestLargeChanges(t *testing.T) {
	const n = 100_000
	h := &harness{t: t, plan: fanout(t, n), rows: map[int32]StepRow{}, keys: map[int32]string{}}
	h.run = New(h.plan, 1, "run")
	h.batch(Event{Kind: Start, Begin: &Begin{}})
	timed := func(what string, events ...Event) {
		start := time.Now()
		h.batch(events...)
		took := time.Since(start)
		t.Logf("%s: %v, %d rows, %d tasks", what, took.Round(time.Millisecond), len(h.fx.Rows), len(h.fx.Tasks))
		if took > 20*time.Second*slower {
			t.Errorf("%s took %v", what, took)
		}
	}
	timed("recovery", Event{Kind: Recovered})
	timed("restart", Event{Kind: Restart, Step: "s7"})
	timed("cancel", Event{Kind: Cancel})
	flying := make([]Event, 0, DefaultWindow)
	h.run.visit(func(p place) {
		if p.node().status == stepwell.StepQueued {
			flying = append(flying, Event{Kind: Failed, Idx: p.idx(), Epoch: p.node().epoch})
		}
	})
	timed("the end", flying...)
	if h.run.Status() != stepwell.ExecutionCancelled {
		t.Fatal(h.run.Status())
	}
	timed("restart of all", Event{Kind: Restart, Step: "join"})
}

// TestManySpawned: 100,000 spawned steps and a step that waits for all of them. Quadratic cost would take minutes;
// the limit leaves room for a machine that is busy with other tests.
func TestManySpawned(t *testing.T) {
	const calls, each = 100, 1000
	p := compile(t, "name: t\nsteps:\n  - {id: scan, action: scan}\n  - {id: join, action: work, depends_on: [extract]}")
	r := New(p, 1, "run")
	var fx Effects
	start := time.Now()
	apply := func(ev Event) {
		if _, err := r.Apply(&ev, &fx); err != nil {
			t.Fatal(err)
		}
	}
	apply(Event{Kind: Start, Begin: &Begin{Window: 1 << 20}})
	r.Settle(0, &fx)
	scan := fx.Tasks[0]
	for c := range calls {
		spawns := make([]Spawn, each)
		for i := range spawns {
			spawns[i] = Spawn{Name: "extract", Key: fmt.Sprintf("extract:%d", c*each+i), Action: "extract"}
		}
		apply(Event{Kind: Spawned, Idx: scan.Idx, Epoch: scan.Epoch, Spawns: spawns})
	}
	fx.Reset()
	r.Settle(0, &fx)
	if len(fx.Tasks) != calls*each {
		t.Fatal(len(fx.Tasks))
	}
	for _, task := range append(fx.Tasks[:len(fx.Tasks):len(fx.Tasks)], scan) {
		apply(Event{Kind: Done, Idx: task.Idx, Epoch: task.Epoch})
	}
	fx.Reset()
	r.Settle(0, &fx)
	took := time.Since(start)
	t.Log(took.Round(time.Millisecond))
	if len(fx.Tasks) != 1 || fx.Tasks[0].Key != "join" || took > 20*time.Second*slower {
		t.Errorf("%d tasks, %v", len(fx.Tasks), took)
	}
}
