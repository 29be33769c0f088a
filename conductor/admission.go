package conductor

import (
	"container/heap"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/store"
)

// slot says how an execution in memory counts.
type slot uint8

const (
	slotNone    slot = iota
	slotWaiting      // held until there is room, or paused before it began
	slotTaken        // admitted and not ended; also while it is paused or being cancelled
)

// admission is the admission queue: as many executions run at once as Options.MaxExecutions and the limits of their
// keys (Options.Slots) allow, higher priority first, else by number. A full key delays no other executions. It
// belongs to the loop.
type admission struct {
	running   int
	waiting   int
	ready     admissionQueue // held ones that wait for room in this process
	suspended int            // no execution is admitted; see RecoverAll
}

// candidate is an execution that may wait in an admissionQueue.
type candidate struct {
	Member
	queue *admissionQueue // where it waits
	pos   int             // in queue
	live  *live           // of one in admission.ready

	asked  bool     // its key has refused it a slot and has not called it yet
	others []Member // of its key, while it starts

	again  func() // of one that waits for a slot
	called bool   // again has been called
}

// admissionQueue is held executions, the next one first.
type admissionQueue struct{ list []*candidate }

// Len implements heap.Interface.
func (q *admissionQueue) Len() int { return len(q.list) }

// Less implements heap.Interface.
func (q *admissionQueue) Less(i, j int) bool { return q.list[i].precedes(&q.list[j].Member) }

// Swap implements heap.Interface.
func (q *admissionQueue) Swap(i, j int) {
	q.list[i], q.list[j] = q.list[j], q.list[i]
	q.list[i].pos, q.list[j].pos = i, j
}

// Push implements heap.Interface.
func (q *admissionQueue) Push(x any) {
	l := x.(*candidate)
	l.queue, l.pos = q, len(q.list)
	q.list = append(q.list, l)
}

// Pop implements heap.Interface.
func (q *admissionQueue) Pop() any {
	last := len(q.list) - 1
	l := q.list[last]
	q.list[last] = nil
	q.list, l.queue = q.list[:last], nil
	return l
}

func (c *Conductor) crowded() bool {
	return c.o.MaxExecutions > 0 && c.admission.running >= c.o.MaxExecutions
}

// enter makes a new execution a member of its key. It reports false when the other members are not known yet: then the
// item comes again.
func (c *Conductor) enter(it *item) (known bool) {
	l := it.on
	if l.row.Concurrency == "" || l.place != nil {
		return true
	}
	c.join(l)
	start := *it
	l.place.others, known = c.o.Slots.Enter(l.place.Member, func(others []Member) {
		c.later(func() {
			l.place.others = others
			c.apply(&start)
		})
	})
	return known
}

// join makes the candidate of an execution.
func (c *Conductor) join(l *live) {
	l.place = &candidate{live: l, Member: Member{Execution: l.run.No, ID: l.run.ID, Key: l.row.Concurrency, Limit: l.limit(), Priority: l.row.Priority, Owner: c.o.Owner}}
	if x := l.pipeline.plan.Concurrency; x != nil {
		l.place.Conflicts = l.create && x.OnConflict != plan.OnConflictQueue
	}
}

// limit is that of an execution's key.
func (l *live) limit() int {
	if x := l.pipeline.plan.Concurrency; x != nil {
		return x.Limit
	}
	return max(1, windowOf(l.row.Concurrency))
}

// later runs a function in the loop, after this turn. A stopped conductor does not run it.
func (c *Conductor) later(do func()) {
	if err := c.inbox.put(item{do: func(*item) { do() }}); err != nil {
		c.o.Log.Debug("a concurrency slot came after the stop", "error", err)
	}
}

// judge decides whether a new execution may begin at once, is held, or is refused.
func (c *Conductor) judge(l *live, b *engine.Begin) error {
	if c.o.MaxExecutions <= 0 && l.row.Concurrency == "" {
		return nil
	}
	if p := l.place; p != nil && p.Conflicts && len(p.others) >= p.Limit {
		if l.pipeline.plan.Concurrency.OnConflict == plan.OnConflictSkip {
			return &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("execution %s has the concurrency key %q", p.others[0].ID, p.Key),
				Hint: "start it when that one has ended, or write on_conflict: queue"}
		}
		c.makeRoom(l)
	}
	a := &c.admission
	c.admit() // earlier executions first
	switch {
	case a.suspended == 0 && !c.crowded() && c.takeKey(l):
	case a.waiting >= c.o.MaxPending:
		return &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("%d executions wait to begin", a.waiting), Hint: "try again when some of them have ended"}
	default:
		b.Held = true
	}
	return nil
}

// takeKey reports whether an execution has a slot of its key. If not, it is ready again when it is to take once more.
func (c *Conductor) takeKey(l *live) bool {
	if l.row.Concurrency == "" || l.place.Holds {
		return true
	}
	l.place.Holds = c.o.Slots.Take(l.place.Member, func() {
		c.later(func() {
			if l.place.asked = false; l.slot == slotWaiting && !l.gone {
				c.lineUp(l)
			}
		})
	})
	l.place.asked = !l.place.Holds
	return l.place.Holds
}

// makeRoom cancels the oldest executions of a key, held ones among them, that stand in the way of a new one.
func (c *Conductor) makeRoom(l *live) {
	staying := slices.DeleteFunc(l.place.others, func(m Member) bool {
		x := c.runs[m.Execution]
		return x != nil && (x.run.Status().Terminal() || x.run.Status() == stepwell.ExecutionCancelling)
	})
	reason := "execution " + l.run.ID + " took its place"
	for _, m := range staying[:max(0, len(staying)+1-l.place.Limit)] {
		x := c.runs[m.Execution]
		if x == nil {
			c.elsewhere.Go(func() { c.cancelElsewhere(m, reason) })
			continue
		}
		if _, err := c.tell(x, &engine.Event{Kind: engine.Cancel, At: c.now(), Reason: reason}); err != nil {
			c.o.Log.Error("an execution could not be cancelled for another", "execution", m.ID, "for", l.run.ID, "error", err)
		}
	}
}

// cancelElsewhere asks the process that runs an execution to cancel it.
func (c *Conductor) cancelElsewhere(m Member, reason string) {
	body, err := json.Marshal(RequestBody{Reason: reason})
	if err == nil {
		err = c.o.Store.PutRequest(context.Background(), store.Request{Owner: m.Owner, Execution: m.ID, Kind: RequestCancel, Body: body})
	}
	if err != nil {
		c.o.Log.Error("another process could not be asked to cancel an execution", "execution", m.ID, "reason", reason, "error", err)
	}
}

// enroll counts an execution that has come into memory, and has a held one wait as long as it is not paused.
func (c *Conductor) enroll(l *live) {
	if l.slot == slotWaiting && !l.gone {
		c.lineUp(l)
	}
	if l.slot != slotNone || l.gone || l.run.Status().Terminal() {
		return
	}
	held := l.run.Held()
	if l.place == nil && (held || l.row.Concurrency != "") {
		c.join(l)
		if l.place.Holds = !held; l.place.Key != "" {
			c.o.Slots.Enter(l.place.Member, func([]Member) {})
		}
		if held && l.run.Status() == stepwell.ExecutionPaused {
			c.standBack(l) // another process may have taken a slot for it
		}
	}
	if held {
		l.slot = slotWaiting
		c.admission.waiting++
		c.lineUp(l)
	} else {
		c.takeSlot(l)
	}
	c.tally()
}

// lineUp puts a held execution into the admission queue, and takes one that is paused out of it.
func (c *Conductor) lineUp(l *live) {
	p := l.place
	switch l.run.Status() {
	case stepwell.ExecutionPending:
		if p.queue == nil && !p.asked {
			heap.Push(&c.admission.ready, p)
			c.more = true
		}
	case stepwell.ExecutionPaused:
		if p.queue != nil || p.asked {
			c.standBack(l)
		}
	}
}

// standBack takes a held execution out of the admission queue and out of those that wait for a slot of its key. A slot that its key was
// about to give it is the next one's. It stays a member of the key.
func (c *Conductor) standBack(l *live) {
	p := l.place
	if p.asked = false; p.queue != nil {
		heap.Remove(p.queue, p.pos)
	}
	if p.Key != "" {
		p.Conflicts = false
		c.o.Slots.Leave(p.Member)
		c.o.Slots.Enter(p.Member, func([]Member) {})
	}
}

// takeSlot counts an execution as running.
func (c *Conductor) takeSlot(l *live) {
	l.slot = slotTaken
	c.admission.running++
}

// admit starts held executions while slots are free.
func (c *Conductor) admit() {
	a := &c.admission
	for a.suspended == 0 && len(a.ready.list) > 0 && !c.crowded() {
		l := heap.Pop(&a.ready).(*candidate).live
		if l.run.Status() != stepwell.ExecutionPending || !c.takeKey(l) { // cancelled in this turn, or its key is full
			continue
		}
		if _, err := c.tell(l, &engine.Event{Kind: engine.Admit, At: c.now()}); err != nil {
			c.o.Log.Error("an execution cannot be admitted", "execution", l.run.ID, "error", err)
			c.leaveKey(l)
			continue
		}
		a.waiting--
		c.takeSlot(l)
		c.tally()
	}
}

// leaveKey frees an execution's slot of its key.
func (c *Conductor) leaveKey(l *live) {
	if l.place != nil && l.place.Key != "" {
		c.o.Slots.Leave(l.place.Member)
	}
}

// leave frees an execution's slots.
func (c *Conductor) leave(l *live) {
	a := &c.admission
	c.leaveKey(l)
	switch l.slot {
	case slotNone:
		return
	case slotWaiting:
		a.waiting--
		if l.place.queue != nil {
			heap.Remove(l.place.queue, l.place.pos)
		}
	case slotTaken:
		a.running--
	}
	l.slot = slotNone
	c.more = c.more || len(a.ready.list) > 0
	c.tally()
}
