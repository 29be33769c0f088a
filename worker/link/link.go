// Package link runs a worker in a process of its own: a worker.Pool whose queue, reporter and records are a node's, over
// HTTP turns or a stream (package desk/wire).
//
// An outcome is the worker's until the node says that it is committed; it is offered again to the same node or to another
// until then. When a node does not answer, the worker goes to the next one and says there what it holds.
package link

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/worker"
)

// Bounds of what is kept until it is committed. Beyond them nothing more is pulled.
const (
	maxOutbox      = 100_000
	maxOutboxBytes = 64 << 20
)

// Options configure a Worker. Nodes, Name and Actions are required.
type Options struct {
	Nodes   []string // addresses such as "https://node:8080"; nodes name more
	Name    string   // unique among the workers of the nodes
	Stream  bool     // use a stream where there can be one, else HTTP turns
	Header  http.Header
	Client  *http.Client // Defaults to one without a time limit
	Version string       // of the program, for people
	Actions *action.Registry
	// Queues are those served. Defaults to all, and with Lists to the default queue.
	Queues []string
	// Lists are taken from besides the nodes. Defaults to none.
	Lists Lists
	// Streams opens the place where streams are handed over from worker to worker, of a node that runs streams under an identity;
	// with nil segments run here too. CodeInvalid and CodeConflict: they never will. Defaults to streams staying with their nodes.
	Streams func(ctx context.Context, identity string) error
	// Concurrency is how many steps run at once. Defaults to four for each processor, at least 8.
	Concurrency int
	// Grace is how long a handler may go on after its context ended, and how long outcomes are offered at the end.
	// Defaults to 15 seconds.
	Grace time.Duration
	// Log takes the worker's own messages. Defaults to slog.Default.
	Log *slog.Logger
}

func (o *Options) validate() error {
	if len(o.Nodes) == 0 || o.Actions == nil || o.Name == "" {
		return errors.New("link: Nodes, Name and Actions are required")
	}
	if o.Concurrency <= 0 {
		o.Concurrency = max(8, 4*runtime.NumCPU())
	}
	if o.Grace <= 0 {
		o.Grace = 15 * time.Second
	}
	if o.Client == nil {
		o.Client = &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 16}}
	}
	if o.Lists != nil && len(o.Queues) == 0 {
		o.Queues = []string{queue.DefaultQueue}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Header == nil {
		o.Header = http.Header{}
	}
	return nil
}

// Worker runs steps of nodes elsewhere.
type Worker struct {
	o    Options
	pool *worker.Pool

	connecting sync.Mutex
	nodes      []string
	at         int // of nodes

	mu       sync.Mutex
	conn     transport // nil: none
	lease    time.Duration
	held     map[taskID]*task
	blobs    map[string][]byte
	blob     int
	ready    []*task      // not begun
	pulls    []chan *task // calls of Pull that wait; the last one is served first
	credit   int          // tasks that may be ready
	coming   int          // tasks that turns under way ask for
	ran      int          // outcomes since counted
	counted  time.Time
	unsent   []*task // with outcomes that no turn carries
	outbox   int     // outcomes that are kept, in bytes too
	bytes    int
	draining bool
	endPop   context.CancelFunc // set by Run
	asked    time.Time          // when tasks from lists were looked for that the node does not know of
	listed   bool               // tasks come from lists
	address  string             // of the node, as messages have it
	place    string             // identity of the node's streams, "": they stay
	checked  string             // that of the last call of Options.Streams that was final
	streams  bool               // segments of it run here
	others   map[string]*Worker // for messages of other nodes, by their address; nil: none can be made
	more     chan struct{}      // closed when more tasks may come, or no outcomes are kept; nil: nobody waits
	outcomes chan struct{}      // one token: some are unsent
}

// New makes a worker.
func New(o Options) (*Worker, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	w := &Worker{o: o, listed: o.Lists != nil, lease: 15 * time.Second, held: map[taskID]*task{}, blobs: map[string][]byte{}, outcomes: make(chan struct{}, 1)}
	for _, n := range o.Nodes {
		w.nodes = append(w.nodes, strings.TrimRight(n, "/"))
	}
	var err error
	w.pool, err = worker.New(worker.Options{Queue: mouth{w}, Actions: o.Actions, Reporter: w, Records: w, Blobs: blobs{w}, Lines: w.line, Progress: w.progress, CallbackURL: w.callbackURL,
		Name: o.Name, Concurrency: o.Concurrency, Grace: o.Grace, Log: o.Log})
	return w, err
}

// Join joins a node, and returns once one has let the worker in; while none answers it tries again. Run does so by itself;
// Join tells of a refusal: CodeUnauthenticated, CodeForbidden, CodeInvalid and others.
func (w *Worker) Join(ctx context.Context) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		_, err := w.connected(ctx)
		if err == nil || !passes(err) {
			return err
		}
		w.failed(ctx, "no node can be joined, trying again", err)
		if err := action.Pause(ctx, pause); err != nil {
			return err
		}
	}
}

// Drain pulls no more; Run returns when the running steps have ended and their outcomes are committed.
func (w *Worker) Drain() {
	w.stopFetching()
	w.pool.Drain()
}

func (w *Worker) stopFetching() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.draining = true
	if w.endPop != nil {
		w.endPop()
	}
	w.change()
}

// Run joins a node and runs steps until ctx ends, which also ends the handlers, or until a drain is complete. Outcomes
// are offered for at most Grace after that. It is called once.
func (w *Worker) Run(ctx context.Context) error {
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	fetching, endFetch := context.WithCancel(ctx)
	var loops sync.WaitGroup
	for range fetchers {
		loops.Go(func() { w.fetchLoop(fetching) })
	}
	if w.o.Lists != nil {
		popping, endPop := context.WithCancel(fetching)
		w.mu.Lock()
		w.endPop = endPop
		w.mu.Unlock()
		loops.Go(func() { w.popLoop(popping, ctx) })
	}
	for range senders {
		loops.Go(func() { w.sendLoop(serving) })
	}
	loops.Go(func() { w.beatLoop(serving) })
	loops.Go(func() { w.tellLoop(serving) })
	loops.Go(func() { w.streamLoop(serving) })
	err := w.pool.Run(ctx)
	endFetch()
	w.stopFetching()
	last, endLast := context.WithTimeout(serving, w.o.Grace)
	w.await(last, func() bool { return w.outbox == 0 })
	if last.Err() == nil {
		if _, err := w.try(last, "turn", wire.Turn{Worker: w.o.Name, Leaving: true}); err != nil {
			w.o.Log.Warn("the node does not know that this worker has ended", "error", err)
		}
	}
	endLast()
	end()
	loops.Wait()
	w.mu.Lock()
	conn := w.conn
	w.conn = nil
	w.mu.Unlock()
	if conn != nil {
		conn.close()
	}
	w.o.Client.CloseIdleConnections()
	return err
}

// change wakes those who wait. The caller holds the lock.
func (w *Worker) change() {
	if w.more != nil {
		close(w.more)
		w.more = nil
	}
}

// await waits until something holds, of which change tells. It reports whether it does.
func (w *Worker) await(ctx context.Context, holds func() bool) bool {
	w.mu.Lock()
	for !holds() {
		if w.more == nil {
			w.more = make(chan struct{})
		}
		more := w.more
		w.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return false
		}
		w.mu.Lock()
	}
	w.mu.Unlock()
	return ctx.Err() == nil
}

// connected returns the connection to a node, joining one if need be.
func (w *Worker) connected(ctx context.Context) (transport, error) {
	w.connecting.Lock()
	defer w.connecting.Unlock()
	w.mu.Lock()
	conn := w.conn
	w.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	base := w.nodes[w.at%len(w.nodes)]
	conn, err := w.join(ctx, base)
	if err != nil {
		w.at++
		return nil, err
	}
	w.mu.Lock()
	w.conn = conn
	w.mu.Unlock()
	w.o.Log.Info("joined", "node", base)
	return conn, nil
}

// join connects to a node and joins it.
func (w *Worker) join(ctx context.Context, base string) (transport, error) {
	var conn transport = &turns{base, w.o.Client, w.o.Header}
	if w.o.Stream {
		if s, err := dial(ctx, base, w.o.Client, w.o.Header); err == nil {
			conn = s
		} else {
			w.o.Log.Debug("no stream: HTTP turns instead", "node", base, "error", err)
		}
	}
	joining, end := context.WithTimeout(ctx, 10*time.Second)
	defer end()
	raw, err := conn.call(joining, "join", w.joining())
	var out wire.Joined
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		conn.close()
		return nil, err
	}
	w.mu.Lock()
	w.address, w.place = out.Address, out.Streams
	w.lease = max(time.Duration(out.LeaseSeconds*float64(time.Second)), 10*time.Millisecond)
	w.change()
	w.mu.Unlock()
	for _, n := range out.Nodes {
		if n = strings.TrimRight(n, "/"); !slices.Contains(w.nodes, n) && len(w.nodes) < 1000 {
			w.nodes = append(w.nodes, n)
		}
	}
	return conn, nil
}

// joining is what the worker joins with.
func (w *Worker) joining() wire.Join {
	return wire.Join{Worker: w.o.Name, Protocol: wire.Protocol, Version: w.o.Version, Queues: w.o.Queues, Concurrency: w.o.Concurrency,
		Actions: w.actions(), Holding: w.holding()}
}

// actions describes what this worker serves.
func (w *Worker) actions() (list []wire.Action) {
	w.mu.Lock()
	streams := w.streams
	w.mu.Unlock()
	for _, s := range w.o.Actions.Specs() {
		stays := s.Stream != nil || s.Internal || s.Stays // with its node
		if streams && s.Name == plan.SegmentAction {
			stays = false
		}
		if stays || w.o.Actions.Announced(s.Name) {
			continue
		}
		for _, name := range append([]string{s.Name}, s.Aliases...) {
			list = append(list, wire.ActionOf(&s, name))
		}
	}
	return list
}

// disconnect lets go of a connection that has failed; moves says that its node does not answer.
func (w *Worker) disconnect(conn transport, moves bool) {
	w.mu.Lock()
	if w.conn != conn {
		w.mu.Unlock()
		return
	}
	w.conn = nil
	w.mu.Unlock()
	conn.close()
	if moves {
		w.connecting.Lock()
		w.at++
		w.connecting.Unlock()
	}
}

// try makes one call. After an error of the connection the next call goes to another node.
func (w *Worker) try(ctx context.Context, name string, in any) ([]byte, error) {
	conn, err := w.connected(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := conn.call(ctx, name, in)
	_, gone := errors.AsType[errGone](err)
	switch {
	case gone && ctx.Err() == nil:
		w.disconnect(conn, true)
	case stepwell.CodeOf(err) == stepwell.CodeNotFound && stepwell.HintOf(err) == wire.JoinFirst:
		w.disconnect(conn, false)
		err = errGone{err}
	}
	return raw, err
}

// pauses between tries.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 2 * time.Second
)

// passes reports whether another try may succeed.
func passes(err error) bool {
	_, gone := errors.AsType[errGone](err)
	return gone || stepwell.CodeOf(err) == stepwell.CodeUnavailable
}

// call makes a call until a node has answered it.
func (w *Worker) call(ctx context.Context, name string, in any) ([]byte, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		raw, err := w.try(ctx, name, in)
		if err == nil || !passes(err) {
			return raw, err
		}
		if err := action.Pause(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// mouth is the queue of the worker's pool.
type mouth struct{ w *Worker }

func (m mouth) Push(context.Context, []queue.Message) error { return queue.ErrClosed }

func (m mouth) Extend(context.Context, []queue.Lease) ([]queue.Lease, error) { return nil, nil }

// Ack does nothing: a task is held until its outcome is committed.
func (m mouth) Ack(context.Context, []queue.Lease) error { return nil }

// Pull waits for a task.
func (m mouth) Pull(ctx context.Context, most int) ([]queue.Lease, error) {
	return m.PullInto(ctx, nil, most)
}

// PullInto is Pull into memory that the caller keeps.
func (m mouth) PullInto(ctx context.Context, into []queue.Lease, _ int) ([]queue.Lease, error) {
	w := m.w
	w.mu.Lock()
	t, came := w.next(), chan *task(nil)
	if t == nil {
		came = make(chan *task, 1)
		w.pulls = append(w.pulls, came)
	}
	w.tellFetchers()
	w.mu.Unlock()
	if t == nil {
		select {
		case t = <-came:
		case <-ctx.Done():
			return nil, w.giveUp(ctx, came)
		}
	}
	return append(into, queue.Lease{Message: queue.Message{Run: t.Run, Idx: t.Idx, Epoch: t.Epoch, Body: t.Task}}), nil
}

// next takes the task that has waited longest; nil: none waits. The caller holds the lock.
func (w *Worker) next() (t *task) {
	if len(w.ready) > 0 {
		t, w.ready[0] = w.ready[0], nil
		w.ready = w.ready[1:]
	}
	return t
}

// giveUp ends a pull. A task that came at the same moment waits again.
func (w *Worker) giveUp(ctx context.Context, came chan *task) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.pulls, came); i >= 0 {
		w.pulls = slices.Delete(w.pulls, i, i+1)
	} else {
		w.serve(<-came)
	}
	return ctx.Err()
}

// serve gives a task to a free slot, or lets it wait for one. The caller holds the lock.
func (w *Worker) serve(t *task) {
	if n := len(w.pulls) - 1; n >= 0 {
		w.pulls[n] <- t // has room for one
		w.pulls = w.pulls[:n]
		return
	}
	w.ready = append(w.ready, t)
}

// blobs holds outputs until their outcome takes them along.
type blobs struct{ w *Worker }

var _ store.Blobs = blobs{}

func (b blobs) Put(_ context.Context, value []byte) (string, error) { return b.w.putBlob(value), nil }

func (b blobs) Load(_ context.Context, ref string) ([]byte, error) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if raw, ok := b.w.blobs[ref]; ok {
		return raw, nil
	}
	return nil, stepwell.Errorf(stepwell.CodeNotFound, "", "there is no output %s", ref)
}
