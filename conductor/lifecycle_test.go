package conductor_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

func wantCode(t *testing.T, what string, err error, want stepwell.Code) {
	t.Helper()
	if stepwell.CodeOf(err) != want {
		t.Errorf("%s gave %v (%s), want %q", what, err, stepwell.CodeOf(err), want)
	}
}

const two = `
name: two
steps:
  - {id: a, action: t.gate}
  - {id: b, action: t.echo, depends_on: [a], params: {n: "{{ steps.a.outputs.attempt }}"}}
`

func TestPauseAndResume(t *testing.T) {
	g := newGate()
	r := newRig(t, build{actions: actions(g)})
	id := r.begin(pipeline(t, two))
	<-g.begun
	if err := errors.Join(r.Pause(t.Context(), id), r.Pause(t.Context(), id)); err != nil {
		t.Fatal(err)
	}
	close(g.open)
	for r.steps(1)["a"].Status != stepwell.StepCompleted { // its row comes with a commit of its own
		if t.Context().Err() != nil {
			t.Fatal("the running step did not finish")
		}
	}
	if s := r.steps(1)["b"]; s.Status != stepwell.StepPending {
		t.Errorf("b is %s while the execution is paused", s.Status)
	}
	if err := r.Resume(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	r.end(id, stepwell.ExecutionCompleted)
	wantCode(t, "Pause after the end", r.Pause(t.Context(), id), stepwell.CodeConflict)
	wantCode(t, "Resume after the end", r.Resume(t.Context(), id), stepwell.CodeConflict)
	wantCode(t, "Cancel after the end", r.Cancel(t.Context(), id, ""), "")
}

// TestPlanInMemory: who shows an execution that this conductor has run need not compile its definition again.
func TestPlanInMemory(t *testing.T) {
	r := newRig(t, build{})
	p := r.register(pipeline(t, "name: c\nsteps:\n  - {id: a, action: t.echo}\n"))
	if got := r.Plan(p.Hash); got != p.Plan() {
		t.Errorf("the plan is %p, want %p", got, p.Plan())
	}
	if got := r.Plan([32]byte{}); got != nil {
		t.Error("there is a plan of a definition that nobody has registered")
	}
}

func TestCancel(t *testing.T) {
	r := newRig(t, build{})
	id := r.begin(pipeline(t, "name: c\nsteps:\n  - {id: a, action: t.block}\n  - {id: b, action: t.echo, depends_on: [a]}\nfinally:\n  - {id: f, action: t.echo}\n"))
	if err := r.Cancel(t.Context(), id[:30], "enough"); err != nil { // the beginning of an id will do
		t.Fatal(err)
	}
	x := r.end(id, stepwell.ExecutionCancelled)
	if x.Failure == nil || !strings.Contains(x.Failure.Message, "enough") {
		t.Errorf("failure %+v", x.Failure)
	}
	steps := r.steps(x.No)
	if steps["a"].Status != stepwell.StepCancelled || steps["finally.f"].Status != stepwell.StepCompleted {
		t.Errorf("a is %s, finally.f is %s", steps["a"].Status, steps["finally.f"].Status)
	}
	if left := r.Active(); len(left) != 0 {
		t.Errorf("%v are still in memory", left)
	}
}

func TestUnknownExecutions(t *testing.T) {
	r := newRig(t, build{})
	ctx := t.Context()
	_, waited := r.Wait(ctx, "none")
	_, retried := r.Retry(ctx, "none", "")
	_, previewed := r.PreviewRestart(ctx, "none", "a", false)
	for what, err := range map[string]error{"Wait": waited, "Retry": retried, "Preview": previewed, "Cancel": r.Cancel(ctx, "none", ""), "Pause": r.Pause(ctx, "none"),
		"Resume": r.Resume(ctx, "none"), "Restart": r.Restart(ctx, "none", "a", false), "Recover": r.Recover(ctx, "none")} {
		wantCode(t, what, err, stepwell.CodeNotFound)
	}
	wantCode(t, "a report for no execution", r.Report(ctx, 99, engine.Event{Kind: engine.Done, Idx: 1, Epoch: 1}), "")
	wantCode(t, "a spawn for no execution", r.Report(ctx, 99, engine.Event{Kind: engine.Spawned, Idx: 1, Epoch: 1}), stepwell.CodeConflict)
}

func TestRestartPreviewRetry(t *testing.T) {
	r := newRig(t, build{})
	id := r.begin(pipeline(t, `
name: r
steps:
  - {id: a, action: t.large}
  - {id: b, action: t.echo, depends_on: [a], params: {n: "{{ steps.a.outputs.n }}"}}
  - {id: c, action: t.fail, depends_on: [b]}
`))
	x := r.end(id, stepwell.ExecutionFailed)
	fc, err := r.PreviewRestart(t.Context(), id, "b", false)
	if err != nil || !slices.Equal(fc.Repeated, []string{"b"}) || !slices.Equal(fc.Again, []engine.Again{{Step: "c", Because: "b"}}) || !slices.Equal(fc.Kept, []string{"a"}) {
		t.Errorf("PreviewRestart: %+v, error %v", fc, err)
	}
	before := r.steps(x.No)
	if err := r.Restart(t.Context(), id, "b", false); err != nil {
		t.Fatal(err)
	}
	r.end(id, stepwell.ExecutionFailed)
	after := r.steps(x.No)
	if after["a"].Ended != before["a"].Ended || after["b"].Ended == before["b"].Ended {
		t.Error("a ran again, or b did not")
	}
	wantCode(t, "Restart of an unknown step", r.Restart(t.Context(), id, "zz", false), stepwell.CodeNotFound)
	wantCode(t, "Restart of no for_each", r.Restart(t.Context(), id, "a", true), stepwell.CodeInvalid)
	if left := r.Active(); len(left) != 0 {
		t.Errorf("%v are still in memory after refused restarts", left)
	}
	next, err := r.Retry(t.Context(), id, "b")
	if err != nil {
		t.Fatal(err)
	}
	y := r.end(next, stepwell.ExecutionFailed)
	steps := r.steps(y.No)
	if y.Parent != id || steps["a"].Worker != "" || string(steps["b"].Output) != `{"v":5}` {
		t.Errorf("parent %s, a on %q, b gave %s", y.Parent, steps["a"].Worker, steps["b"].Output)
	}
}

func TestRetryOfARunningExecution(t *testing.T) {
	g := newGate()
	r := newRig(t, build{actions: actions(g)})
	id := r.begin(pipeline(t, two))
	_, err := r.Retry(t.Context(), id, "")
	wantCode(t, "Retry", err, stepwell.CodeConflict)
	close(g.open)
	r.end(id, stepwell.ExecutionCompleted)
}

// Many restarts of an ended execution at once: none is lost, none disturbs another.
func TestRestartTwiceAtOnce(t *testing.T) {
	r := newRig(t, build{})
	id := r.begin(pipeline(t, "name: r\nsteps:\n  - {id: a, action: t.echo, params: {n: 1}}\n  - {id: b, action: t.echo, depends_on: [a], params: {n: 2}}\n"))
	r.end(id, stepwell.ExecutionCompleted)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if err := r.Restart(t.Context(), id, "a", false); err != nil {
				t.Error(err)
			}
			if _, err := r.Wait(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	x := r.end(id, stepwell.ExecutionCompleted)
	for key, s := range r.steps(x.No) {
		if s.Status != stepwell.StepCompleted {
			t.Errorf("%s is %s", key, s.Status)
		}
	}
	if left := r.Active(); len(left) != 0 {
		t.Errorf("%v are still in memory", left)
	}
}

// interrupted leaves an execution of two in the database with its first step in flight.
func interrupted(t *testing.T, text string) (db, id string) {
	t.Helper()
	db = filepath.Join(t.TempDir(), "left.db")
	g := newGate()
	r := newRig(t, build{db: db, actions: []action.Action{g.action(), once(g)}})
	id = r.begin(pipeline(t, text))
	<-g.begun
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	return db, id
}

// once is a gate that must not run twice.
func once(g *gate) action.Action {
	a := g.action()
	a.Spec.Name, a.Spec.NotIdempotent = "t.once", true
	return a
}

func TestRecoverMoreThanOnce(t *testing.T) {
	db, id := interrupted(t, two)
	g := newGate()
	r := newRig(t, build{db: db, actions: actions(g)})
	_, err := r.Wait(t.Context(), id)
	wantCode(t, "Wait for what nobody runs", err, stepwell.CodeConflict)
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			if err := r.Recover(t.Context(), id[:len(id)-i%3]); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if c := <-g.begun; c.Attempt != 1 {
		t.Errorf("attempt %d", c.Attempt)
	}
	if err := r.Recover(t.Context(), id); err != nil { // while it runs
		t.Error(err)
	}
	close(g.open)
	x := r.end(id, stepwell.ExecutionCompleted)
	if len(g.begun) != 0 {
		t.Errorf("the step ran %d times more", len(g.begun))
	}
	if err := r.Recover(t.Context(), id); err != nil { // after its end
		t.Error(err)
	}
	r.end(id, stepwell.ExecutionCompleted)
	if again, err := r.store.Execution(t.Context(), id); err != nil || again.Version != x.Version && again.Version == 0 {
		t.Errorf("version %d, error %v", again.Version, err)
	}
	if left := r.Active(); len(left) != 0 {
		t.Errorf("%v are still in memory", left)
	}
}

// Wishes for an execution that nobody runs bring it into memory, all at once and in any order.
func TestWishesForAnInterruptedExecution(t *testing.T) {
	db, id := interrupted(t, two)
	g := newGate()
	tasks := make(chan int, 100)
	r := newRig(t, build{db: db, actions: actions(g), observe: func(u *conductor.Update) { tasks <- len(u.Tasks) }})
	if err := r.Pause(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if n := <-tasks; n != 0 {
		t.Errorf("%d steps were dispatched, although the execution was paused before they could start again", n)
	}
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			var err error
			switch i % 4 {
			case 0:
				err = r.Cancel(t.Context(), id, "race")
			case 1:
				err = r.Recover(t.Context(), id)
			case 2:
				err = r.Pause(t.Context(), id)
			case 3:
				err = r.Resume(t.Context(), id)
			}
			if code := stepwell.CodeOf(err); code != "" && code != stepwell.CodeConflict {
				t.Error(err)
			}
		})
	}
	group.Wait()
	r.end(id, stepwell.ExecutionCancelled)
}

// The step that must not run twice fails when its execution is taken up, and the execution ends in the
// same batch as the wish that took it up.
func TestCancelOfWhatEndsMeanwhile(t *testing.T) {
	db, id := interrupted(t, one("t.once"))
	r := newRig(t, build{db: db, actions: []action.Action{once(newGate())}})
	if err := r.Cancel(t.Context(), id, "too late?"); err != nil {
		t.Fatal(err)
	}
	x, err := r.Wait(t.Context(), id)
	if err != nil || !x.Status.Terminal() {
		t.Fatalf("the execution is %v, error %v", x, err)
	}
	if f := r.steps(x.No)["a"].Error; f == nil || f.Code != stepwell.CodeLost {
		t.Errorf("a failed with %+v", f)
	}
	r.end(r.begin(pipeline(t, one("t.echo"))), stepwell.ExecutionCompleted) // the loop is well
}

// A step that must not run twice is known to run before it does.
func TestRunningBeforeRunning(t *testing.T) {
	g := newGate()
	r := newRig(t, build{actions: []action.Action{once(g)}})
	id := r.begin(pipeline(t, one("t.once")))
	<-g.begun
	if s := r.steps(1)["a"]; s.Status != stepwell.StepRunning {
		t.Errorf("the step is %s in the store while its handler runs", s.Status)
	}
	wantCode(t, "a second worker's claim", r.Report(t.Context(), 1, engine.Event{Kind: engine.Running, Idx: 0, Epoch: 1, At: 1, Started: 1}), stepwell.CodeConflict)
	close(g.open)
	r.end(id, stepwell.ExecutionCompleted)
}

// A caller that gives up during the commit gets the id, and the execution can be found.
func TestStartGivenUp(t *testing.T) {
	held, free := make(chan struct{}), make(chan struct{})
	f := &faulty{before: func(call int) error {
		if call == 1 {
			close(held)
			<-free
		}
		return nil
	}}
	r := newRig(t, build{faulty: f})
	p := r.register(pipeline(t, one("t.echo")))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-held; cancel() }()
	id, err := r.Start(ctx, conductor.Request{Pipeline: p})
	if !errors.Is(err, context.Canceled) || id == "" {
		t.Fatalf("id %q, error %v", id, err)
	}
	if active := r.Active(); !slices.Contains(active, id) {
		t.Errorf("%s is not among the active %v", id, active)
	}
	close(free)
	r.end(id, stepwell.ExecutionCompleted)
	id, err = r.Start(ctx, conductor.Request{Pipeline: p})
	if !errors.Is(err, context.Canceled) || id != "" {
		t.Errorf("a start with an ended context: id %q, error %v", id, err)
	}
	if active := r.Active(); len(active) != 0 {
		t.Errorf("active %v", active)
	}
}

func TestStopWhilePeopleWait(t *testing.T) {
	r := newRig(t, build{})
	id := r.begin(pipeline(t, one("t.block")))
	waiting := make(chan error, 10)
	for range cap(waiting) {
		go func() { _, err := r.Wait(context.Background(), id); waiting <- err }()
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	for range cap(waiting) {
		wantCode(t, "Wait", <-waiting, stepwell.CodeUnavailable)
	}
	wantCode(t, "Cancel after the stop", r.Cancel(t.Context(), id, ""), stepwell.CodeUnavailable)
	wantCode(t, "Report after the stop", r.Report(t.Context(), 1, engine.Event{Kind: engine.Done}), stepwell.CodeUnavailable)
	wantCode(t, "Spawn after the stop", r.Report(t.Context(), 1, engine.Event{Kind: engine.Spawned}), stepwell.CodeUnavailable)
}

// Items put in before the stop are taken in: the last step of a drain counts.
func TestNothingIsLostAtTheStop(t *testing.T) {
	for range 20 {
		db := filepath.Join(t.TempDir(), "stop.db")
		g := newGate()
		r := newRig(t, build{db: db, actions: actions(g)})
		r.begin(pipeline(t, one("t.gate")))
		<-g.begun
		close(g.open)
		r.pool.Drain()
		r.pooled <- <-r.pooled // its last report is in
		r.endConductor()
		r.conducted <- <-r.conducted
		if s := r.steps(1)["a"]; s.Status != stepwell.StepCompleted {
			t.Fatalf("the step is %s", s.Status)
		}
		r.stop()
	}
}

func TestObserverPanics(t *testing.T) {
	r := newRig(t, build{observe: func(*conductor.Update) { panic("an observer's fault") }})
	r.end(r.begin(pipeline(t, one("t.echo"))), stepwell.ExecutionCompleted)
	if !r.log.has("an observer's fault") {
		t.Error("the panic was not logged")
	}
}

// watched is a queue that asks about each message that it takes.
type watched struct {
	queue.Queue
	pushed func(m *queue.Message)
}

func (q watched) Push(ctx context.Context, messages []queue.Message) error {
	for i := range messages {
		q.pushed(&messages[i])
	}
	return q.Queue.Push(ctx, messages)
}

// A step's first log line may be there before its worker has been told anything else: an observer knows the execution and
// the step by then.
func TestObserverKnowsStepsBeforeWorkers(t *testing.T) {
	type attempt struct {
		run   int64
		idx   int32
		epoch uint32
	}
	var mu sync.Mutex
	known, unknown, pushed := map[attempt]bool{}, 0, 0
	r := newRig(t, build{observe: func(u *conductor.Update) {
		mu.Lock()
		defer mu.Unlock()
		for _, task := range u.Tasks {
			known[attempt{task.Run, task.Idx, task.Epoch}] = true
		}
	}, queue: func(q queue.Queue) queue.Queue {
		return watched{q, func(m *queue.Message) {
			mu.Lock()
			defer mu.Unlock()
			if pushed++; !known[attempt{m.Run, m.Idx, m.Epoch}] {
				unknown++
			}
		}}
	}})
	r.end(r.begin(pipeline(t, "name: p\nsteps:\n  - {id: a, action: t.echo}\n  - {id: b, action: t.echo, depends_on: [a]}\n  - {id: c, action: t.echo, for_each: 3, depends_on: [b]}\n")), stepwell.ExecutionCompleted)
	mu.Lock()
	defer mu.Unlock()
	if pushed != 5 || unknown > 0 {
		t.Errorf("%d messages, %d of steps that the observer did not know", pushed, unknown)
	}
}

func TestStartRefused(t *testing.T) {
	r := newRig(t, build{})
	p := r.register(pipeline(t, "name: p\nparameters:\n  - {name: n, type: integer, required: true}\nsteps:\n  - {id: a, action: t.echo}\n"))
	_, err := r.Start(t.Context(), conductor.Request{Pipeline: p, Params: map[string]any{"n": "x", "m": 1}})
	wantCode(t, "Start", err, stepwell.CodeInvalid)
	if left := r.Active(); len(left) != 0 {
		t.Errorf("%v are in memory", left)
	}
}

// A timer survives the process.
func TestWaitAcrossARestart(t *testing.T) {
	db := filepath.Join(t.TempDir(), "wait.db")
	wait := action.Action{Spec: spec.Spec{Name: "t.wait", Summary: "For tests."}, Handler: action.HandlerFunc(func(context.Context, *action.Call) (any, error) {
		return nil, action.WaitUntil(time.Now().Add(300*time.Millisecond), map[string]any{"waited": true})
	})}
	asleep := make(chan struct{}, 10)
	r := newRig(t, build{db: db, actions: []action.Action{wait}, observe: func(u *conductor.Update) {
		for _, row := range u.Rows {
			if row.Status == stepwell.StepWaiting {
				asleep <- struct{}{}
			}
		}
	}})
	id := r.begin(pipeline(t, one("t.wait")))
	<-asleep
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	again := newRig(t, build{db: db, actions: []action.Action{wait}})
	if err := again.Recover(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	x := again.end(id, stepwell.ExecutionCompleted)
	s := again.steps(x.No)["a"]
	if string(s.Output) != `{"waited":true}` || s.Ended-s.Started < 300_000 {
		t.Errorf("gave %s after %d µs", s.Output, s.Ended-s.Started)
	}
}

// Lines that the store does not take are kept in order until it does, and are there when Wait returns.
func TestLogLines(t *testing.T) {
	chatty := action.Action{Spec: spec.Spec{Name: "t.chatty", Summary: "For tests."}, Handler: action.HandlerFunc(func(_ context.Context, c *action.Call) (any, error) {
		for i := range 3000 {
			c.Log(fmt.Sprint(i))
		}
		return nil, nil
	})}
	left := 3
	f := &faulty{lines: func() error { // called by one at a time
		if left--; left >= 0 {
			return errors.New("no lines now")
		}
		return nil
	}}
	r := newRig(t, build{actions: []action.Action{chatty}, faulty: f})
	x := r.end(r.begin(pipeline(t, one("t.chatty"))), stepwell.ExecutionCompleted)
	if err := r.drainLines(x.No, 3000); err != nil {
		t.Error(err)
	}
	if !r.log.has("retrying") || r.log.has("lost") {
		t.Errorf("the shell said %v", r.log.lines)
	}
}

// drainLines checks that the lines of an execution are 0 … n−1.
func (r *rig) drainLines(no int64, n int) error {
	if err := r.stopLoops(); err != nil {
		return err
	}
	list, err := r.store.Logs(r.t.Context(), no, store.LogFilter{Limit: 10_000})
	if err != nil {
		return err
	}
	if len(list) != n {
		return fmt.Errorf("%d lines, want %d", len(list), n)
	}
	for i, l := range list {
		if l.Message != fmt.Sprint(i) {
			return fmt.Errorf("line %d is %q", i, l.Message)
		}
	}
	return nil
}

// stopLoops ends the workers and the conductor, but not the store.
func (r *rig) stopLoops() error {
	r.endPool()
	r.pooled <- <-r.pooled
	r.endConductor()
	err := <-r.conducted
	r.conducted <- err
	return err
}
