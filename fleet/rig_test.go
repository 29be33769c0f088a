package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/fleet"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/postgres"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
	"github.com/stepwell/stepwell/worker"
)

// database is a new, empty database.
func database(t *testing.T) string {
	t.Helper()
	url, err := postgrestest.Create(postgrestest.URL(t), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := postgrestest.Drop(url); err != nil {
			t.Log(err)
		}
	})
	return url
}

// member is a node with a store, a conductor and workers of its own.
type member struct {
	*conductor.Conductor
	node  *fleet.Node
	store *postgres.Store

	endNode, endRest context.CancelFunc
	noded            chan error
	rest             sync.WaitGroup
	stopped          bool
}

// parts are a member's differences from the usual one.
type parts struct {
	lease, beat time.Duration
	local       func() time.Time
	address     string
	actions     []action.Action
	log         *slog.Logger
	store       func(conductor.Store) conductor.Store
	nodes       func(store.Nodes) store.Nodes
	set         func(*member, *conductor.Options)
}

// newMember joins a node of a database.
func newMember(ctx context.Context, url string, p parts) (m *member, err error) {
	m = &member{noded: make(chan error, 1)}
	if m.store, err = postgres.Open(ctx, postgres.Options{URL: url}); err != nil {
		return nil, err
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	var nodes store.Nodes = m.store
	if p.nodes != nil {
		nodes = p.nodes(nodes)
	}
	m.node, err = fleet.Join(ctx, fleet.Options{Store: nodes, Address: p.address, Lease: p.lease, Beat: p.beat, Local: p.local, Log: p.log})
	if err != nil {
		return nil, err
	}
	registry := &action.Registry{}
	if err := registry.Add(append(p.actions, echo())...); err != nil {
		return nil, err
	}
	q, outage := &queue.Memory{}, store.NewOutage(nil)
	executions := m.node.Executions(m.store)
	if p.store != nil {
		executions = p.store(executions)
	}
	var pool *worker.Pool
	o := conductor.Options{Store: executions, Queue: q, Blobs: m.store.Blobs(), Catalog: registry, Outage: outage, Owner: m.node.No(), Owners: m.node, Now: m.node.Now, Log: p.log,
		Revoke: func(run int64, idx int32, epoch uint32) { pool.Revoke(run, idx, epoch) }, Limits: conductor.Limits{Patience: time.Minute}}
	if p.set != nil {
		p.set(m, &o)
	}
	if m.Conductor, err = conductor.New(ctx, o); err != nil {
		return nil, err
	}
	pool, err = worker.New(worker.Options{Queue: q, Actions: registry, Reporter: m.Conductor, Records: m.store, Blobs: m.store.Blobs(), Outage: outage, Lines: m.Line, SeenRunning: time.Hour,
		Concurrency: 4, Log: p.log})
	if err != nil {
		return nil, err
	}
	m.run(ctx, pool, q)
	return m, nil
}

func (m *member) run(ctx context.Context, pool *worker.Pool, q *queue.Memory) {
	noding, endNode := context.WithCancel(context.WithoutCancel(ctx))
	conducting, endRest := context.WithCancel(context.WithoutCancel(ctx))
	m.endNode, m.endRest = endNode, endRest
	m.rest.Go(func() { _ = pool.Run(conducting) })        // it says how it was stopped
	m.rest.Go(func() { _ = m.Conductor.Run(conducting) }) // the books are checked instead
	go func() { m.noded <- m.node.Run(noding, m.Conductor) }()
	context.AfterFunc(conducting, q.Close)
}

// stop is an orderly stop: the conductor first, then the node leaves.
func (m *member) stop() error {
	if m.stopped {
		return nil
	}
	m.stopped = true
	m.endRest()
	m.rest.Wait()
	m.endNode()
	return errors.Join(<-m.noded, m.store.Close())
}

func join(t *testing.T, url string, p parts) *member {
	t.Helper()
	m, err := newMember(t.Context(), url, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.stop(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func (m *member) begin(t *testing.T, text string) string {
	t.Helper()
	id, err := m.start(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (m *member) start(ctx context.Context, text string) (string, error) {
	d, problems := definition.Parse([]byte(text), definition.ParseOptions{})
	if err := problems.Err(); err != nil {
		return "", err
	}
	p, err := m.Register(ctx, d)
	if err != nil {
		return "", err
	}
	return m.Start(ctx, conductor.Request{Pipeline: p})
}

// until waits for something that must come, which the test's own deadline bounds.
func until(t *testing.T, what string, there func() bool) {
	t.Helper()
	for !there() {
		if t.Context().Err() != nil {
			t.Fatalf("%s did not come", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// ended waits until an execution has ended, wherever it runs.
func (m *member) ended(t *testing.T, id string, want stepwell.ExecutionStatus) *store.Execution {
	t.Helper()
	var x *store.Execution
	until(t, "the end of "+id, func() bool {
		var err error
		if x, err = m.store.Execution(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return x.Status.Terminal()
	})
	if x.Status != want {
		t.Fatalf("the execution is %s (%+v), want %s", x.Status, x.Failure, want)
	}
	return x
}

func (m *member) owner(t *testing.T, id string) int64 {
	t.Helper()
	o, err := m.store.OwnerOf(t.Context(), id, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	return o.No
}

// six is a diamond with a tail: six steps, whose outputs depend on each other.
const six = `name: six
steps:
  - {id: a, action: t.echo, params: {n: 1}}
  - {id: b, action: t.echo, depends_on: [a], params: {n: "{{ steps.a.outputs.v + 1 }}"}}
  - {id: c, action: t.echo, depends_on: [a], params: {n: "{{ steps.a.outputs.v + 2 }}"}}
  - {id: d, action: t.echo, depends_on: [b, c], params: {n: "{{ steps.b.outputs.v + steps.c.outputs.v }}"}}
  - {id: e, action: t.echo, depends_on: [d], params: {n: "{{ steps.d.outputs.v + 1 }}"}}
  - {id: f, action: t.echo, depends_on: [e], params: {n: "{{ steps.e.outputs.v + 1 }}"}}
`

var sixOutputs = map[string]string{"a": `{"v":1}`, "b": `{"v":2}`, "c": `{"v":3}`, "d": `{"v":5}`, "e": `{"v":6}`, "f": `{"v":7}`}

func handler(name string, f action.HandlerFunc) action.Action {
	return action.Action{Spec: spec.Spec{Name: name, Summary: "For tests.", Params: []spec.Field{{Name: "n", Type: spec.Any}}}, Handler: f}
}

func echo() action.Action {
	return handler("t.echo", func(_ context.Context, c *action.Call) (any, error) { return map[string]any{"v": c.Params["n"]}, nil })
}

// gate is an action that tells who has begun and waits until it is opened.
type gate struct {
	begun chan string
	open  chan struct{}
}

func newGate() *gate { return &gate{make(chan string, 10_000), make(chan struct{})} }

func (g *gate) action() action.Action {
	return handler("t.gate", func(ctx context.Context, c *action.Call) (any, error) {
		g.begun <- c.Execution
		select {
		case <-g.open:
			return map[string]any{"v": c.Params["n"]}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
}

const gated = "name: gated\nsteps:\n  - {id: a, action: t.gate, params: {n: 1}}\n  - {id: b, action: t.echo, depends_on: [a], params: {n: 2}}\n"

// checkBooks reads the database with a connection of its own: versions without gaps, each step completed once in the log and in the rows,
// outputs as the model says, nothing running, no seat taken.
func checkBooks(t *testing.T, url string, executions int, outputs map[string]string) {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Options{URL: url, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, err := s.Executions(t.Context(), store.Filter{Limit: 1000})
	if err != nil || len(list) != executions {
		t.Fatalf("%d executions, want %d; error %v", len(list), executions, err)
	}
	for _, x := range list {
		if x.Status != stepwell.ExecutionCompleted {
			t.Errorf("execution %s is %s: %+v", x.ID, x.Status, x.Failure)
		}
		if err := checkLog(t.Context(), s, x.No, len(outputs)); err != nil {
			t.Errorf("execution %s: %v", x.ID, err)
		}
		steps, err := s.Steps(t.Context(), x.No, store.StepFilter{})
		if err != nil || len(steps) != len(outputs) {
			t.Errorf("execution %s has %d steps, error %v", x.ID, len(steps), err)
		}
		for _, step := range steps {
			if step.Status != stepwell.StepCompleted || string(step.Output) != outputs[step.Key] {
				t.Errorf("execution %s, step %s: %s, %s", x.ID, step.Key, step.Status, step.Output)
			}
		}
	}
	if err := postgrestest.Exec(url, `SELECT 1 / (CASE WHEN EXISTS (SELECT 1 FROM execution_live) OR EXISTS (SELECT 1 FROM seat) THEN 0 ELSE 1 END)`); err != nil {
		t.Errorf("something is left: %v", err)
	}
}

// checkLog counts versions and ends.
func checkLog(ctx context.Context, s *postgres.Store, no int64, steps int) error {
	done, last := map[int32]int{}, int64(0)
	for e, err := range s.StepLog(ctx, no, 0) {
		if err != nil {
			return err
		}
		if last++; e.Version != last {
			return fmt.Errorf("version %d follows %d", e.Version, last-1)
		}
		b, err := engine.DecodeBatch(e.Version, bytes.Clone(e.Body))
		if err != nil {
			return err
		}
		for _, ev := range b.Events {
			if ev.Kind == engine.Done {
				done[ev.Idx]++
			}
		}
	}
	for idx, n := range done {
		if n != 1 {
			return fmt.Errorf("step %d has ended %d times", idx, n)
		}
	}
	if len(done) != steps {
		return fmt.Errorf("%d steps have ended, want %d", len(done), steps)
	}
	return nil
}

type actionCall = action.Call

// overtake commits a version of an execution, as another process would.
func overtake(t *testing.T, m *member, no, version int64) {
	t.Helper()
	if err := m.store.Commit(t.Context(), []store.Commit{{Execution: no, Version: version, Log: []byte(`{"t":1,"e":[]}`)}}); err != nil {
		t.Fatal(err)
	}
}
