package desk

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/queue"
)

// Limits of one worker, and of all.
const (
	maxSessions    = 10_000
	maxConcurrency = 10_000
	maxCredit      = 1024  // held attempts without an outcome above a worker's concurrency
	maxUnheard     = 3     // times that an attempt is given again, because no answer that carried it arrived
	callRate       = 5_000 // calls a second that carry nothing, and twice that at once
	sessionsLast   = 8     // leases without a word; then a worker that holds nothing is forgotten
	instanceMark   = 8     // bytes of its instance that are in the name of a second process
)

// Caller is who is behind a link, as the door knows him.
type Caller struct {
	ID     string // identity, "" where there are none
	Secure bool   // nobody can listen to the link: TLS, or this machine itself
	Listed bool   // it serves all queues that are in lists, whichever it names
	// Of a program that the node has started itself (package plugin); it is told of no other nodes. Default to none.
	Name        string // its one session's, whatever it asks for
	Prefix      string // begins the names of all of its actions
	Concurrency int    // the most steps at once, whatever it asks for; 0: any
}

// admit applies what the node has fixed of a program that it has started. CodeForbidden for actions outside of its namespace.
func (c *Caller) admit(in *wire.Join) error {
	if c.Name == "" {
		return nil
	}
	for i := range in.Actions {
		if name := in.Actions[i].Name; !strings.HasPrefix(name, c.Prefix) || name == c.Prefix {
			return stepwell.Errorf(stepwell.CodeForbidden, "a plugin's actions are named after it", "the action %q is not named %sNAME", stepwell.Head(name, wire.MaxName), c.Prefix)
		}
	}
	in.Worker = c.Name
	if c.Concurrency > 0 {
		in.Concurrency = min(in.Concurrency, c.Concurrency)
	}
	return nil
}

// session is a worker elsewhere. The desk's lock guards it.
type session struct {
	name, version   string
	instance        string // "": the worker does not say which process it is
	caller          Caller
	actions, queues map[string]bool // no queues: all
	cancels         map[string]bool // actions whose work outside it can stop
	concurrency     int
	seen            time.Time
	steady          time.Time // since when one process has been speaking without a long pause
	held            map[*attempt]bool
	settling        int           // of held
	holding         map[id]bool   // as last told
	news            chan struct{} // closed when there may be something for a waiting turn; nil: none waits
	tokens          float64       // calls, as of seen
	draining        bool          // it gets no more, and is told so
	revoked         bool          // an attempt in held may be
	nodes           int           // Desk.nodesNo, as last told
	asking          map[int64]int // turns whose outcomes of an execution are being committed, and that take tasks then
}

// ring wakes the waiting turns.
func (s *session) ring() {
	if s.news != nil {
		close(s.news)
		s.news = nil
	}
}

// bell is closed at the next ring.
func (s *session) bell() chan struct{} {
	if s.news == nil {
		s.news = make(chan struct{})
	}
	return s.news
}

// spend counts a call, unless there are too many.
func (s *session) spend(now time.Time, lease time.Duration) error {
	if now.Sub(s.seen) > lease*2/3 {
		s.steady = now
	}
	s.tokens = min(2*callRate, s.tokens+now.Sub(s.seen).Seconds()*callRate)
	s.seen = now
	if s.tokens < 1 {
		return stepwell.Errorf(stepwell.CodeLimit, "put more into each turn", "worker %s makes more than %d calls a second", s.name, callRate)
	}
	s.tokens--
	return nil
}

// refund takes a call back that has carried something.
func (d *Desk) refund(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.tokens++
}

// serves reports whether a worker takes steps of the queue.
func (d *Desk) serves(s *session, name string) bool {
	if s.caller.Listed {
		return d.o.Lists.Has(name)
	}
	if name == "" {
		name = queue.DefaultQueue
	}
	return len(s.queues) == 0 || s.queues[name]
}

// wakeSessions rings those that could take what waits, tasks of an execution if run is not 0. The turn of a session that asks for
// tasks with outcomes of that execution takes them along: most often its commit is the one that has made them. The caller holds the lock.
func (d *Desk) wakeSessions(run int64, except *session) {
	if len(d.waiting) == 0 && (d.out.waits == 0 || d.out.away.IsZero()) {
		return
	}
	for _, s := range d.sessions {
		if s.news != nil && s != except && (run == 0 || s.asking[run] == 0) && d.anyFor(s) {
			s.ring()
		}
	}
}

// asks records that outcomes of one execution are about to be committed whose turn takes tasks then, and returns its number; 0: they
// are of several. The caller holds the lock.
func (s *session) asks(of []*attempt) (run int64) {
	for _, a := range of {
		if a.task.Run != of[0].task.Run {
			return 0
		}
		run = a.task.Run
	}
	if s.asking == nil {
		s.asking = map[int64]int{}
	}
	s.asking[run]++
	return run
}

// asked ends what asks has begun; what still waits is for other turns of the session.
func (d *Desk) asked(s *session, run int64) {
	if run == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.asking[run]--; s.asking[run] == 0 {
		delete(s.asking, run)
	}
	d.wakeSessions(0, nil)
}

// anyFor reports whether there may be something for a worker. The caller holds the lock.
func (d *Desk) anyFor(s *session) bool {
	for name := range d.waiting {
		if s.actions[name] {
			return true
		}
	}
	if d.out.away.IsZero() {
		return false
	}
	for name := range d.out.waiting {
		if s.actions[name] {
			return true
		}
	}
	return false
}

// join begins a session.
func (d *Desk) join(ctx context.Context, caller Caller, in *wire.Join) (*wire.Joined, error) {
	switch {
	case in.Worker == "" || len(in.Worker) > wire.MaxName || len(in.Instance) > wire.MaxName:
		return nil, stepwell.Invalid("", "worker is a name of 1 to %d bytes, and instance no longer one", wire.MaxName)
	case in.Protocol < wire.Oldest || in.Protocol > wire.Protocol:
		return nil, stepwell.Invalid("run a worker of the node's version", "protocol %d is not served, but %d to %d", in.Protocol, wire.Oldest, wire.Protocol)
	case in.Concurrency < 1 || in.Concurrency > maxConcurrency:
		return nil, stepwell.Invalid("", "concurrency is %d, not 1 to %d", in.Concurrency, maxConcurrency)
	case len(in.Actions) == 0 || len(in.Actions) > wire.MaxActions || len(in.Queues) > wire.MaxActions || len(in.Holding) > wire.MaxHolding:
		return nil, stepwell.Errorf(stepwell.CodeLimit, "", "a worker has 1 to %d actions, at most as many queues, and holds at most %d attempts", wire.MaxActions, wire.MaxHolding)
	}
	for i := range in.Actions {
		if n := len(in.Actions[i].Name); n == 0 || n > wire.MaxName {
			return nil, stepwell.Invalid("", "actions[%d] has a name of %d bytes, not 1 to %d", i, n, wire.MaxName)
		}
	}
	asked := in.Worker
	if err := caller.admit(in); err != nil {
		return nil, err
	}
	if err := d.o.Announce(ctx, in.Worker, in.Actions); err != nil {
		return nil, err
	}
	d.lookAtNodes()
	s, err := d.seat(caller, in)
	if err != nil {
		return nil, err
	}
	d.retryCancels(in.Actions)
	out := &wire.Joined{Node: d.o.Node, LeaseSeconds: d.o.Lease.Seconds(), Nodes: []string{}}
	if s.name != asked {
		out.Worker = s.name
	}
	if caller.Name != "" {
		return out, nil
	}
	out.Address, out.Streams = d.o.Address(), d.p.Streams
	d.mu.Lock()
	out.Nodes, s.nodes = append(out.Nodes, d.nodes...), d.nodesNo
	d.mu.Unlock()
	if s.name != asked {
		d.o.Log.Warn("two processes work under one name: the second has a name of its own", "worker", in.Worker, "second", s.name)
	}
	return out, nil
}

// nameFor is the name of a process that joins: that which it asks for, unless another process works under it and was heard of
// within its lease. The caller holds the lock.
func (d *Desk) nameFor(in *wire.Join) string {
	s := d.sessions[in.Worker]
	if s == nil || s.instance == "" || in.Instance == "" || s.instance == in.Instance || d.o.Now().Sub(s.seen) > d.o.Lease {
		return in.Worker
	}
	mark := "~" + stepwell.Head(in.Instance, instanceMark)
	return stepwell.Head(in.Worker, wire.MaxName-len(mark)) + mark
}

// seat makes or renews the session of a worker.
func (d *Desk) seat(caller Caller, in *wire.Join) (*session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := d.nameFor(in)
	s := d.sessions[name]
	switch {
	case s != nil && s.caller.ID != caller.ID:
		return nil, stepwell.Errorf(stepwell.CodeForbidden, "choose another name", "worker %s belongs to another owner", name)
	case caller.Name != "" && name != caller.Name:
		return nil, stepwell.Errorf(stepwell.CodeConflict, "one process of a plugin joins", "the plugin has joined already")
	case s == nil && len(d.sessions) >= maxSessions:
		return nil, stepwell.Errorf(stepwell.CodeLimit, "", "%d workers have joined already", maxSessions)
	case s == nil:
		s = &session{name: name, held: map[*attempt]bool{}, seen: d.o.Now(), tokens: 2 * callRate}
		d.sessions[name] = s
	}
	if in.Instance == "" || in.Instance != s.instance {
		s.steady = d.o.Now() // another process, for all that is known
	}
	if in.Instance != "" {
		s.instance = in.Instance
	}
	s.caller, s.version, s.concurrency = caller, in.Version, in.Concurrency
	s.actions, s.queues, s.cancels = map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range in.Actions {
		s.actions[in.Actions[i].Name] = true
		if in.Actions[i].Cancels {
			s.cancels[in.Actions[i].Name] = true
		}
	}
	d.loseCancels(s)
	for _, name := range in.Queues {
		s.queues[name] = true
	}
	s.ring()                          // it may serve more than it did
	_ = s.spend(d.o.Now(), d.o.Lease) // a join is never too many
	return s, d.renew(s, in.Holding)
}

// session finds the worker of a call.
func (d *Desk) session(caller Caller, name, instance string) (*session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.sessions[name]
	if s == nil || instance != "" && s.instance != "" && s.instance != instance {
		return nil, stepwell.Errorf(stepwell.CodeNotFound, wire.JoinFirst, "worker %q has not joined this node", stepwell.Head(name, wire.MaxName))
	}
	if s.caller.ID != caller.ID {
		return nil, stepwell.Errorf(stepwell.CodeForbidden, "", "worker %s belongs to another owner", name)
	}
	s.caller.Secure = s.caller.Secure && caller.Secure
	return s, s.spend(d.o.Now(), d.o.Lease)
}

// renew takes in what a worker says that it holds. The caller holds the lock.
func (d *Desk) renew(s *session, list []wire.ID) error {
	if list == nil {
		return nil
	}
	s.holding = make(map[id]bool, len(list))
	for _, w := range list {
		k, err := idOf(w)
		if err != nil {
			return err
		}
		s.holding[k] = true
		if a := d.attempts[k]; a != nil {
			d.adopt(a, s)
		}
	}
	return nil
}

// adopt renews the lease of an attempt that a worker holds, or gives it one that nobody holds any more. It reports whether
// the worker holds it then: not if another one is known to have begun it on the node before, whoever says what. The caller
// holds the lock.
func (d *Desk) adopt(a *attempt, s *session) bool {
	switch {
	case !strings.HasPrefix(a.task.Step.Action, s.caller.Prefix): // the steps of others, whatever it says
		return false
	case a.state == held && a.holder == s:
	case a.state == offered:
		d.markTaken(a)
		d.hold(a, s, a.lease)
	case a.state == expected && a.worker != "" && a.worker != s.name:
		return false
	case a.state == expected, a.state == loose, a.state == waiting && a.given:
		d.hold(a, s, queue.Lease{})
	default:
		return false
	}
	a.named, a.until = true, d.o.Now().Add(d.o.Lease)
	return true
}

// unheard reports whether an attempt was given to a worker that lives and does not know of it: the answer that carried it was lost. A
// worker names all that it holds three times in a lease. The caller holds the lock.
func (d *Desk) unheard(a *attempt) bool {
	s := a.holder
	return !a.named && !a.claimed && a.unheard < maxUnheard && s.steady.Before(a.since) && s.seen.Sub(a.since) > d.o.Lease*2/3
}

// hold gives an attempt to a worker. The caller holds the lock.
func (d *Desk) hold(a *attempt, s *session, lease queue.Lease) {
	d.count(a, -1)
	d.unlist(a)
	now := d.o.Now()
	a.state, a.holder, a.lease, a.given, a.named, a.since, a.until = held, s, lease, true, false, now, now.Add(d.o.Lease)
	s.held[a] = true
	s.revoked = s.revoked || a.revoked
}

// lookAtNodes has all workers told when there are other nodes than before.
func (d *Desk) lookAtNodes() {
	nodes := d.o.Nodes()
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Equal(d.nodes, nodes) {
		return
	}
	d.nodes = nodes
	d.nodesNo++
	for _, s := range d.sessions {
		s.ring()
	}
}

// giveBack puts attempts that a worker holds and has not begun into the queue again. One that it has from a list, and cannot
// run, goes to links for a while.
func (d *Desk) giveBack(_ context.Context, s *session, list []wire.ID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range list {
		k, err := idOf(w)
		if err != nil {
			return err
		}
		a := d.attempts[k]
		if a == nil || a.settling || a.claimed || a.holder != s && a.state != offered {
			continue
		}
		if a.state == offered {
			d.markTaken(a)
			a.misfit = true
		}
		d.putBack(a)
	}
	return nil
}

// putBack puts a held attempt into the queue again. The caller holds the lock.
func (d *Desk) putBack(a *attempt) {
	d.unlist(a)
	d.release(a)
	if a.remote != nil {
		a.remote.Close()
		a.remote = nil
	}
	a.state, a.told = loose, false
	if a.revoked {
		d.stopWaiting(a)
		return
	}
	d.pushAgain(a)
}

// pushAgain queues an attempt that nobody holds. The caller holds the lock.
func (d *Desk) pushAgain(a *attempt) {
	a.state, a.since = waiting, d.o.Now()
	d.count(a, 1)
	t := a.task
	m := queue.Message{Run: t.Run, Idx: t.Idx, Epoch: t.Epoch, Priority: t.Priority, Queue: t.Queue, Away: !d.isLocal(t), Since: uint32(a.since.Unix()), Body: t}
	if err := d.queue.Push(context.Background(), []queue.Message{m}); err == nil {
		d.wakeSessions(0, nil)
		d.wakeOffers()
	} // else the process ends
}

// Lease is Options.Lease.
func (d *Desk) Lease() time.Duration { return d.o.Lease }

// Heard is when the desk last heard of a caller that has joined; the zero time: it has not.
func (d *Desk) Heard(caller string) (at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sessions {
		if s.caller.ID == caller && len(s.actions) > 0 {
			at = s.seen
		}
	}
	return at
}

// Lose ends the session of a program that has ended: what it held is lost at once, without waiting for its lease.
func (d *Desk) Lose(caller string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sessions {
		if s.caller.ID != caller {
			continue
		}
		for a := range s.held {
			if !a.settling {
				d.lose(a)
			}
		}
		d.end(s)
	}
}

// left reports whether a session has ended: a turn of it that still waits gets nothing. The caller holds the lock.
func (d *Desk) left(s *session) bool { return d.sessions[s.name] != s }

// end forgets a session. The caller holds the lock.
func (d *Desk) end(s *session) {
	delete(d.sessions, s.name)
	s.ring()
	d.loseCancels(s)
}

// leave ends a session in order: what it holds has not been lost.
func (d *Desk) leave(_ context.Context, s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for a := range s.held {
		switch {
		case a.settling:
		case a.claimed:
			d.lose(a)
		default:
			d.putBack(a)
		}
	}
	d.end(s)
}
