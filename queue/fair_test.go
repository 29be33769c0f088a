package queue

import (
	"context"
	"testing"

	"pgregory.net/rapid"
)

// The queue against its description: within one execution and priority the order of Push, higher
// priorities first, nothing lost, and no execution served twice while another of its priority that was
// there all the time waits for more than a round.
func TestMemoryOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Memory
		waiting := map[[2]int64][]int32{} // by priority and run
		next := int32(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if rapid.IntRange(0, 2).Draw(t, "push") > 0 {
				m := Message{Run: rapid.Int64Range(1, 4).Draw(t, "run"), Priority: rapid.IntRange(0, 30).Draw(t, "priority"), Idx: next}
				next++
				if err := q.Push(context.Background(), []Message{m}); err != nil {
					t.Fatal(err)
				}
				key := [2]int64{int64(m.Priority), m.Run}
				waiting[key] = append(waiting[key], m.Idx)
				continue
			}
			if q.Len() == 0 {
				continue
			}
			l, _ := q.next()
			key := [2]int64{int64(l.Priority), l.Run}
			for other := range waiting {
				if other[0] > key[0] {
					t.Fatalf("priority %d before %d", key[0], other[0])
				}
			}
			if list := waiting[key]; len(list) == 0 || list[0] != l.Idx {
				t.Fatalf("message %d, want the first of %v", l.Idx, list)
			}
			if waiting[key] = waiting[key][1:]; len(waiting[key]) == 0 {
				delete(waiting, key)
			}
			if rapid.IntRange(0, 9).Draw(t, "give back") == 0 { // as giveUp does
				q.putBack(l)
				waiting[key] = append([]int32{l.Idx}, waiting[key]...)
			}
		}
		left := 0
		for _, list := range waiting {
			left += len(list)
		}
		if q.Len() != left {
			t.Fatalf("%d messages, want %d", q.Len(), left)
		}
	})
}

// A hundred thousand priorities leave no hundred thousand levels.
func TestMemoryForgetsPriorities(t *testing.T) {
	var q Memory
	for i := range 100_000 {
		if err := q.Push(t.Context(), []Message{{Run: 1, Priority: i}}); err != nil {
			t.Fatal(err)
		}
		q.next()
	}
	if n := len(q.main.list); n > maxLevels {
		t.Errorf("%d levels are kept", n)
	}
}

// Sixteen small executions behind a large one each wait for one round at most.
func TestMemoryRoundRobin(t *testing.T) {
	var q Memory
	push := func(run int64, n int) {
		t.Helper()
		if err := q.Push(t.Context(), func() (list []Message) {
			for i := range n {
				list = append(list, Message{Run: run, Idx: int32(i)})
			}
			return list
		}()); err != nil {
			t.Fatal(err)
		}
	}
	push(1, 10_000)
	for run := int64(2); run < 18; run++ {
		push(run, 1)
	}
	seen := map[int64]bool{}
	for range 17 {
		l, _ := q.next()
		seen[l.Run] = true
	}
	if len(seen) != 17 {
		t.Errorf("only %d executions had a turn in the first round", len(seen))
	}
}
