package fleet

import (
	"context"
	"sync"
	"time"

	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/store"
)

// Slots are the slots of concurrency keys in the store, for the conductor of a node (conductor.Slots). No call but Holders waits for the
// store: what belongs to one execution is done in its order by a goroutine of its own, and tried until the store takes it.
type Slots struct {
	ctx   context.Context
	n     *Node
	store store.Seats
	room  chan struct{} // calls of the store at once

	mu      sync.Mutex
	members map[int64]*member
	byKey   map[string]map[int64]*member
	work    map[int64][]func() // to do for an execution, in order; there while a goroutine does it
}

// Limits of what is asked of the store.
const (
	maxSlotCalls = 8
	slotPause    = 200 * time.Millisecond // before a refused call is tried again
	vacantKeys   = 100                    // looked at after a beat
)

// member is an execution with a concurrency key.
type member struct {
	seat    store.Seat
	holds   bool
	asking  bool   // a call that takes the slot is under way
	waiting bool   // the key was full
	again   func() // of the last Take
}

// NewSlots makes the slots of a node. They work until ctx ends.
func NewSlots(ctx context.Context, n *Node, s store.Seats) *Slots {
	return &Slots{ctx: ctx, n: n, store: s, room: make(chan struct{}, maxSlotCalls), members: map[int64]*member{}, byKey: map[string]map[int64]*member{}, work: map[int64][]func(){}}
}

// Run gives members slots that other nodes have freed: it looks once in a beat, until the context of NewSlots ends.
func (s *Slots) Run() {
	tick := time.NewTicker(s.n.o.Beat)
	defer tick.Stop()
	for round := 1; ; round++ {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		if round%strayRounds == 0 {
			s.compare()
		}
		keys, err := s.store.Vacant(s.ctx, s.n.no, vacantKeys)
		if err != nil && s.ctx.Err() == nil {
			s.n.o.Log.Warn("free slots of concurrency keys are not known", "error", err)
		}
		for _, key := range keys {
			s.wake(key)
		}
	}
}

// compare brings the members of this node and those that the store has of it together. Both may differ after a node was late: others
// have ended memberships that seemed to be left behind, and two nodes may have entered one execution.
func (s *Slots) compare() {
	list, err := s.store.SeatsOf(s.ctx, s.n.no, strayPage)
	if err != nil || len(list) == strayPage {
		return // the next time tells
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	there := make(map[int64]bool, len(list))
	for _, x := range list {
		there[x.Execution] = true
		if _, busy := s.work[x.Execution]; !busy && s.members[x.Execution] == nil {
			s.do(x.Execution, func() { s.try(func() error { return s.store.Rise(s.ctx, x) }) })
		}
	}
	missing := func(waiting bool) (any bool) {
		for no, x := range s.members {
			if _, busy := s.work[no]; busy || there[no] || x.holds == waiting {
				continue
			}
			seat := x.seat
			seat.Sitting, any = x.holds, true
			s.do(no, func() { s.try(func() error { _, err := s.store.Enter(s.ctx, seat, false); return err }) })
			if x.waiting {
				s.ask(x)
			}
		}
		return any
	}
	if !missing(false) { // else the others come the next time, when the slots of these are taken again
		missing(true)
	}
}

// Enter implements conductor.Slots.
func (s *Slots) Enter(m conductor.Member, tell func([]conductor.Member)) (others []conductor.Member, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.members[m.Execution]
	if x == nil {
		x = &member{holds: m.Holds, seat: store.Seat{Key: m.Key, Execution: m.Execution, ID: m.ID, Owner: s.n.no, Priority: m.Priority, Slots: m.Limit, Sitting: m.Holds}}
		s.members[m.Execution] = x
		if s.byKey[m.Key] == nil {
			s.byKey[m.Key] = map[int64]*member{}
		}
		s.byKey[m.Key][m.Execution] = x
	}
	s.do(m.Execution, func() {
		var list []store.Seat
		if s.try(func() (err error) { list, err = s.store.Enter(s.ctx, x.seat, m.Conflicts); return err }) && m.Conflicts {
			tell(membersOf(list))
		}
	})
	return nil, !m.Conflicts
}

func membersOf(seats []store.Seat) (list []conductor.Member) {
	for _, x := range seats {
		list = append(list, conductor.Member{Key: x.Key, Limit: x.Slots, Execution: x.Execution, ID: x.ID, Priority: x.Priority, Owner: x.Owner, Holds: x.Sitting})
	}
	return list
}

// Take implements conductor.Slots. The answer of the store comes through again.
func (s *Slots) Take(m conductor.Member, again func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.members[m.Execution]
	if x == nil {
		return false
	}
	if x.again = again; !x.holds {
		s.ask(x)
	}
	return x.holds
}

// ask takes a slot for a member. The caller holds mu.
func (s *Slots) ask(x *member) {
	if x.asking || x.holds {
		return
	}
	x.asking, x.waiting = true, false
	s.do(x.seat.Execution, func() {
		sits := false
		s.try(func() (err error) { sits, err = s.store.Sit(s.ctx, x.seat); return err })
		s.mu.Lock()
		x.asking, x.holds, x.waiting = false, sits, !sits
		there := s.members[x.seat.Execution] == x
		again := x.again
		s.mu.Unlock()
		if sits && there {
			again()
			s.wake(x.seat.Key) // there may be another slot
		}
	})
}

// wake asks for the first member of this node that waits for a key.
func (s *Slots) wake(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first *member
	for _, x := range s.byKey[key] {
		if x.waiting && (first == nil || x.seat.Priority > first.seat.Priority || x.seat.Priority == first.seat.Priority && x.seat.Execution < first.seat.Execution) {
			first = x
		}
	}
	if first != nil {
		s.ask(first)
	}
}

// Leave implements conductor.Slots.
func (s *Slots) Leave(m conductor.Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.members[m.Execution]
	if x == nil {
		return
	}
	delete(s.members, m.Execution)
	if delete(s.byKey[m.Key], m.Execution); len(s.byKey[m.Key]) == 0 {
		delete(s.byKey, m.Key)
	}
	s.do(m.Execution, func() {
		s.try(func() error { return s.store.Rise(s.ctx, x.seat) })
		s.wake(m.Key)
	})
}

// Holders implements conductor.Slots.
func (s *Slots) Holders(ctx context.Context, key string) (n int, oldest string, err error) {
	list, err := s.store.Seated(ctx, key)
	for _, x := range list {
		if !x.Sitting {
			continue
		}
		if n++; n == 1 {
			oldest = x.ID
		}
	}
	return n, oldest, err
}

// do runs f after what is to be done for the execution already. The caller holds mu.
func (s *Slots) do(execution int64, f func()) {
	list, busy := s.work[execution]
	s.work[execution] = append(list, f)
	if busy {
		return
	}
	go func() {
		for {
			s.mu.Lock()
			list := s.work[execution]
			if len(list) == 0 {
				delete(s.work, execution)
				s.mu.Unlock()
				return
			}
			s.work[execution] = list[1:]
			s.mu.Unlock()
			list[0]()
		}
	}()
}

// try calls the store until it takes the call; false: the context has ended first.
func (s *Slots) try(call func() error) bool {
	for {
		select {
		case s.room <- struct{}{}:
		case <-s.ctx.Done():
			return false
		}
		err := call()
		<-s.room
		if err == nil {
			return true
		}
		select {
		case <-s.ctx.Done():
			return false
		case <-time.After(slotPause):
			s.n.o.Log.Warn("a concurrency key cannot be changed in the store, and is retried", "error", err)
		}
	}
}
