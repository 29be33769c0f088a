package conductor_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
)

// farSlots answers later, from goroutines of its own, as slots in a database do.
type farSlots struct {
	conductor.Slots
	mu    sync.Mutex
	holds map[int64]bool
}

func (f *farSlots) Enter(m conductor.Member, tell func([]conductor.Member)) ([]conductor.Member, bool) {
	go func() {
		others, _ := f.Slots.Enter(m, nil)
		tell(others)
	}()
	return nil, false
}

func (f *farSlots) Take(m conductor.Member, again func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.holds[m.Execution] {
		go f.take(m, again)
	}
	return f.holds[m.Execution]
}

func (f *farSlots) take(m conductor.Member, again func()) {
	if f.Slots.Take(m, func() { go f.take(m, again) }) {
		f.mu.Lock()
		f.holds[m.Execution] = true
		f.mu.Unlock()
		again()
	}
}

// Two processes share the slots of a key, and neither loop waits for an answer: the limit holds over both, a skipped start names
// the execution of the other process, and a newer one there cancels one here by a request.
func TestSlotsOfTwoProcesses(t *testing.T) {
	slots := &farSlots{Slots: conductor.NewSlots(), holds: map[int64]bool{}}
	db := filepath.Join(t.TempDir(), "two.db")
	process := func(owner int64, g *gate) *rig {
		return newRig(t, build{db: db, shared: true, actions: actions(g), set: func(o *conductor.Options) { o.Owner, o.Slots = owner, slots }})
	}
	gates := []*gate{newGate(), newGate()}
	one, two := process(1, gates[0]), process(2, gates[1])

	first := one.start(gated(t, one, byKey), 0, nil)
	<-gates[0].begun
	low, high := two.start(gated(t, two, byKey), 0, nil), two.start(gated(t, two, byKey), 5, nil)
	two.status(low, stepwell.ExecutionPending)
	two.status(high, stepwell.ExecutionPending)
	want := "waits for execution " + first + ": the concurrency key \"k\" has 1 of at most 1"
	two.until("both wait for the key", func() bool {
		why, err := two.Why(t.Context(), high, "")
		return err == nil && why[len(why)-1].Code == "held_by_concurrency" && why[len(why)-1].Message == want
	})
	_, err := two.Start(t.Context(), conductor.Request{Pipeline: gated(t, two, strings.Replace(byKey, "}}\"", "}}\", on_conflict: skip", 1))})
	if stepwell.CodeOf(err) != stepwell.CodeConflict || !strings.Contains(err.Error(), first) {
		t.Fatalf("a start that is skipped: %v", err)
	}
	gates[0].open <- struct{}{}
	one.end(first, stepwell.ExecutionCompleted)
	began := (<-gates[1].begun).Execution
	if next := letGo(gates[1]); began == next || began != high && began != low {
		t.Fatalf("%s began, then %s; want %s and %s", began, next, high, low)
	}
	gates[1].open <- struct{}{}
	two.end(low, stepwell.ExecutionCompleted)
	two.end(high, stepwell.ExecutionCompleted)

	older := one.start(gated(t, one, byKey), 0, nil)
	<-gates[0].begun
	newer := two.start(gated(t, two, strings.Replace(byKey, "}}\"", "}}\", on_conflict: cancel_running", 1)), 0, nil)
	one.until("the request to cancel", func() bool {
		one.TakeRequests(t.Context())
		x, err := one.store.Execution(t.Context(), older)
		return err == nil && x.Status == stepwell.ExecutionCancelled && strings.Contains(x.Failure.Message, newer)
	})
	if began := (<-gates[1].begun).Execution; began != newer {
		t.Errorf("%s began, want %s", began, newer)
	}
	gates[1].open <- struct{}{}
	two.end(newer, stepwell.ExecutionCompleted)
	one.counts(0, 0)
	two.counts(0, 0)
	if n, oldest, err := slots.Holders(t.Context(), "k"); n != 0 || oldest != "" || err != nil {
		t.Errorf("%d slots are held, first by %q, error %v", n, oldest, err)
	}
}

// A freed slot goes to the first member that waits, also when another asks before it: by priority, then by number. Each is called
// once.
func TestSlotOrder(t *testing.T) {
	s := conductor.NewSlots()
	var called []int64
	m := func(no int64, priority int) conductor.Member {
		return conductor.Member{Key: "k", Limit: 1, Execution: no, ID: fmt.Sprint("x", no), Priority: priority, Owner: 1}
	}
	enter := func(x conductor.Member) conductor.Member { s.Enter(x, nil); return x }
	take := func(x conductor.Member) bool { return s.Take(x, func() { called = append(called, x.Execution) }) }
	first, low, high, late := enter(m(1, 0)), enter(m(2, 0)), enter(m(3, 9)), enter(m(4, 0))
	if got, again := take(first), take(first); !got || !again || take(low) || take(high) {
		t.Fatal("one slot was given to several, or to none")
	}
	stolen := first
	stolen.Owner = 2
	enter(stolen)
	s.Leave(first) // the process that has lost it
	if take(low) || len(called) != 0 {
		t.Fatal("the slot was freed by a process that does not run its execution any more")
	}
	s.Leave(stolen)
	s.Leave(stolen)
	if take(late) || take(low) || !take(high) {
		t.Error("a slot was not given to the first that waits")
	}
	s.Leave(low)
	s.Leave(high)
	if fmt.Sprint(called) != "[3 4]" || !take(late) {
		t.Errorf("called %v, want 3, then 4", called)
	}
	again := m(9, 0)
	again.Holds, again.Conflicts = true, true
	others, known := s.Enter(again, nil)
	if n, oldest, _ := s.Holders(t.Context(), "k"); !known || len(others) != 1 || others[0].ID != "x4" || n != 2 || oldest != "x4" {
		t.Errorf("others %v, %d slots, the first of %s", others, n, oldest)
	}
	if s.Take(m(7, 0), nil) {
		t.Error("a slot was given to no member")
	}
}
