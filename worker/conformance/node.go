package conformance

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/desk"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
	"github.com/stepwell/stepwell/worker"
)

// lease is that of the private node's desk.
const lease = 6 * time.Second

// rig is a private node with a worker. A check uses it alone.
type rig struct {
	o       Options
	ctx     context.Context
	key     string // API key
	dir     string // of the database
	node    *node
	front   *front
	process *process // nil: none has been started
	ahead   atomic.Int64
	spoiled bool // not to be used by the next check
	wrong   []string
	skipped string

	mu       sync.Mutex
	progress map[int64][]worker.Progress // by execution
}

// currentNode is the node, for the front's goroutines.
func (r *rig) currentNode() *node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.node
}

// node is what dies when a node dies: the file of the database outlives it.
type node struct {
	*conductor.Conductor
	desk  *desk.Desk
	store *sqlite.Store
	end   context.CancelFunc
	loops sync.WaitGroup
}

// stop may be called again.
func (n *node) stop() error {
	n.end()
	n.loops.Wait()
	return n.store.Close()
}

func newRig(ctx context.Context, o Options) (*rig, error) {
	r := &rig{o: o, ctx: ctx, key: "conformance_" + rand.Text(), progress: map[int64][]worker.Progress{}}
	var err error
	if r.dir, err = os.MkdirTemp("", "stepwell-conformance-"); err == nil {
		err = r.startNode()
	}
	if err == nil {
		r.front, err = newFront(r)
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *rig) close() (err error) {
	if r.process != nil {
		r.process.kill()
	}
	if r.front != nil {
		r.front.close()
	}
	if r.node != nil {
		err = r.node.stop()
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}

// startNode starts a conductor and a desk on the database.
func (r *rig) startNode() error {
	s, err := sqlite.Open(r.ctx, sqlite.Options{Path: filepath.Join(r.dir, "conformance.db"), Exclusive: true, Synchronous: "normal"})
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.WithoutCancel(r.ctx))
	n := &node{store: s, end: end}
	if err := r.wire(n); err != nil {
		return errors.Join(err, n.stop())
	}
	n.loops.Go(func() { _ = n.Run(ctx) }) // they end with ctx alone
	n.loops.Go(func() { _ = n.desk.Run(ctx) })
	r.mu.Lock()
	r.node = n
	r.mu.Unlock()
	return n.RecoverAll(r.ctx)
}

// wire makes the parts of a node.
func (r *rig) wire(n *node) error {
	log := slog.New(slog.DiscardHandler)
	actions := &action.Registry{}
	if err := actions.Add(Actions()...); err != nil {
		return err
	}
	// The desk's clock moves by pass, and by itself at a tenth of the speed: a busy machine takes no lease away, and what was given to a
	// worker that did not hear of it is given again.
	began := time.Now()
	now := func() time.Time { return began.Add(time.Since(began)/10 + time.Duration(r.ahead.Load())) }
	n.desk = desk.New(desk.Options{Node: "conformance", Lease: lease, Requeue: lease, Now: now, Log: log})
	var err error
	n.Conductor, err = conductor.New(r.ctx, conductor.Options{Store: n.store, Queue: n.desk, Blobs: n.store.Blobs(), Catalog: actions, Revoke: n.desk.Revoke, Expect: n.desk.Expect, Log: log})
	if err != nil {
		return err
	}
	runner, err := worker.NewRunner(worker.Options{Actions: actions, Reporter: n, Records: n.store, Blobs: n.store.Blobs(), Lines: n.Line, Progress: r.addProgress, Log: log})
	if err != nil {
		return err
	}
	return n.desk.Attach(desk.Parts{Conductor: n, Runner: runner, Actions: actions, Locate: n.locate})
}

func (n *node) locate(ctx context.Context, id string) (int64, bool, error) {
	x, err := n.store.Execution(ctx, id)
	if err != nil {
		return 0, false, err
	}
	return x.No, x.Status.Terminal(), nil
}

func (r *rig) addProgress(run int64, _ int32, p worker.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if list := r.progress[run]; len(list) < 1000 {
		r.progress[run] = append(list, p)
	}
}

// pass lets time go by for the desk.
func (r *rig) pass(d time.Duration) { r.ahead.Add(int64(d)) }

// errorf says that the worker is wrong; the check goes on.
func (r *rig) errorf(format string, args ...any) {
	if len(r.wrong) < 20 {
		r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
	}
}

// fatal says that the worker is wrong, and ends the check.
func (r *rig) fatal(format string, args ...any) {
	r.errorf(format, args...)
	panic(stopped{})
}

// must ends the check after an error of the private node.
func (r *rig) must(err error) {
	if err != nil {
		r.fatal("the private node failed: %v", err)
	}
}

// until waits for something that must come.
func (r *rig) until(what string, holds func() bool) {
	if !r.within(r.o.Patience, holds) {
		r.fatal("within %s there was not: %s", r.o.Patience, what)
	}
}

// within reports whether something comes in time.
func (r *rig) within(d time.Duration, holds func() bool) bool {
	for deadline := time.Now().Add(d); !holds(); {
		if time.Now().After(deadline) || action.Pause(r.ctx, 2*time.Millisecond) != nil {
			return false
		}
	}
	return true
}

// begin starts an execution of steps, each a line of YAML below "steps:".
func (r *rig) begin(steps ...string) string {
	text := "name: conformance\nsteps:\n"
	for _, s := range steps {
		text += "  - " + s + "\n"
	}
	d, problems := definition.Parse([]byte(text), definition.ParseOptions{})
	r.must(problems.Err())
	p, err := r.node.Register(r.ctx, d)
	r.must(err)
	id, err := r.node.Start(r.ctx, conductor.Request{Pipeline: p})
	r.must(err)
	return id
}

// ended is an execution with its steps.
type ended struct {
	*store.Execution
	steps map[string]store.Step
}

// end waits for the end of an execution and returns it with its steps, by their keys.
func (r *rig) end(id string, want stepwell.ExecutionStatus) ended {
	ctx, stop := context.WithTimeout(r.ctx, r.o.Patience)
	defer stop()
	x, err := r.node.Wait(ctx, id)
	if err != nil {
		x, err = r.node.store.Execution(r.ctx, id)
		r.must(err)
	}
	list, err := r.node.store.Steps(r.ctx, x.No, store.StepFilter{Limit: 10_000})
	r.must(err)
	out := ended{x, map[string]store.Step{}}
	for _, s := range list {
		out.steps[s.Key] = s
	}
	if x.Status != want {
		for _, s := range list {
			if !s.Status.Terminal() || s.Error != nil {
				r.errorf("step %s (%s) is %s: %s", s.Key, s.Action, s.Status, problemOf(s.Error))
			}
		}
		r.fatal("the execution is %s after %s at most, want %s", x.Status, r.o.Patience, want)
	}
	return out
}

func problemOf(e *engine.Failure) string {
	if e == nil {
		return "no outcome came"
	}
	return string(e.Code) + ": " + e.Message
}

// run runs steps to their good end.
func (r *rig) run(steps ...string) ended {
	return r.end(r.begin(steps...), stepwell.ExecutionCompleted)
}

// alive checks that the worker goes on.
func (r *rig) alive() {
	for i := range 3 {
		x := r.run(fmt.Sprintf("{id: alive, action: conformance.echo, params: {value: %d}}", i))
		r.gives(x, "alive", fmt.Sprintf(`{"value":%d}`, i))
	}
}

// gives compares the outputs of a step.
func (r *rig) gives(x ended, key, want string) {
	if got := x.steps[key].Output; !sameJSON(got, []byte(want)) {
		r.errorf("step %s gave %s, want %s", key, stepwell.Head(string(got), 300), stepwell.Head(want, 300))
	}
}

// held waits until the worker holds a step of an execution, and returns which.
func (r *rig) held(id string) wire.ID {
	var held wire.ID
	r.until("a step that the worker takes", func() bool {
		var ok bool
		held, ok = r.front.lastTask(id)
		return ok
	})
	return held
}

// lines are the log lines of an execution.
func (r *rig) lines(x ended) []store.LogLine {
	list, err := r.node.store.Logs(r.ctx, x.No, store.LogFilter{Limit: 10_000})
	r.must(err)
	return list
}

func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return equal(x, y)
}

func equal(x, y any) bool {
	a, err := json.Marshal(x)
	b, bad := json.Marshal(y)
	return err == nil && bad == nil && string(a) == string(b)
}
