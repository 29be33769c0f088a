package conductor

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Slots are the slots of concurrency keys (settings.concurrency), shared by all processes that run the executions of a
// store. Executions without a key take none. The methods are safe for concurrent use. The loop calls all but Holders and
// never waits for an answer: one that is not known at once arrives as a message to the loop, through the function given.
type Slots interface {
	// Enter makes an execution a member of its key until it leaves. Where m.Conflicts is set it returns the other
	// members, oldest first; known is false if they are not known yet: then tell is called once, from any goroutine. A member that
	// another process entered is this process's from now on, and keeps its slot.
	Enter(m Member, tell func(others []Member)) (others []Member, known bool)
	// Take reports whether the member has a slot now. If not, it waits for one, higher priority first, then the lower number, and
	// again is called, from any goroutine, when the member is to take once more.
	Take(m Member, again func()) bool
	// Leave ends the membership and frees the slot. Twice is harmless; a member that another process has entered since stays.
	Leave(m Member)
	// Holders counts the members that hold a slot; oldest is the id of the first, "" without any.
	Holders(ctx context.Context, key string) (n int, oldest string, err error)
}

// Member is an execution with a concurrency key.
type Member struct {
	Key       string
	Limit     int   // of slots, as the pipeline of this execution says
	Execution int64 // number
	ID        string
	Priority  int
	Owner     int64 // Options.Owner of the process that runs it
	Holds     bool  // entered again with the slot that it took in an earlier process
	Conflicts bool  // what happens depends on the other members
}

// windowPrefix begins the keys of windows (Request.Window): then come the limit and the caller's key. They outlive the process.
const windowPrefix = "window:"

func windowKey(limit int, key string) string { return windowPrefix + strconv.Itoa(limit) + ":" + key }

// windowOf is the limit of a window's key, 0 for another key.
func windowOf(key string) int {
	rest, ok := strings.CutPrefix(key, windowPrefix)
	if limit, _, found := strings.Cut(rest, ":"); ok && found {
		if n, err := strconv.Atoi(limit); err == nil {
			return n
		}
	}
	return 0
}

// precedes is the order in which members get slots.
func (m *Member) precedes(o *Member) bool {
	if m.Priority != o.Priority {
		return m.Priority > o.Priority
	}
	return m.Execution < o.Execution
}

// memorySlots are the slots of executions that one process runs.
type memorySlots struct {
	mu   sync.Mutex
	keys map[string]*slotKey
}

// slotKey is the state of a concurrency key.
type slotKey struct {
	members map[int64]*candidate
	held    int            // slots
	waiting admissionQueue // members that were refused a slot
}

// NewSlots makes slots in memory: for one process, or for several conductors in it.
func NewSlots() Slots { return &memorySlots{keys: map[string]*slotKey{}} }

// Enter implements Slots.
func (s *memorySlots) Enter(m Member, _ func([]Member)) (others []Member, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[m.Key]
	if k == nil {
		k = &slotKey{members: map[int64]*candidate{}}
		s.keys[m.Key] = k
	}
	if m.Conflicts {
		for _, x := range k.members {
			others = append(others, x.Member)
		}
		slices.SortFunc(others, func(a, b Member) int { return cmp.Compare(a.Execution, b.Execution) })
	}
	if x := k.members[m.Execution]; x != nil {
		x.Owner = m.Owner
		return others, true
	}
	k.members[m.Execution] = &candidate{Member: m}
	if m.Holds {
		k.held++
	}
	return others, true
}

// Take implements Slots. A free slot goes to the first of those that wait, even before it takes once more.
func (s *memorySlots) Take(m Member, again func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[m.Key]
	if k == nil || k.members[m.Execution] == nil {
		return false
	}
	x := k.members[m.Execution]
	x.again = again
	if x.Holds {
		return true
	}
	if first := k.first(); x.Limit <= k.held || first != nil && first.precedes(&x.Member) && first.Limit > k.held {
		if x.queue == nil {
			heap.Push(&k.waiting, x)
		}
		x.called = false
		k.call()
		return false
	}
	x.Holds = true
	k.held++
	if x.queue != nil {
		heap.Remove(x.queue, x.pos)
	}
	k.call()
	return true
}

// Leave implements Slots.
func (s *memorySlots) Leave(m Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[m.Key]
	if k == nil || k.members[m.Execution] == nil || k.members[m.Execution].Owner != m.Owner {
		return
	}
	x := k.members[m.Execution]
	if x.Holds {
		k.held--
	}
	if x.queue != nil {
		heap.Remove(x.queue, x.pos)
	}
	if delete(k.members, m.Execution); len(k.members) == 0 {
		delete(s.keys, m.Key)
	}
	k.call()
}

// Holders implements Slots.
func (s *memorySlots) Holders(_ context.Context, key string) (n int, oldest string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[key]
	if k == nil {
		return 0, "", nil
	}
	var first *candidate
	for _, x := range k.members {
		if x.Holds && (first == nil || x.Execution < first.Execution) {
			first = x
		}
	}
	if first != nil {
		oldest = first.ID
	}
	return k.held, oldest, nil
}

// first is the next member to get a slot.
func (k *slotKey) first() *candidate {
	if len(k.waiting.list) == 0 {
		return nil
	}
	return k.waiting.list[0]
}

// call tells the first member that waits of a free slot, once.
func (k *slotKey) call() {
	if x := k.first(); x != nil && !x.called && x.Limit > k.held {
		x.called = true
		x.again()
	}
}
