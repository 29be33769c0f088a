package fleet_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/fleet"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

const keyed = "name: keyed\nsettings: {concurrency: {key: k, limit: 2}}\nsteps:\n  - {id: a, action: t.count, params: {n: 1}}\n  - {id: b, action: t.count, depends_on: [a], params: {n: 2}}\n"

// slotted is a usual member whose concurrency keys are shared with other nodes.
func slotted(t *testing.T, actions ...action.Action) parts {
	return parts{lease: 2 * time.Second, beat: 100 * time.Millisecond, actions: actions, set: func(m *member, o *conductor.Options) {
		slots := fleet.NewSlots(t.Context(), m.node, m.store)
		go slots.Run()
		o.Slots = slots
	}}
}

// The limit of a concurrency key holds over all nodes, also while one of them leaves and others take its executions over; no slot is
// lost.
func TestSlotsOfManyNodes(t *testing.T) {
	url := database(t)
	var running, most atomic.Int64
	count := handler("t.count", func(ctx context.Context, c *action.Call) (any, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for {
			if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
				break
			}
		}
		select {
		case <-time.After(5 * time.Millisecond):
			return map[string]any{"v": c.Params["n"]}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	members := []*member{join(t, url, slotted(t, count)), join(t, url, slotted(t, count)), join(t, url, slotted(t, count))}
	const each = 15
	for range each {
		for _, m := range members {
			m.begin(t, keyed)
		}
	}
	if err := members[0].stop(); err != nil {
		t.Fatal(err)
	}
	ended(t, members[1].store)
	noSeats(t, members[1].store)
	if n := most.Load(); n != 2 {
		t.Errorf("%d ran at once, want 2", n)
	}
	checkBooks(t, url, 3*each, map[string]string{"a": `{"v":1}`, "b": `{"v":2}`})
}

func noSeats(t *testing.T, s store.Seats) {
	t.Helper()
	until(t, "the end of all seats", func() bool {
		list, err := s.Seated(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		return len(list) == 0
	})
}

// A start that is skipped names the execution of another node, and one that takes the place of an execution there cancels it.
func TestSlotConflictsOfTwoNodes(t *testing.T) {
	url := database(t)
	g := newGate()
	a, b := join(t, url, slotted(t, g.action())), join(t, url, slotted(t, g.action()))
	with := func(conflict string) string {
		return strings.Replace(gated, "steps:", "settings: {concurrency: {key: k, limit: 1, on_conflict: "+conflict+"}}\nsteps:", 1)
	}
	first := a.begin(t, with("queue"))
	<-g.begun
	_, err := b.start(t.Context(), with("skip"))
	if stepwell.CodeOf(err) != stepwell.CodeConflict || !strings.Contains(err.Error(), first) {
		t.Fatalf("a start that is skipped: %v", err)
	}
	newer := b.begin(t, with("cancel_running"))
	until(t, "the request to cancel", func() bool {
		a.TakeRequests(t.Context())
		x, err := a.store.Execution(t.Context(), first)
		return err == nil && x.Status == stepwell.ExecutionCancelled
	})
	if began := <-g.begun; began != newer {
		t.Errorf("%s began, want %s", began, newer)
	}
	close(g.open)
	b.ended(t, newer, stepwell.ExecutionCompleted)
	noSeats(t, a.store)
}

// While a node is late, others may end its memberships. It takes them up again, so that no execution waits for ever.
func TestSlotsAreComparedWithTheStore(t *testing.T) {
	url := database(t)
	g := newGate()
	a := join(t, url, slotted(t, g.action()))
	text := strings.Replace(gated, "steps:", "settings: {concurrency: {key: k, limit: 1}}\nsteps:", 1)
	first := a.begin(t, text)
	<-g.begun
	second := a.begin(t, text)
	until(t, "both to be members", func() bool {
		list, err := a.store.Seated(t.Context(), "k")
		return err == nil && len(list) == 2
	})
	if err := postgrestest.Exec(url, `DELETE FROM seat; DELETE FROM seat_key; INSERT INTO seat_key VALUES ('lost');
INSERT INTO seat SELECT 'lost', 99, 'x', no, 0, 1, true, false FROM node`); err != nil {
		t.Fatal(err)
	}
	until(t, "what is lost to go, and what is missing to come", func() bool {
		list, err := a.store.Seated(t.Context(), "k")
		lost, err2 := a.store.Seated(t.Context(), "lost")
		return err == nil && err2 == nil && len(list) == 2 && list[0].Sitting && !list[1].Sitting && len(lost) == 0
	})
	close(g.open)
	a.ended(t, first, stepwell.ExecutionCompleted)
	a.ended(t, second, stepwell.ExecutionCompleted)
	noSeats(t, a.store)
}

// A node that was late lets go of what others have taken over meanwhile, without a commit that would tell it.
func TestLateNodeLetsGo(t *testing.T) {
	url := database(t)
	g := newGate()
	p := slotted(t, g.action())
	a, b := join(t, url, p), join(t, url, p)
	id := a.begin(t, gated)
	<-g.begun
	if err := postgrestest.Exec(url, fmt.Sprintf(`UPDATE execution_live SET owner = %d; UPDATE node SET until = now() - interval '1 second' WHERE no = %d`, b.node.No(), a.node.No())); err != nil {
		t.Fatal(err)
	}
	until(t, "the late node to let go", func() bool { return len(a.Active()) == 0 })
	close(g.open)
	b.ended(t, id, stepwell.ExecutionCompleted) // b finds that it owns one that it does not have
}
