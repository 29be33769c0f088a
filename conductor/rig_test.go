package conductor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/builtin"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
	"github.com/stepwell/stepwell/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a conductor with a real store, queue and workers, which a test may break on purpose.
type rig struct {
	*conductor.Conductor
	t      *testing.T
	store  *sqlite.Store
	faulty *faulty
	log    *logBook
	pool   *worker.Pool

	endPool, endConductor context.CancelFunc
	pooled, conducted     chan error
	queue                 *queue.Memory
	stopOnce              sync.Once
	stopErr               error
}

// build holds a rig's differences from the usual one.
type build struct {
	db      string // Defaults to a new one
	shared  bool   // with another rig at the same time
	actions []action.Action
	faulty  *faulty
	queue   func(queue.Queue) queue.Queue
	blobs   func(store.Blobs) store.Blobs
	report  func(worker.Reporter) worker.Reporter
	observe func(*conductor.Update)
	workers int
	price   func(action string, calls int, began time.Time, outputs json.RawMessage) stepwell.Spending
	window  int
	set     func(*conductor.Options)
}

func newRig(t *testing.T, b build) *rig {
	t.Helper()
	ctx := context.Background()
	if b.db == "" {
		b.db = filepath.Join(t.TempDir(), "rig.db")
	}
	r := &rig{t: t, faulty: b.faulty, log: &logBook{}, queue: &queue.Memory{}, pooled: make(chan error, 1), conducted: make(chan error, 1)}
	var err error
	must := func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	registry := &action.Registry{}
	err = builtin.Register(registry, builtin.Options{})
	must()
	err = registry.Add(append(basicActions(time.Now), b.actions...)...)
	must()
	r.store, err = sqlite.Open(ctx, sqlite.Options{Path: b.db, Exclusive: !b.shared, Synchronous: "normal"})
	must()
	if r.faulty == nil {
		r.faulty = &faulty{}
	}
	r.faulty.Store = r.store
	var q queue.Queue = r.queue
	if b.queue != nil {
		q = b.queue(q)
	}
	var blobs store.Blobs = r.store.Blobs()
	if b.blobs != nil {
		blobs = b.blobs(blobs)
	}
	log, outage := slog.New(r.log), store.NewOutage(nil)
	options := conductor.Options{Store: r.faulty, Queue: q, Blobs: blobs, Outage: outage, Catalog: registry, Observe: b.observe,
		Limits: conductor.Limits{Window: b.window}, Log: log, Revoke: func(run int64, idx int32, epoch uint32) { r.pool.Revoke(run, idx, epoch) }}
	if b.set != nil {
		b.set(&options)
	}
	r.Conductor, err = conductor.New(ctx, options)
	must()
	var reporter worker.Reporter = r.Conductor
	if b.report != nil {
		reporter = b.report(reporter)
	}
	r.pool, err = worker.New(worker.Options{Queue: q, Actions: registry, Reporter: reporter, Records: r.store, Blobs: blobs, Outage: outage, Lines: r.Line,
		SeenRunning: time.Hour, // so that a slow machine makes no commit that a test does not expect
		Concurrency: b.workers, Price: b.price, Log: log, CallbackURL: func(key string) string { return "https://here.example.com/" + key }})
	must()
	pooling, endPool := context.WithCancel(ctx)
	conducting, endConductor := context.WithCancel(ctx)
	r.endPool, r.endConductor = endPool, endConductor
	go func() { r.pooled <- r.pool.Run(pooling) }()
	go func() { r.conducted <- r.Conductor.Run(conducting) }()
	t.Cleanup(func() { r.stop() })
	return r
}

// stop ends everything, hard, and gives the conductor's error.
func (r *rig) stop() error {
	r.stopOnce.Do(func() {
		r.endPool()
		<-r.pooled
		r.endConductor()
		r.stopErr = <-r.conducted
		r.queue.Close()
		if err := r.store.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return r.stopErr
}

func (r *rig) register(d *definition.Definition) *conductor.Pipeline {
	r.t.Helper()
	p, err := r.Register(r.t.Context(), d)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *rig) begin(d *definition.Definition) string {
	r.t.Helper()
	id, err := r.Start(r.t.Context(), conductor.Request{Pipeline: r.register(d)})
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

func (r *rig) end(id string, want stepwell.ExecutionStatus) *store.Execution {
	r.t.Helper()
	x, err := r.Wait(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	if x.Status != want {
		r.t.Fatalf("the execution is %s (%+v), want %s", x.Status, x.Failure, want)
	}
	return x
}

// until waits for something that must come, which the test's own deadline bounds.
func (r *rig) until(what string, there func() bool) {
	r.t.Helper()
	for !there() {
		if r.t.Context().Err() != nil {
			r.t.Fatalf("%s did not come", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func (r *rig) steps(no int64) map[string]store.Step {
	r.t.Helper()
	list, err := r.store.Steps(r.t.Context(), no, store.StepFilter{Limit: 10_000})
	if err != nil {
		r.t.Fatal(err)
	}
	out := make(map[string]store.Step, len(list))
	for _, s := range list {
		out[s.Key] = s
	}
	return out
}

// pipeline reads a document.
func pipeline(t *testing.T, text string) *definition.Definition {
	t.Helper()
	d, problems := definition.Parse([]byte(text), definition.ParseOptions{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return d
}

// one is the whole document of a pipeline with one step.
func one(act string) string {
	return "name: one\nsteps:\n  - id: a\n    action: " + act + "\n"
}

func basicActions(now func() time.Time) []action.Action {
	n := []spec.Field{{Name: "n", Type: spec.Any}}
	make := func(name string, f action.HandlerFunc, spawns ...string) action.Action {
		return action.Action{Spec: spec.Spec{Name: name, Summary: "For tests.", Params: n, Spawns: spawns}, Handler: f}
	}
	return []action.Action{
		make("t.echo", func(_ context.Context, c *action.Call) (any, error) { return map[string]any{"v": c.Params["n"]}, nil }),
		make("t.flaky", func(_ context.Context, c *action.Call) (any, error) {
			if c.Attempt == 1 {
				return nil, errors.New("the first attempt always fails")
			}
			return map[string]any{"v": c.Params["n"]}, nil
		}),
		make("t.spawn", func(ctx context.Context, c *action.Call) (any, error) {
			for i := range 3 {
				err := c.Spawn(ctx, action.NewStep{Name: "leaf", Key: fmt.Sprint(i), Action: "t.echo", Params: map[string]any{"n": i}})
				if err != nil {
					return nil, err
				}
			}
			return map[string]any{"spawned": 3}, nil
		}, "leaf"),
		make("t.fail", func(context.Context, *action.Call) (any, error) { return nil, errors.New("it always fails") }),
		make("t.block", func(ctx context.Context, _ *action.Call) (any, error) { <-ctx.Done(); return nil, ctx.Err() }),
		make("t.nap", func(context.Context, *action.Call) (any, error) {
			return nil, action.WaitUntil(now().Add(2*time.Millisecond), map[string]any{"text": strings.Repeat("y", 100<<10), "n": 7})
		}),
		make("t.await", func(_ context.Context, c *action.Call) (any, error) {
			return nil, action.Await(fmt.Sprint("key-", c.Params["n"]), time.Time{}, nil)
		}),
		make("t.large", func(context.Context, *action.Call) (any, error) {
			return map[string]any{"text": strings.Repeat("x", 100<<10), "n": 5}, nil
		}),
	}
}

// gate is an action that says when it has begun and then waits to be let go.
type gate struct {
	begun chan *action.Call
	open  chan struct{}
}

func newGate() *gate { return &gate{begun: make(chan *action.Call, 1000), open: make(chan struct{})} }

func (g *gate) action() action.Action {
	return action.Action{Spec: spec.Spec{Name: "t.gate", Summary: "For tests.", OpenParams: true}, Handler: action.HandlerFunc(
		func(ctx context.Context, c *action.Call) (any, error) {
			g.begun <- c
			select {
			case <-g.open:
				return map[string]any{"attempt": c.Attempt}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})}
}

func actions(gates ...*gate) (list []action.Action) {
	for _, g := range gates {
		list = append(list, g.action())
	}
	return list
}

// faulty is the real store, which refuses or delays commits when a test says so.
type faulty struct {
	*sqlite.Store
	mu      sync.Mutex
	calls   int
	commits int // of executions
	largest int
	before  func(call int) error // an error refuses the commit
	after   func(call int) error // an error comes although the commit is durable
	lines   func() error
	numbers func() error
	given   func(first int64) int64 // the numbers that are given instead
}

func (f *faulty) Numbers(ctx context.Context, n int) (int64, error) {
	if f.numbers != nil {
		if err := f.numbers(); err != nil {
			return 0, err
		}
	}
	first, err := f.Store.Numbers(ctx, n)
	if f.given != nil && err == nil {
		first = f.given(first)
	}
	return first, err
}

func (f *faulty) Commit(ctx context.Context, commits []store.Commit) error {
	f.mu.Lock()
	f.calls++
	call := f.calls
	f.commits += len(commits)
	f.largest = max(f.largest, len(commits))
	f.mu.Unlock()
	f.mu.Lock()
	before := f.before
	f.mu.Unlock()
	if before != nil {
		if err := before(call); err != nil {
			return err
		}
	}
	if err := f.Store.Commit(ctx, commits); err != nil {
		return err
	}
	if f.after != nil {
		return f.after(call)
	}
	return nil
}

func (f *faulty) AppendLogs(ctx context.Context, lines []store.LogLine) error {
	if f.lines != nil {
		if err := f.lines(); err != nil {
			return err
		}
	}
	return f.Store.AppendLogs(ctx, lines)
}

// refuse makes every further commit fail; nil lets them through again.
func (f *faulty) refuse(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = func(int) error { return err }
}

func (f *faulty) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// logBook collects the conductor's log.
type logBook struct {
	mu    sync.Mutex
	lines []string
}

func (b *logBook) Enabled(context.Context, slog.Level) bool { return true }
func (b *logBook) WithAttrs([]slog.Attr) slog.Handler       { return b }
func (b *logBook) WithGroup(string) slog.Handler            { return b }
func (b *logBook) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, line)
	return nil
}

func (b *logBook) has(text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Contains(strings.Join(b.lines, "\n"), text)
}

var _ conductor.Store = (*faulty)(nil)

// callHandler is a handler that needs no context.
type callHandler func(*action.Call) (any, error)

func (f callHandler) Run(_ context.Context, c *action.Call) (any, error) { return f(c) }
