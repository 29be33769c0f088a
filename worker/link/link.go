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
	w.pool, err = worker.New(worker.Options{Queue: mouth{w}, Actions: o.Actions, Reporter: w, Records: w, Blobs: blobs{w}, Lent: true, Lines: w.line, Progress: w.progress, CallbackURL: w.callbackURL,
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
		w.failed(ctx, "no node can be joined, trying again", err)
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
	if time.Now().Before(w.retry) {
		return nil, errGone{errNotLinked}
	}
	base := w.nodes[w.at%len(w.nodes)]
	conn, nodes, err := w.joinFree(ctx, base)
	if err != nil {
		w.at++
		if w.ends() {
			w.drain()
		}
		return nil, err
	}
	w.mu.Lock()
	w.conn, w.base = conn, base
	w.mu.Unlock()
	w.o.Log.Info("joined", "node", base, "worker", w.name())
	w.members.follow(w, nodes)
	return conn, nil
}

// linked is the connection to the node; nil: there is none.
func (w *Worker) linked() transport {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.conn
}

var (
	errNotLinked = errors.New("it did not answer a moment ago")
	errTaken     = errors.New("it is joined already")
)

// joinFree joins a node that no other member is joined to. While others are joined to theirs, it is tried now and then. The
// caller holds connecting.
func (w *Worker) joinFree(ctx context.Context, base string) (conn transport, nodes []string, err error) {
	if !w.members.several.Load() {
		return w.join(ctx, base)
	}
	w.retry = time.Now().Add(lastPause)
	if w.members.taken(w, base) {
		return nil, nil, errGone{errTaken}
	}
	if conn, nodes, err = w.join(ctx, base); err != nil {
		return nil, nil, err
	}
	w.mu.Lock()
	address := w.address
	w.mu.Unlock()
	if w.members.taken(w, address) {
		conn.close()
		w.retry = time.Now().Add(retryTaken)
		return nil, nil, errGone{errTaken}
	}
	return conn, nodes, nil
}

// join connects to a node and joins it.
func (w *Worker) join(ctx context.Context, base string) (transport, []string, error) {
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
		return nil, nil, err
	}
	if out.Worker != "" && out.Worker != w.name() {
		w.o.Log.Warn("another process works under this name: this one has a name of its own there", "node", base, "name", w.name(), "worker", out.Worker)
		w.as.Store(&out.Worker)
	}
	w.mu.Lock()
	w.address, w.place = strings.TrimRight(out.Address, "/"), out.Streams
	w.lease = max(time.Duration(out.LeaseSeconds*float64(time.Second)), 10*time.Millisecond)
	w.change()
	w.mu.Unlock()
	return conn, out.Nodes, nil
}

// joining is what the worker joins with.
func (w *Worker) joining() wire.Join {
	return wire.Join{Worker: w.name(), Instance: w.members.instance, Protocol: wire.Protocol, Version: w.o.Version, Queues: w.o.Queues, Concurrency: w.o.Concurrency,
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
	w.members.losses.Add(1)
	conn.close()
	if moves {
		w.connecting.Lock()
		w.at++
		w.connecting.Unlock()
	}
}

// route is the connection for a call: that of this member, or while its node does not answer that of another member, whose node
// may have taken over the executions of the former. A call that is for its node alone goes nowhere else.
func (w *Worker) route(ctx context.Context, alone bool) (transport, *Worker, error) {
	if w.members.several.Load() && !alone && w.linked() == nil {
		if x := w.members.linked(w); x != nil {
			if conn := x.linked(); conn != nil {
				return conn, x, nil
			}
		}
	}
	conn, err := w.connected(ctx)
	return conn, w, err
}

// try makes one call. After an error of the connection the next call goes to another node.
func (w *Worker) try(ctx context.Context, name string, in any) ([]byte, error) {
	turn, isTurn := in.(wire.Turn)
	conn, x, err := w.route(ctx, name == "join" || turn.Want > 0 || turn.Leaving)
	if err != nil {
		return nil, err
	}
	if isTurn { // the node that has been joined just now may have given another name
		turn.Worker = w.name()
		in = turn
	}
	raw, err := conn.call(ctx, name, in)
	_, gone := errors.AsType[errGone](err)
	switch {
	case gone && ctx.Err() == nil:
		x.disconnect(conn, true)
	case stepwell.CodeOf(err) == stepwell.CodeNotFound && stepwell.HintOf(err) == wire.JoinFirst:
		x.disconnect(conn, false)
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
