// Package link runs a worker in a process of its own: a worker.Pool whose queue, reporter and records are a node's, over
// HTTP turns or a stream (package desk/wire).
//
// An outcome is the worker's until the node says that it is committed; it is offered again to the same node or to another
// until then. Where several nodes share the executions, a worker joins each of them: all have a Worker of their own in the process
// (members.go), and together they run no more steps at once than one. When a node does not answer, the others are told what is
// held of its executions, and offered the outcomes.
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
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk/wire"
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
	Nodes   []string // addresses such as "https://node:8080", nodes name more; or one socket of this machine such as "unix:///run/node.sock"
	Alone   bool     // joins one node at a time, also where it names more
	Name    string   // of the worker; a node gives another one to the second process under it
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
	if len(o.Nodes) == 1 && o.Client == nil {
		if path, ok := strings.CutPrefix(o.Nodes[0], "unix://"); ok {
			o.Nodes, o.Client = []string{"http://localhost"}, socketClient(path)
		}
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
	o       Options
	pool    *worker.Pool
	members *members
	slots   *slots
	follows bool                   // made for a node that others told of
	as      atomic.Pointer[string] // the name at the node

	connecting sync.Mutex
	nodes      []string
	at         int       // of nodes
	retry      time.Time // no node is tried before

	media    media
	mu       sync.Mutex
	conn     transport // nil: none
	lease    time.Duration
	held     map[taskID]*task
	stopping map[taskID]*task // calls of Cancel, until their outcomes are committed
	blobs    map[string][]byte
	blob     int
	ready    []*task      // not begun
	pulls    []chan *task // calls of Pull that wait; the last one is served first
	credit   int          // tasks that may be ready
	coming   int          // tasks that turns under way ask for
	along    int          // of them those with outcomes
	ran      int          // outcomes since counted
	counted  time.Time
	unsent   []*task // with outcomes that no turn carries
	outbox   int     // outcomes that are kept, in bytes too
	bytes    int
	draining bool
	endPop   context.CancelFunc // set by Run
	asked    time.Time          // when tasks from lists were looked for that the node does not know of
	listed   bool               // tasks come from lists
	place    string             // identity of the node's streams, "": they stay
	checked  string             // that of the last call of Options.Streams that was final
	streams  bool               // segments of it run here
	address  string             // of the node, as messages and other nodes have it
	base     string             // of the node, as it was joined
	refused  []wire.ID          // tasks that have found no slot, to be given back
	more     chan struct{}      // closed when more tasks may come, or no outcomes are kept; nil: nobody waits
	outcomes chan struct{}      // one token: some are unsent
}

// New makes a worker.
func New(o Options) (*Worker, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return newMember(o, newMembers(), newSlots(o.Concurrency))
}

// newMember makes a worker of one node.
func newMember(o Options, m *members, s *slots) (w *Worker, err error) {
	w = &Worker{o: o, members: m, slots: s, listed: o.Lists != nil, lease: 15 * time.Second, held: map[taskID]*task{}, stopping: map[taskID]*task{}, blobs: map[string][]byte{}, outcomes: make(chan struct{}, 1)}
	w.as.Store(&o.Name)
	for _, n := range o.Nodes {
		w.nodes = append(w.nodes, strings.TrimRight(n, "/"))
	}
	w.pool, err = worker.New(worker.Options{Queue: mouth{w}, Actions: o.Actions, Reporter: w, Records: w, Blobs: blobs{w}, Lent: true, Lines: w.line, Progress: w.progress, CallbackURL: w.callbackURL, Media: w.localMedia,
		Name: o.Name, Concurrency: o.Concurrency, Grace: o.Grace, Log: o.Log})
	if err == nil {
		m.add(w)
	}
	return w, err
}

// name is the worker's name at its node.
func (w *Worker) name() string { return *w.as.Load() }

// Join joins a node, and returns once one has let the worker in; while none answers it tries again. Run does so by itself;
// Join tells of a refusal: CodeUnauthenticated, CodeForbidden, CodeInvalid and others.
func (w *Worker) Join(ctx context.Context) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		_, err := w.connected(ctx)
		if err == nil || !passes(err) {
			return err
		}
		w.failed(ctx, "no node can be joined, retrying", err)
		if err := action.Pause(ctx, pause); err != nil {
			return err
		}
	}
}

// Drain pulls no more; Run returns when the running steps have ended and their outcomes are committed.
func (w *Worker) Drain() {
	for _, x := range w.members.close() {
		x.drain()
	}
}

// drain is Drain of one member.
func (w *Worker) drain() {
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
	w.members.start(ctx)
	err := w.run(ctx)
	w.members.close()
	w.members.running.Wait()
	w.o.Client.CloseIdleConnections()
	return err
}

// run is Run of one member.
func (w *Worker) run(ctx context.Context) error {
	defer w.media.close()
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
		loops.Go(func() { w.popLoop(popping) })
	}
	for range senders {
		loops.Go(func() { w.sendLoop(serving) })
	}
	loops.Go(func() { w.beatLoop(serving) })
	loops.Go(func() { w.tellLoop(serving) })
	loops.Go(func() { w.streamLoop(serving) })
	loops.Go(func() { w.linkLoop(fetching) })
	err := w.pool.Run(ctx)
	endFetch()
	w.stopFetching()
	last, endLast := context.WithTimeout(serving, w.o.Grace)
	w.await(last, func() bool { return w.outbox == 0 })
	if last.Err() == nil && w.linked() != nil {
		if _, err := w.turn(last, wire.Turn{Leaving: true}); err != nil {
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
	w.members.remove(w)
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

// mouth is the queue of the worker's pool.
type mouth struct{ w *Worker }

func (m mouth) Push(context.Context, []queue.Message) error { return queue.ErrClosed }

func (m mouth) Extend(context.Context, []queue.Lease) ([]queue.Lease, error) { return nil, nil }

// Ack frees the slots of tasks that have ended: the tasks are held until their outcomes are committed.
func (m mouth) Ack(_ context.Context, leases []queue.Lease) error {
	for i := range leases {
		m.w.slots.give(leases[i].Token)
	}
	m.w.wakeOthers()
	return nil
}

// Pull waits for a task.
func (m mouth) Pull(ctx context.Context, most int) ([]queue.Lease, error) {
	return m.PullInto(ctx, nil, most)
}

// PullInto is Pull into memory that the caller keeps.
func (m mouth) PullInto(ctx context.Context, into []queue.Lease, _ int) ([]queue.Lease, error) {
	for {
		t, err := m.w.pull(ctx)
		if err != nil {
			return nil, err
		}
		if token := m.w.slots.take(ctx, readyFor); token != 0 {
			return append(into, queue.Lease{Message: queue.Message{Run: t.Run, Idx: t.Idx, Epoch: t.Epoch, Body: t.Task}, Token: token}), nil
		}
		m.w.refuse(t)
	}
}

// pull waits for a task.
func (w *Worker) pull(ctx context.Context) (*task, error) {
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
	return t, nil
}

// refuse has a task given back for which the members have no slot.
func (w *Worker) refuse(t *task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = append(w.refused, t.id)
	delete(w.held, t.key())
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
