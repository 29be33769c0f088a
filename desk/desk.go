// Package desk is a node's side of its workers: it hands dispatched steps out, knows who holds which attempt, and takes
// the outcomes in (specification: pipeline-steps, "Step Execution by Workers").
//
// A Desk is the conductor's queue. The local pool pulls from it as from any queue; workers elsewhere join by a link
// (Handler). Invariants: an attempt is held by one worker at a time; what is acknowledged as committed is durable; an
// attempt whose worker says nothing for a lease goes on elsewhere; a closed link by itself ends nothing; duplicates
// and late outcomes change nothing. The desk's memory is the only record of leases: after its end, workers say again
// what they hold (Expect).
package desk

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/worker"
)

// Conductor is what the desk needs of the conductor.
type Conductor interface {
	ReportAll(ctx context.Context, events []conductor.RunEvent) error
	Task(ctx context.Context, run int64, idx int32, epoch uint32) (*engine.Task, error)
}

// Options configure a Desk. Conductor, Runner, Actions and Locate are required before Run; Attach sets them.
type Options struct {
	// Node is the name of the node, Nodes gives the addresses of all, for workers to go to. Default to none.
	Node  string
	Nodes func() []string
	// Lease is how long a worker may say nothing of an attempt that it holds. Defaults to 15 seconds.
	Lease time.Duration
	// Requeue is how long an attempt that was only queued when its node died may stay unannounced. Defaults to 3 seconds.
	Requeue time.Duration
	// Conducts says that the local pool runs only what cannot go elsewhere. Defaults to all that it has the action for.
	Conducts bool
	// Gone reports whether a worker has certainly ended, of an execution that is taken up: what it held is lost at once, without
	// waiting for its lease. "": whoever had an attempt that is not known to have begun. Defaults to never.
	Gone func(worker string) bool
	// Announce takes the actions of a worker that joins; an error refuses it. Defaults to accepting actions of which the
	// node knows none of its own: they are given no steps.
	Announce func(ctx context.Context, worker string, actions []wire.Action) error
	// Lists are where steps of some queues are offered besides links. Defaults to none.
	Lists Lists
	// Offered is how long an attempt in a list may stay unannounced before it is pushed again, if it seems lost. Defaults to
	// 3 seconds.
	Offered time.Duration
	// Address gives that of this node, as Nodes has it, for workers that have joined it under another one, and for those who take
	// messages from lists. Defaults to none.
	Address func() string
	// Now is the clock that leases and records use. Defaults to time.Now.
	Now func() time.Time
	// Log takes the desk's own messages. Defaults to slog.Default.
	Log *slog.Logger
}

// Parts are what a desk works with. The conductor needs the desk as its queue, and so comes later.
type Parts struct {
	Conductor Conductor
	// Runner renders tasks and checks, seals and stores what workers report. Its registry has every action that steps name.
	Runner  *worker.Runner
	Actions *action.Registry
	// Secrets seals secrets, as the runner's do. Defaults to none.
	Secrets worker.Secrets
	// Streams is the identity under which segments of streams are handed over at a place that this node and workers elsewhere
	// reach. Defaults to none: segments stay.
	Streams string
	// RetryCancels is told of actions whose work outside a worker that has joined can stop. Defaults to nobody.
	RetryCancels func(of func(action string) bool)
	// Locate finds the number of an execution, and whether it has ended. CodeNotFound.
	Locate func(ctx context.Context, execution string) (run int64, ended bool, err error)
	// Forward has the desk of the node that runs an execution serve a worker's call (Serve), and returns the answer. Defaults to
	// none: there is no other node.
	Forward func(ctx context.Context, execution string, call []byte) (answer []byte, err error)
}

// Desk hands out steps.
type Desk struct {
	o     Options
	p     Parts
	queue queue.Memory

	mu       sync.Mutex
	attempts map[id]*attempt
	byRun    map[flight]*attempt // for callers that know the execution by its number
	waiting  map[string]int      // attempts in the queue that links may take, by action
	sessions map[string]*session
	flying   map[flight]string // the workers of attempts that are about to be expected
	portable map[string]bool   // whether steps of an action may go elsewhere
	cancels  map[id]*cancel    // calls that wait, or are made
	stopped  bool              // no more tasks go out
	nodes    []string          // Options.Nodes, as last seen
	nodesNo  int               // changes of nodes
	chores   []func(context.Context)
	wake     chan struct{} // one token: chores are there
	out      offers
	bodies   budget
	gone     []conductor.RunEvent // Run's
	serving  context.Context      // ends with Run: no call waits longer, and streams end
	shut     context.CancelFunc
}

// id names an attempt as workers do, flight as the conductor does.
type (
	id struct {
		execution string
		idx       int32
		epoch     uint32
	}
	flight struct {
		run   int64
		idx   int32
		epoch uint32
	}
)

func (k id) wire() wire.ID { return wire.ID{StepID: wire.Step(k.execution, k.idx), Epoch: k.epoch} }

func idOf(w wire.ID) (id, error) {
	execution, idx, err := wire.Split(w.StepID)
	return id{execution, idx, w.Epoch}, err
}

// state is where an attempt is.
type state uint8

const (
	waiting  state = iota // in the queue
	local                 // with the local pool
	offered               // in a list outside
	held                  // by a worker elsewhere
	expected              // by whoever had it when its execution's node died
	loose                 // given out once, and held by nobody
)

// attempt is a dispatched attempt until its outcome.
type attempt struct {
	id
	task     *engine.Task
	state    state
	lease    queue.Lease // in the queue, for its limits
	counted  bool        // in waiting
	secret   bool        // needs a link that nobody can listen to
	stays    bool        // a segment whose call only this process can make
	revoked  bool
	holder   *session
	since    time.Time // of the state
	until    time.Time // end of the holder's lease
	begun    bool      // when expected: a worker was known to run it
	worker   string    // that
	settling bool      // an outcome is being reported
	given    bool      // to a worker, at some time
	named    bool      // by its holder
	unheard  int       // times that it was given to a worker that did not get it
	claimed  bool      // recorded as running by its holder
	told     bool      // its holder has been told that it is revoked
	misfit   bool      // whoever took it from a list cannot run it
	outward  bool      // counted among those that go to lists
	place    place     // in lists
	pushed   int64     // number of the push
	pushes   int
	remote   *worker.Remote
}

// New makes a desk. It is a queue at once; links are served after Attach.
func New(o Options) *Desk {
	if o.Nodes == nil {
		o.Nodes = func() []string { return nil }
	}
	if o.Lease <= 0 {
		o.Lease = 15 * time.Second
	}
	if o.Requeue <= 0 {
		o.Requeue = 3 * time.Second
	}
	if o.Gone == nil {
		o.Gone = func(string) bool { return false }
	}
	if o.Announce == nil {
		o.Announce = func(context.Context, string, []wire.Action) error { return nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Address == nil {
		o.Address = func() string { return "" }
	}
	if o.Offered <= 0 {
		o.Offered = 3 * time.Second
	}
	serving, shut := context.WithCancel(context.Background())
	d := &Desk{o: o, serving: serving, shut: shut, attempts: map[id]*attempt{}, byRun: map[flight]*attempt{}, flying: map[flight]string{}, cancels: map[id]*cancel{}, waiting: map[string]int{}, sessions: map[string]*session{},
		portable: map[string]bool{}, wake: make(chan struct{}, 1)}
	d.initOffers()
	return d
}

// Attach sets what the desk works with, once, before anything runs.
func (d *Desk) Attach(p Parts) error {
	if p.Conductor == nil || p.Runner == nil || p.Actions == nil || p.Locate == nil {
		return errors.New("desk: Conductor, Runner, Actions and Locate are required")
	}
	d.p = p
	return nil
}

// Push implements queue.Queue.
func (d *Desk) Push(ctx context.Context, messages []queue.Message) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.o.Now()
	var run int64 // of all of them; 0: they are of several
	for i := range messages {
		if t, ok := messages[i].Body.(*engine.Task); ok {
			messages[i].Away = !d.isLocal(t)
			d.addWaiting(t, now)
		}
		if i == 0 {
			run = messages[i].Run
		} else if messages[i].Run != run {
			run = 0
		}
	}
	d.wakeSessions(run, nil)
	d.wakeOffers()
	return d.queue.Push(ctx, messages)
}

// addWaiting records a task that is being pushed. The caller holds the lock.
func (d *Desk) addWaiting(t *engine.Task, now time.Time) {
	k := id{t.Execution, t.Idx, t.Epoch}
	a := d.attempts[k]
	if a == nil {
		a = &attempt{id: k, since: now}
		d.attempts[k], d.byRun[flight{t.Run, t.Idx, t.Epoch}] = a, a
	}
	if a.task == nil {
		a.task = t
	}
	if (a.state == waiting || a.state == loose) && !a.counted {
		a.state = waiting
		d.count(a, 1)
	}
}

// count adds an attempt to those that links, or lists, may take, or removes it. The caller holds the lock.
func (d *Desk) count(a *attempt, n int) {
	if a.counted == (n > 0) {
		return
	}
	a.counted = n > 0
	if n > 0 {
		a.outward = !a.misfit && d.goesOut(a.task)
	}
	name, by := a.task.Step.Action, d.waiting
	if a.outward {
		d.out.waits += n
		by = d.out.waiting
	}
	if by[name] += n; by[name] == 0 {
		delete(by, name)
	}
}

// drop forgets an attempt. The caller holds the lock.
func (d *Desk) drop(a *attempt) {
	if d.attempts[a.id] != a {
		return
	}
	if a.task != nil {
		d.count(a, -1)
		delete(d.byRun, flight{a.task.Run, a.idx, a.epoch})
	}
	d.unlist(a)
	if d.o.Lists != nil {
		if name := wire.Step(a.execution, a.idx); d.out.names[name] == a.id {
			delete(d.out.names, name)
		}
	}
	delete(d.attempts, a.id)
	d.release(a)
	if a.remote != nil {
		a.remote.Close()
	}
}

// settle records that an outcome is being reported, or is not. The caller holds the lock.
func (a *attempt) settle(on bool) {
	switch {
	case a.holder == nil || a.settling == on:
	case on:
		a.holder.settling++
	default:
		a.holder.settling--
	}
	a.settling = on
}

// release takes an attempt from its holder. The caller holds the lock.
func (d *Desk) release(a *attempt) {
	if a.holder != nil {
		a.settle(false)
		delete(a.holder.held, a)
		a.holder = nil
	}
	if a.lease.Token != 0 {
		_ = d.queue.Ack(context.Background(), []queue.Lease{a.lease}) // never fails
		a.lease = queue.Lease{}
		d.wakeSessions(0, nil)
		d.wakeOffers()
	}
}

// Pull implements queue.Queue, for the local pool.
func (d *Desk) Pull(ctx context.Context, most int) ([]queue.Lease, error) {
	return d.PullInto(ctx, nil, most)
}

// PullInto is Pull into memory that the caller keeps.
func (d *Desk) PullInto(ctx context.Context, into []queue.Lease, most int) ([]queue.Lease, error) {
	before := len(into)
	for {
		leases, err := d.queue.PullInto(ctx, into, most)
		if err != nil {
			return nil, err
		}
		if leases = d.giveLocal(leases, before); len(leases) > before {
			return leases, nil
		}
		into = leases
	}
}

// giveLocal keeps those of the pulled messages that are still wanted.
func (d *Desk) giveLocal(leases []queue.Lease, from int) []queue.Lease {
	d.mu.Lock()
	defer d.mu.Unlock()
	kept, now := leases[:from], d.o.Now()
	for _, l := range leases[from:] {
		t, ok := l.Body.(*engine.Task)
		if !ok {
			kept = append(kept, l)
			continue
		}
		a := d.attempts[id{t.Execution, t.Idx, t.Epoch}]
		if a == nil || a.state != waiting {
			_ = d.queue.Ack(context.Background(), []queue.Lease{l})
			continue
		}
		d.count(a, -1)
		a.state, a.lease, a.since = local, l, now
		kept = append(kept, l)
	}
	return kept
}

// Extend implements queue.Queue: the local pool's leases last.
func (d *Desk) Extend(context.Context, []queue.Lease) ([]queue.Lease, error) { return nil, nil }

// Ack implements queue.Queue, for the local pool.
func (d *Desk) Ack(ctx context.Context, leases []queue.Lease) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range leases {
		if t, ok := leases[i].Body.(*engine.Task); ok {
			if a := d.attempts[id{t.Execution, t.Idx, t.Epoch}]; a != nil && a.state == local && a.lease.Token == leases[i].Token {
				d.drop(a)
			}
		}
	}
	d.wakeSessions(0, nil)
	return d.queue.Ack(ctx, leases)
}

// Limit sets a queue's limits; see queue.Memory.
func (d *Desk) Limit(name string, l queue.Limits) { d.queue.Limit(name, l) }

// Demand is what a queue with limits has out and waiting; see queue.Memory.
func (d *Desk) Demand(name string) (out, waiting int) { return d.queue.Demand(name) }

// Len is how many steps wait.
func (d *Desk) Len() int { return d.queue.Len() }

// Close ends all pulls of the local pool.
func (d *Desk) Close() { d.queue.Close() }

// Stop gives workers elsewhere no more tasks; what they hold goes on, and their outcomes are taken.
func (d *Desk) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
}

// Revoke stops an attempt that waits or is held elsewhere. Those of the local pool are the pool's to revoke. It does
// not wait.
func (d *Desk) Revoke(run int64, idx int32, epoch uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.byRun[flight{run, idx, epoch}]
	if a == nil || a.state == local || a.settling {
		return
	}
	a.revoked = true
	if a.state == held {
		a.holder.revoked = true
		a.holder.ring()
		return
	}
	if a.state == waiting || a.state == offered {
		d.stopWaiting(a)
	}
}

// stopWaiting ends an attempt that nobody holds. The caller holds the lock.
func (d *Desk) stopWaiting(a *attempt) {
	ev := engine.Event{Kind: engine.Failed, At: d.o.Now().UnixMicro(), Idx: a.idx, Epoch: a.epoch,
		Failure: &engine.Failure{Code: stepwell.CodeCancelled, Message: "stopped on request"}}
	run := a.task.Run
	d.drop(a)
	d.do(func(ctx context.Context) { d.report(ctx, "a stop", run, ev) })
}

// do has the desk's loop do something. The caller holds the lock.
func (d *Desk) do(f func(context.Context)) {
	d.chores = append(d.chores, f)
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// report hands events of the desk's own on and returns when they are durable (the conductor retries its commits) or refused.
func (d *Desk) report(ctx context.Context, what string, run int64, events ...engine.Event) {
	list := make([]conductor.RunEvent, len(events))
	for i := range events {
		list[i] = conductor.RunEvent{Run: run, Event: events[i]}
	}
	if err := d.p.Conductor.ReportAll(ctx, list); err != nil && stepwell.CodeOf(err) != stepwell.CodeConflict && ctx.Err() == nil {
		d.o.Log.Error(what+" was not reported", "run", run, "step", events[0].Idx, "error", err)
	}
}
