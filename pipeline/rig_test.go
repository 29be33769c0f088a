package pipeline_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/builtin"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
	"github.com/stepwell/stepwell/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a library over a real store, conductor and worker.
type rig struct {
	*pipeline.Library
	t         *testing.T
	store     *sqlite.Store
	conductor *conductor.Conductor
	registry  *action.Registry
	calls     chan map[string]any // parameters that t.echo was called with
	reads     reads
}

// reads counts how often an execution is read from the store.
type reads struct {
	pipeline.Executions
	n atomic.Int32
}

func (r *reads) Execution(ctx context.Context, id string) (*store.Execution, error) {
	r.n.Add(1)
	return r.Executions.Execution(ctx, id)
}

func newRig(t *testing.T, o pipeline.Options) *rig {
	t.Helper()
	r := &rig{t: t, registry: &action.Registry{}, calls: make(chan map[string]any, 1000)}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(builtin.Register(r.registry, builtin.Options{}))
	one := spec.Spec{Name: "t.echo", Summary: "For tests.", Params: []spec.Field{{Name: "n", Type: spec.Integer}, {Name: "text", Type: spec.String}, {Name: "any", Type: spec.Any}}}
	must(r.registry.Add(action.Action{Spec: one, Handler: action.HandlerFunc(func(_ context.Context, c *action.Call) (any, error) {
		r.calls <- c.Params
		return c.Params, nil
	})}))
	var err error
	r.store, err = sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "library.db"), Exclusive: true, Synchronous: "normal"})
	must(err)
	q := &queue.Memory{}
	r.conductor, err = conductor.New(t.Context(), conductor.Options{Store: r.store, Queue: q, Blobs: r.store.Blobs(), Catalog: r.registry})
	must(err)
	pool, err := worker.New(worker.Options{Queue: q, Actions: r.registry, Reporter: r.conductor, Records: r.store, Blobs: r.store.Blobs(), Lines: r.conductor.Line})
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- r.conductor.Run(ctx) }()
	go func() { done <- pool.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		q.Close()
		must(r.store.Close())
	})
	o.Objects, o.Runner, o.Executions, o.Catalog = r.store, r.conductor, &r.reads, r.registry
	r.reads.Executions = r.store
	r.Library, err = pipeline.New(o)
	must(err)
	return r
}

func (r *rig) create(document string) *pipeline.Pipeline {
	r.t.Helper()
	p, err := r.Create(r.t.Context(), &pipeline.Draft{Document: []byte(document)}, "tester")
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *rig) update(id, document string) *pipeline.Pipeline {
	r.t.Helper()
	p, err := r.Update(r.t.Context(), id, store.AnyRevision, with(document))
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// with is a change to another document.
func with(document string) func(*pipeline.Draft) error {
	return func(d *pipeline.Draft) error { d.Document = []byte(document); return nil }
}

// run launches and waits for the end.
func (r *rig) run(in pipeline.Launch) *store.Execution {
	r.t.Helper()
	launched, err := r.Launch(r.t.Context(), in)
	if err != nil {
		r.t.Fatal(err)
	}
	x, err := r.conductor.Wait(r.t.Context(), launched.Execution)
	if err != nil {
		r.t.Fatal(err)
	}
	if x.Status != stepwell.ExecutionCompleted {
		r.t.Fatalf("the execution is %s: %+v", x.Status, x.Failure)
	}
	return x
}

func wantCode(t *testing.T, err error, code stepwell.Code) {
	t.Helper()
	if stepwell.CodeOf(err) != code {
		t.Fatalf("error %v (%s), want %s", err, stepwell.CodeOf(err), code)
	}
}

// doc is a pipeline with one step that says n.
func doc(name, n string) string {
	return "name: " + name + "\nparameters:\n  - {name: x, type: integer, default: 1}\nsteps:\n  - id: a\n    action: t.echo\n    params: {n: " + n + "}\n"
}
