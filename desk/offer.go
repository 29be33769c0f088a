package desk

import (
	"context"
	"maps"
	"slices"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/worker"
)

// Lists are lists outside of the process, such as those of Redis (package queue/redisq), in which the steps of some queues are
// offered to whoever takes them from there. They may lose, repeat and delay everything.
type Lists interface {
	// Has reports whether the steps of a queue are offered in lists.
	Has(queue string) bool
	// Name is that of the list of a queue, for people.
	Name(queue string) string
	// Push adds messages, to be taken in their order, behind the others of the same class: 1 for priorities above 0, 0, or
	// -1 for those below. After an error nobody knows how many have been added.
	Push(ctx context.Context, queue string, class int, messages [][]byte) error
	// Defers reports whether messages of a class have to stay out of the lists of a queue while these are long.
	Defers(queue string, class int) bool
	// Empty reports whether there is nothing in the lists of a queue.
	Empty(ctx context.Context, queue string) (bool, error)
	// Ping asks whether the lists are there.
	Ping(ctx context.Context) error
}

const (
	maxOffered    = 20_000 // attempts in lists
	offerBatch    = 1000   // of one Push
	shortList     = 64     // attempts of a queue in lists; below, those that were deferred follow
	patience      = 4      // an attempt in a list that is not empty is pushed again after Options.Offered, doubled so often at most
	offerInterval = time.Second
)

// place is a part of a queue's lists in which the first pushed is the first taken.
type place struct {
	queue string
	class int
}

func placeOf(t *engine.Task) place {
	return place{t.Queue, min(max(t.Priority, -1), 1)}
}

// offers is what the desk knows of the lists. The desk's lock guards it.
type offers struct {
	away    time.Time      // since when the lists are away; zero: they are there
	count   int            // offered attempts
	waits   int            // waiting ones that go out: to links only while the lists are away
	waiting map[string]int // those, by action
	open    map[string]int
	taken   map[place]int64 // the number of the last push of which something has been taken
	no      int64           // of pushes
	names   map[string]id   // likewise, by the step's id
	wake    chan struct{}   // one token
}

func (d *Desk) initOffers() {
	d.out = offers{open: map[string]int{}, waiting: map[string]int{}, taken: map[place]int64{}, names: map[string]id{}, wake: make(chan struct{}, 1)}
}

// goesOut reports whether a task is offered in lists while they are there. The caller holds the lock.
func (d *Desk) goesOut(t *engine.Task) bool {
	return d.o.Lists != nil && d.p.Actions != nil && len(t.Members) == 0 && d.o.Lists.Has(t.Queue) && d.mayGo(t.Step.Action)
}

// listed reports whether a waiting task is left to the lists now. The caller holds the lock.
func (d *Desk) listed(t *engine.Task) bool {
	if !d.goesOut(t) || !d.out.away.IsZero() {
		return false
	}
	a := d.attempts[id{t.Execution, t.Idx, t.Epoch}]
	return a == nil || !a.misfit
}

// wakeOffers has the loop look for tasks to offer.
func (d *Desk) wakeOffers() {
	if d.o.Lists == nil {
		return
	}
	select {
	case d.out.wake <- struct{}{}:
	default:
	}
}

// ListsAway is for how long the lists have been away; 0: they are there, or none are used.
func (d *Desk) ListsAway() (away time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.out.away.IsZero() {
		return 0
	}
	return max(1, d.o.Now().Sub(d.out.away))
}

// OfferedQueues are the queues of which attempts are in lists.
func (d *Desk) OfferedQueues() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.out.open))
}

// offerLoop offers tasks in lists until ctx ends.
func (d *Desk) offerLoop(ctx context.Context) {
	tick := time.NewTicker(min(offerInterval, d.o.Offered/3))
	defer tick.Stop()
	var held <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.out.wake:
		case <-held:
		case <-tick.C:
			d.sweepOffers(ctx)
		}
		held = nil
		for ctx.Err() == nil && d.offer(ctx, d.drawOffers()) {
		}
		if d.heldBack() {
			held = time.After(limitPause)
		}
	}
}

// heldBack reports whether a limit or a long list holds tasks back. The caller does not hold the lock.
func (d *Desk) heldBack() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out.away.IsZero() && d.out.waits > 0
}

// drawOffers takes tasks out of the queue for the lists.
func (d *Desk) drawOffers() (list []*attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	most := min(offerBatch, maxOffered-d.out.count)
	if !d.out.away.IsZero() || most <= 0 || d.out.waits == 0 || d.stopped {
		return nil
	}
	deferred := map[string]int{}
	leases := d.queue.Take(nil, most, func(m *queue.Message) bool {
		t, ok := m.Body.(*engine.Task)
		if !ok || !d.listed(t) {
			return false
		}
		if !d.o.Lists.Defers(t.Queue, placeOf(t).class) {
			return true
		}
		if d.out.open[t.Queue]+deferred[t.Queue] >= shortList {
			return false
		}
		deferred[t.Queue]++
		return true
	})
	for _, l := range leases {
		t := l.Body.(*engine.Task)
		a := d.attempts[id{t.Execution, t.Idx, t.Epoch}]
		if a == nil || a.state != waiting {
			_ = d.queue.Ack(context.Background(), []queue.Lease{l}) // pushed twice, or no longer wanted
			continue
		}
		d.count(a, -1)
		a.lease = l
		d.enlist(a)
		list = append(list, a)
	}
	return list
}

// enlist makes a waiting attempt an offered one. The caller holds the lock.
func (d *Desk) enlist(a *attempt) {
	a.state, a.given, a.pushes = offered, true, 0
	a.place = placeOf(a.task)
	d.out.count++
	d.out.open[a.place.queue]++
	d.out.names[wire.Step(a.execution, a.idx)] = a.id
}

// unlist is for an attempt that is offered no longer. The caller holds the lock.
func (d *Desk) unlist(a *attempt) {
	if a.state != offered {
		return
	}
	d.out.count--
	if d.out.open[a.place.queue]--; d.out.open[a.place.queue] == 0 {
		delete(d.out.open, a.place.queue)
	}
	if d.out.waits > 0 {
		d.wakeOffers()
	}
}

// markTaken records that an offered attempt has been taken from its list. The caller holds the lock.
func (d *Desk) markTaken(a *attempt) {
	if a.state == offered {
		d.out.taken[a.place] = max(d.out.taken[a.place], a.pushed)
	}
}

// offer puts attempts into their lists. It reports whether there may be more to offer.
func (d *Desk) offer(ctx context.Context, list []*attempt) bool {
	messages, members, order := map[place][][]byte{}, map[place][]*attempt{}, []place(nil)
	for _, a := range list {
		raw, ok := d.message(ctx, a)
		if !ok {
			continue
		}
		if members[a.place] == nil {
			order = append(order, a.place)
		}
		messages[a.place], members[a.place] = append(messages[a.place], raw), append(members[a.place], a)
	}
	for i, at := range order {
		d.markPushed(members[at])
		if err := d.o.Lists.Push(ctx, at.queue, at.class, messages[at]); err != nil {
			for _, at := range order[i:] {
				d.takeBack(members[at])
			}
			d.listsAway(err)
			return false
		}
	}
	return len(list) > 0
}

// markPushed records that attempts are being pushed.
func (d *Desk) markPushed(list []*attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.o.Now()
	d.out.no++
	for _, a := range list {
		if a.state == offered {
			a.pushed, a.since = d.out.no, now
			a.pushes++
		}
	}
}

// takeBack lets attempts wait again that could not be pushed.
func (d *Desk) takeBack(list []*attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range list {
		if a.state == offered && !a.settling {
			d.putBack(a)
		}
	}
}

// listsAway records that the lists cannot be reached: what waits goes to links.
func (d *Desk) listsAway(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.out.away.IsZero() {
		d.out.away = d.o.Now()
		d.o.Log.Warn("the Redis lists of steps are unavailable: until they are back, steps go to connected workers", "error", err)
	}
	d.wakeSessions(0, nil)
}

// listsBack records that the lists are there again. Everything that was in them is pushed again: they may have lost it.
func (d *Desk) listsBack() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.o.Log.Info("the lists of steps are back", "away", d.o.Now().Sub(d.out.away).Round(time.Millisecond).String())
	d.out.away = time.Time{}
	for _, a := range d.attempts {
		if a.state == offered {
			a.since = time.Time{}
		}
	}
}

// message is what a list holds of an attempt. ok is false if the step cannot begin, or is offered no longer.
func (d *Desk) message(ctx context.Context, a *attempt) (raw []byte, ok bool) {
	if !d.keepOffer(a, false) {
		return nil, false
	}
	p, params, ok := d.render(ctx, a)
	if !ok {
		return nil, false
	}
	m := wire.Message{StepID: wire.Step(a.execution, a.idx), StepName: stepName(a.task), ExecutionID: a.execution, Epoch: a.epoch, Queue: a.task.Queue, Node: d.o.Address()}
	secret := a.task.Step.Secrets || d.hasSecrets(a, &p, params)
	if !d.keepOffer(a, secret) {
		return nil, false
	}
	// The steps of lessons are claimed before they run: a message that comes twice would else run them on two workers at once, and what
	// models and services do for them costs far more than the claim.
	if !secret && a.task.About == nil && len(params)+len(p.State) <= wire.MaxTask {
		task := d.call(a, &p, params)
		m.Task = &task
	}
	raw, err := json.Marshal(m)
	if err == nil && m.Task != nil && len(raw) > wire.MaxTask {
		m.Task = nil
		raw, err = json.Marshal(m)
	}
	return raw, err == nil
}

// keepOffer reports whether an attempt is offered still, and records whether its call has secrets.
func (d *Desk) keepOffer(a *attempt, secret bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	a.secret = a.secret || secret
	return a.state == offered
}

// hasSecrets reports whether a rendered call holds secrets.
func (d *Desk) hasSecrets(a *attempt, p *worker.Prepared, params []byte) bool {
	return d.p.Secrets != nil && (string(d.p.Secrets.Seal(a.execution, params)) != string(params) || string(p.State) != string(a.task.State))
}

// render finishes the call of an attempt. One that cannot be rendered has failed: ok is false.
func (d *Desk) render(ctx context.Context, a *attempt) (p worker.Prepared, params []byte, ok bool) {
	ctx = context.WithoutCancel(ctx) // the step does not fail because its worker goes
	if p = d.p.Runner.Prepare(ctx, a.task); p.Err != nil {
		ev := d.p.Runner.Run(ctx, p)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.drop(a)
		d.do(func(ctx context.Context) { d.report(ctx, "a step that cannot begin", a.task.Run, ev) })
		return p, nil, false
	}
	params, err := expr.Marshal(p.Params)
	if err != nil || p.Params == nil {
		params = []byte("{}")
	}
	return p, params, true
}

// sweepOffers pushes attempts again that have been in a list for too long, and asks whether the lists are there.
func (d *Desk) sweepOffers(ctx context.Context) {
	err := d.o.Lists.Ping(ctx)
	if err != nil {
		if ctx.Err() == nil {
			d.listsAway(err)
			d.releaseOffers()
		}
		return
	}
	if d.ListsAway() > 0 {
		d.listsBack()
	}
	late := d.lateOffers()
	for name, list := range late {
		if empty, err := d.o.Lists.Empty(ctx, name); err != nil {
			d.listsAway(err)
			return
		} else if !empty {
			late[name] = d.overtaken(list)
		}
	}
	for _, list := range late {
		for some := range slices.Chunk(list, offerBatch) {
			if !d.offer(ctx, some) {
				return
			}
		}
	}
}

// lateOffers finds the offered attempts of which nobody has said anything for too long, by queue.
func (d *Desk) lateOffers() map[string][]*attempt {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, late := d.o.Now(), map[string][]*attempt{}
	for _, a := range d.attempts {
		switch {
		case a.settling:
		case a.state == offered && now.Sub(a.since) > d.o.Offered:
			late[a.task.Queue] = append(late[a.task.Queue], a)
		case a.state == waiting && a.misfit && now.Sub(a.since) > d.o.Offered:
			d.count(a, -1)
			a.misfit = false
			d.count(a, 1)
		}
	}
	for _, list := range late {
		slices.SortFunc(list, func(a, b *attempt) int { return int(a.pushed - b.pushed) })
	}
	return late
}

// overtaken selects those that were pushed before something that has been taken: a list is first in, first out.
func (d *Desk) overtaken(list []*attempt) (lost []*attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.o.Now()
	for _, a := range list {
		if a.since.IsZero() || a.pushed < d.out.taken[a.place] && now.Sub(a.since) > d.o.Offered<<min(a.pushes-1, patience) {
			lost = append(lost, a)
		}
	}
	return lost
}

// releaseOffers lets links have what has been in lists for too long, while these are away.
func (d *Desk) releaseOffers() {
	for _, list := range d.lateOffers() {
		d.takeBack(list)
	}
}

// took records that a worker has taken attempts from a list, and returns those that it must not run.
func (d *Desk) took(ctx context.Context, s *session, list []wire.ID) (stop []wire.ID, err error) {
	for _, w := range list {
		k, err := idOf(w)
		if err != nil {
			return nil, err
		}
		wanted, err := d.takes(ctx, s, k)
		if err == nil && !wanted {
			stop = append(stop, w)
		}
	}
	return stop, nil
}

// takes gives an attempt to a worker that has taken it from a list; false: it is somebody else's, or nobody wants it.
func (d *Desk) takes(ctx context.Context, s *session, k id) (bool, error) {
	d.mu.Lock()
	known := d.attempts[k] != nil
	d.mu.Unlock()
	if !known {
		if done, err := d.recall(ctx, k); done || err != nil {
			return false, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.attempts[k]
	return a != nil && (a.settling || !a.revoked && d.adopt(a, s)), nil
}
