package desk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/desk"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
	"github.com/stepwell/stepwell/worker"
	"github.com/stepwell/stepwell/worker/link"
)

func TestMain(m *testing.M) {
	if runWorkerProcess() {
		return
	}
	http.DefaultClient.Timeout = time.Minute // a server that does not answer fails its test, not the whole run
	goleak.VerifyTestMain(m)
}

// node is a node without a pool of its own: a conductor with a real store, and a desk that is served.
type node struct {
	*conductor.Conductor
	t     *testing.T
	desk  *desk.Desk
	store *sqlite.Store
	url   string
	ahead atomic.Int64 // of the desk's clock
	stop  func()
	owner *node // that runs all executions; nil: this one
	cut   bool  // it cannot be reached
}

// act is an action that takes anything.
func act(name string, f action.HandlerFunc) action.Action {
	return action.Action{Spec: spec.Spec{Name: name, Summary: "For tests.", OpenParams: true}, Handler: f}
}

func registry(t *testing.T, actions ...action.Action) *action.Registry {
	t.Helper()
	r := &action.Registry{}
	if err := r.Add(actions...); err != nil {
		t.Fatal(err)
	}
	return r
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newNode(t *testing.T, db string, o desk.Options, actions ...action.Action) *node {
	t.Helper()
	ctx := context.Background()
	n := &node{t: t}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r := registry(t, actions...)
	var err error
	n.store, err = sqlite.Open(ctx, sqlite.Options{Path: db, Exclusive: true, Synchronous: "normal"})
	must(err)
	o.Log = quiet()
	if o.Now == nil {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(n.ahead.Load())) }
	}
	n.desk = desk.New(o)
	n.Conductor, err = conductor.New(ctx, conductor.Options{Store: n.store, Queue: n.desk, Blobs: n.store.Blobs(), Catalog: r, Revoke: n.desk.Revoke, Expect: n.desk.Expect, Log: quiet()})
	must(err)
	runner, err := worker.NewRunner(worker.Options{Actions: r, Reporter: n.Conductor, Records: n.store, Blobs: n.store.Blobs(), Lines: n.Line, Log: quiet(),
		Media: func(_ context.Context, ref, _ string) (string, error) {
			return filepath.Join(filepath.Dir(db), ref), nil
		}})
	must(err)
	must(n.desk.Attach(desk.Parts{Conductor: n.Conductor, Runner: runner, Actions: r, Locate: n.locate, Forward: n.forward}))
	server := httptest.NewServer(n.desk.Handler(func(r *http.Request) desk.Caller { return desk.Caller{ID: r.Header.Get("X-Key"), Secure: true} }))
	n.url = server.URL
	running, end := context.WithCancel(ctx)
	conducted, served := make(chan error, 1), make(chan error, 1)
	go func() { conducted <- n.Conductor.Run(running) }()
	go func() { served <- n.desk.Run(running) }()
	stopped := false
	n.stop = func() {
		if stopped {
			return
		}
		stopped = true
		end()
		<-conducted
		<-served
		server.CloseClientConnections()
		server.Close()
		must(n.store.Close())
	}
	t.Cleanup(n.stop)
	return n
}

func (n *node) forward(ctx context.Context, _ string, call []byte) ([]byte, error) {
	if n.owner == nil || n.cut {
		return nil, stepwell.Errorf(stepwell.CodeUnavailable, "", "nobody runs it")
	}
	return n.owner.desk.Serve(ctx, call)
}

func (n *node) locate(ctx context.Context, id string) (int64, bool, error) {
	if n.owner != nil {
		return n.owner.locate(ctx, id)
	}
	x, err := n.store.Execution(ctx, id)
	if err != nil {
		return 0, false, err
	}
	return x.No, x.Status.Terminal(), nil
}

// pass lets time go by for the desk.
func (n *node) pass(d time.Duration) { n.ahead.Add(int64(d)) }

func (n *node) begin(text string) string {
	n.t.Helper()
	d, problems := definition.Parse([]byte(text), definition.ParseOptions{})
	if err := problems.Err(); err != nil {
		n.t.Fatal(err)
	}
	p, err := n.Register(n.t.Context(), d)
	if err != nil {
		n.t.Fatal(err)
	}
	id, err := n.Start(n.t.Context(), conductor.Request{Pipeline: p})
	if err != nil {
		n.t.Fatal(err)
	}
	return id
}

// beginAbout starts a pipeline of a step for a lesson with a file.
func (n *node) beginAbout(step, ref string) string {
	n.t.Helper()
	d, problems := definition.Parse([]byte("name: p\nsteps:\n  - "+step+"\n"), definition.ParseOptions{})
	if err := problems.Err(); err != nil {
		n.t.Fatal(err)
	}
	p, err := n.Register(n.t.Context(), d)
	if err != nil {
		n.t.Fatal(err)
	}
	about := `{"lesson":{"media":{"path":"media:` + ref + `/cells.mp4"}}}`
	id, err := n.Start(n.t.Context(), conductor.Request{Pipeline: p, About: json.RawMessage(about)})
	if err != nil {
		n.t.Fatal(err)
	}
	return id
}

func (n *node) end(id string, want stepwell.ExecutionStatus) (*store.Execution, map[string]store.Step) {
	n.t.Helper()
	ctx, stop := context.WithTimeout(n.t.Context(), time.Minute)
	defer stop()
	x, err := n.Wait(ctx, id)
	if err != nil {
		row, _ := n.store.Execution(n.t.Context(), id)
		list, _ := n.store.Steps(n.t.Context(), row.No, store.StepFilter{Limit: 10_000})
		for _, s := range list {
			n.t.Logf("step %s: %s, attempt %d, worker %q, %v", s.Key, s.Status, s.Attempt, s.Worker, s.Error)
		}
		n.t.Fatal(err)
	}
	if x.Status != want {
		n.t.Fatalf("the execution is %s (%+v), want %s", x.Status, x.Failure, want)
	}
	list, err := n.store.Steps(n.t.Context(), x.No, store.StepFilter{Limit: 10_000})
	if err != nil {
		n.t.Fatal(err)
	}
	steps := map[string]store.Step{}
	for _, s := range list {
		steps[s.Key] = s
	}
	return x, steps
}

// books checks that each step has completed once, in a log without gaps.
func (n *node) books(x *store.Execution, steps int) {
	n.t.Helper()
	var version int64
	for entry, err := range n.store.StepLog(n.t.Context(), x.No, 0) {
		if err != nil {
			n.t.Fatal(err)
		}
		if version++; entry.Version != version {
			n.t.Errorf("the log goes from version %d to %d", version-1, entry.Version)
		}
	}
	done := map[string]int{}
	for after := int64(0); ; {
		list, err := n.store.Events(n.t.Context(), x.No, after, 1000)
		if err != nil {
			n.t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		for _, ev := range list {
			after = ev.Version
			if ev.Type == "completed" && ev.StepKey != "" {
				done[ev.StepKey]++
			}
		}
	}
	if len(done) != steps {
		n.t.Errorf("%d steps completed, want %d", len(done), steps)
	}
	for key, times := range done {
		if times != 1 {
			n.t.Errorf("step %s completed %d times", key, times)
		}
	}
}

// client is a worker made by hand.
type client struct {
	n         *node
	name, key string
}

// send makes a call, and gives its status.
func (c client) send(call string, in, out any) (int, wire.Problem) {
	c.n.t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		c.n.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(c.n.t.Context(), http.MethodPost, c.n.url+wire.Path+call, bytes.NewReader(raw))
	if err != nil {
		c.n.t.Fatal(err)
	}
	req.Header.Set("X-Key", c.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.n.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var p wire.Problem
	if resp.StatusCode != http.StatusOK {
		out = &p
	}
	if out != nil {
		if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
			c.n.t.Fatal(err)
		}
	}
	return resp.StatusCode, p
}

func (c client) join(actions ...string) client {
	c.n.t.Helper()
	in := wire.Join{Worker: c.name, Protocol: wire.Protocol, Concurrency: 4}
	for _, name := range actions {
		in.Actions = append(in.Actions, wire.Action{Name: name})
	}
	var out wire.Joined
	if status, p := c.send("join", in, &out); status != 200 || out.LeaseSeconds <= 0 {
		c.n.t.Fatalf("join: %d, %+v, %+v", status, p, out)
	}
	return c
}

func (c client) turn(in wire.Turn) (out wire.Turned) {
	c.n.t.Helper()
	in.Worker = c.name
	if status, p := c.send("turn", in, &out); status != 200 {
		c.n.t.Fatalf("turn: %d, %+v", status, p)
	}
	return out
}

// task waits for one task.
func (c client) task() wire.Task {
	c.n.t.Helper()
	list := c.turn(wire.Turn{Want: 1, WaitMS: 20_000}).Tasks
	if len(list) != 1 {
		c.n.t.Fatalf("%d tasks", len(list))
	}
	return list[0]
}

func completed(t wire.Task, output string) wire.Outcome {
	return wire.Outcome{ID: t.ID, Status: wire.Completed, Output: json.RawMessage(output), RanMS: 1}
}

func (c client) report(o wire.Outcome) wire.Turned {
	c.n.t.Helper()
	return c.turn(wire.Turn{Outcomes: []wire.Outcome{o}})
}

// links starts a worker of package link.
func (n *node) link(name string, streams bool, urls []string, actions ...action.Action) *link.Worker {
	n.t.Helper()
	w, err := link.New(link.Options{Nodes: urls, Name: name, Stream: streams, Actions: registry(n.t, actions...), Concurrency: 8, Grace: 2 * time.Second, Log: quiet()})
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	n.t.Cleanup(func() { stop(); <-ran })
	return w
}

func dbOf(t *testing.T) string { return filepath.Join(t.TempDir(), "desk.db") }

// door is an address that leads to a node later.
type door struct {
	url string
	to  atomic.Pointer[http.Handler]
}

func newDoor(t *testing.T) *door {
	d := &door{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := d.to.Load(); h != nil {
			(*h).ServeHTTP(w, r)
			return
		}
		http.Error(w, "closed", http.StatusBadGateway)
	}))
	d.url = server.URL
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return d
}

func (d *door) open(n *node) {
	h := n.desk.Handler(func(*http.Request) desk.Caller { return desk.Caller{Secure: true} })
	d.to.Store(&h)
}
