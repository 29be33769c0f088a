package conductor

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
)

// slot says how an execution in memory counts.
type slot uint8

const (
	slotNone    slot = iota
	slotWaiting      // held until there is room
	slotTaken        // admitted and not ended; also while it is paused or being cancelled
)

// admission is the admission queue: as many executions run at once as Options.MaxExecutions and the limits of their
// keys (settings.concurrency) allow, higher priority first, else by number. A full key delays no other executions. It
// belongs to the loop.
type admission struct {
	running   int
	waiting   int
	ready     admissionQueue // held ones within the limit of their key
	groups    map[string]*group
	suspended int // no execution is admitted; see RecoverAll
}

// group is the executions that share a key.
type group struct {
	key     string
	members map[*live]struct{}
	running int
	waiting admissionQueue // held back by the limit; as long as there is room, the first of them is in admission.ready
}

// admissionQueue is held executions, the next one first.
type admissionQueue struct{ list []*live }

// Len implements heap.Interface.
func (q *admissionQueue) Len() int { return len(q.list) }

// Less implements heap.Interface.
func (q *admissionQueue) Less(i, j int) bool {
	a, b := q.list[i], q.list[j]
	if a.row.Priority != b.row.Priority {
		return a.row.Priority > b.row.Priority
	}
	return a.row.No < b.row.No
}

// Swap implements heap.Interface.
func (q *admissionQueue) Swap(i, j int) {
	q.list[i], q.list[j] = q.list[j], q.list[i]
	q.list[i].pos, q.list[j].pos = i, j
}

// Push implements heap.Interface.
func (q *admissionQueue) Push(x any) {
	l := x.(*live)
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

// limit is that of an execution's key.
func (l *live) limit() int {
	if x := l.pipeline.plan.Concurrency; x != nil {
		return x.Limit
	}
	return 1
}

// full reports whether the limit of its key holds an execution back.
func (l *live) full() bool { return l.group != nil && l.group.running >= l.limit() }

func (c *Conductor) crowded() bool {
	return c.o.MaxExecutions > 0 && c.admission.running >= c.o.MaxExecutions
}

// judge decides whether a new execution may begin at once, is held, or is refused.
func (c *Conductor) judge(l *live, b *engine.Begin) error {
	if c.o.MaxExecutions <= 0 && l.row.Concurrency == "" {
		return nil
	}
	a := &c.admission
	if g := a.groups[l.row.Concurrency]; g != nil && len(g.members) >= l.limit() {
		switch l.pipeline.plan.Concurrency.OnConflict {
		case plan.OnConflictSkip:
			return &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("execution %s has the concurrency key %q", g.oldest().run.ID, g.key),
				Hint: "start it when that one has ended, or write on_conflict: queue"}
		case plan.OnConflictCancelRunning:
			c.makeRoom(g, l)
		}
	}
	c.admit() // earlier executions first
	room := a.suspended == 0 && !c.crowded()
	if g := a.groups[l.row.Concurrency]; g != nil && g.running >= l.limit() {
		room = false
	}
	switch {
	case room:
	case a.waiting >= c.o.MaxPending:
		return &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("%d executions wait to begin", a.waiting), Hint: "try again when some of them have ended"}
	default:
		b.Held = true
	}
	return nil
}

func (g *group) oldest() (first *live) {
	for m := range g.members {
		if first == nil || m.row.No < first.row.No {
			first = m
		}
	}
	return first
}

// makeRoom cancels the oldest executions of a key, held ones among them, that stand in the way of a new one.
func (c *Conductor) makeRoom(g *group, l *live) {
	var staying []*live
	for m := range g.members {
		if s := m.run.Status(); !s.Terminal() && s != stepwell.ExecutionCancelling {
			staying = append(staying, m)
		}
	}
	slices.SortFunc(staying, func(a, b *live) int { return cmp.Compare(a.row.No, b.row.No) })
	for _, m := range staying[:max(0, len(staying)+1-l.limit())] {
		if _, err := c.tell(m, &engine.Event{Kind: engine.Cancel, At: c.now(), Reason: "execution " + l.run.ID + " took its place"}); err != nil {
			c.o.Log.Error("an execution could not be cancelled for another", "execution", m.run.ID, "for", l.run.ID, "error", err)
		}
	}
}

// enroll counts an execution that has come into memory.
func (c *Conductor) enroll(l *live) {
	if l.slot != slotNone || l.gone || l.run.Status().Terminal() {
		return
	}
	a := &c.admission
	if key := l.row.Concurrency; key != "" {
		if l.group = a.groups[key]; l.group == nil {
			l.group = &group{key: key, members: map[*live]struct{}{}}
			if a.groups == nil {
				a.groups = map[string]*group{}
			}
			a.groups[key] = l.group
		}
		l.group.members[l] = struct{}{}
	}
	if l.run.Status() == stepwell.ExecutionPending {
		l.slot = slotWaiting
		a.waiting++
		a.enqueue(l)
		c.more = true
	} else {
		c.takeSlot(l)
	}
	c.tally()
}

// takeSlot counts an execution as running.
func (c *Conductor) takeSlot(l *live) {
	l.slot = slotTaken
	c.admission.running++
	if l.group != nil {
		l.group.running++
	}
}

// enqueue puts a held execution into the queue that holds it back.
func (a *admission) enqueue(l *live) {
	if l.full() {
		heap.Push(&l.group.waiting, l)
	} else {
		heap.Push(&a.ready, l)
	}
}

// follow moves the first execution that a key holds back into the queue for all, if its limit allows it.
func (a *admission) follow(g *group) {
	if g != nil && len(g.waiting.list) > 0 && !g.waiting.list[0].full() {
		heap.Push(&a.ready, heap.Pop(&g.waiting))
	}
}

// admit starts held executions while slots are free.
func (c *Conductor) admit() {
	a := &c.admission
	for a.suspended == 0 && len(a.ready.list) > 0 && !c.crowded() {
		l := heap.Pop(&a.ready).(*live)
		switch {
		case l.run.Status() != stepwell.ExecutionPending: // cancelled in this turn
			a.follow(l.group)
			continue
		case l.full():
			heap.Push(&l.group.waiting, l)
			continue
		}
		if _, err := c.tell(l, &engine.Event{Kind: engine.Admit, At: c.now()}); err != nil {
			c.o.Log.Error("an execution cannot be admitted", "execution", l.run.ID, "error", err)
			a.follow(l.group)
			continue
		}
		a.waiting--
		c.takeSlot(l)
		a.follow(l.group)
		c.tally()
	}
}

// leave frees an execution's slot.
func (c *Conductor) leave(l *live) {
	a := &c.admission
	switch l.slot {
	case slotNone:
		return
	case slotWaiting:
		a.waiting--
		if l.queue != nil {
			heap.Remove(l.queue, l.pos)
		}
	case slotTaken:
		a.running--
		if l.group != nil {
			l.group.running--
		}
	}
	l.slot = slotNone
	if g := l.group; g != nil {
		a.follow(g)
		delete(g.members, l)
		if len(g.members) == 0 {
			delete(a.groups, g.key)
		}
	}
	c.more = c.more || len(a.ready.list) > 0
	c.tally()
}
