package queue_test

import (
	"fmt"
	"testing"

	"github.com/stepwell/stepwell/queue"
)

// A consumer that cannot deal with all messages gets those that it can, in the order of any other; the rest stays in order.
func TestTakeSome(t *testing.T) {
	q := &queue.Memory{}
	q.Limit("narrow", queue.Limits{Concurrency: 1})
	var list []queue.Message
	for i := range int32(6) {
		list = append(list, queue.Message{Run: 1, Idx: i}, queue.Message{Run: 2, Idx: i, Priority: int(i % 2)})
	}
	list = append(list, queue.Message{Run: 3, Idx: 2, Queue: "narrow"}, queue.Message{Run: 3, Idx: 4, Queue: "narrow"})
	if err := q.Push(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	even := func(m *queue.Message) bool { return m.Idx%2 == 0 && m.Idx > 0 }
	show := func(leases []queue.Lease) (s string) {
		for _, l := range leases {
			s += fmt.Sprintf(" %d/%d", l.Run, l.Idx)
		}
		return s
	}
	first := q.Take(nil, 2, even)
	rest := q.Take(nil, 100, even)
	if n := len(first) + len(rest); n != 5 {
		t.Errorf("took%s and%s: the narrow queue gives one of two", show(first), show(rest))
	}
	if err := q.Ack(t.Context(), append(first, rest...)); err != nil {
		t.Fatal(err)
	}
	if got := show(q.Take(nil, 100, even)); got != " 3/4" {
		t.Errorf("then took%s", got)
	}
	var left string
	for q.Len() > 0 {
		l, err := q.Pull(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		left += show(l)
	}
	if left != " 2/1 2/3 2/5 1/0 2/0 1/1 1/3 1/5" && left != " 2/1 2/3 2/5 2/0 1/0 1/1 1/3 1/5" {
		t.Errorf("left are%s", left)
	}
	if got := q.Take(nil, 1, even); got != nil {
		t.Errorf("an empty queue gave%s", show(got))
	}
}

// What is away is taken and never pulled, and counts for its queue's limits like the rest.
func TestAway(t *testing.T) {
	q := &queue.Memory{}
	q.Limit("narrow", queue.Limits{Concurrency: 1})
	if err := q.Push(t.Context(), []queue.Message{{Run: 1, Idx: 1, Away: true}, {Run: 1, Idx: 2}, {Run: 1, Idx: 3, Priority: 1, Queue: "narrow", Away: true}, {Run: 1, Idx: 4, Queue: "narrow"}}); err != nil {
		t.Fatal(err)
	}
	all := func(*queue.Message) bool { return true }
	first := q.Take(nil, 1, all)
	if len(first) != 1 || first[0].Idx != 3 {
		t.Fatalf("the one of higher priority is taken first, not %+v", first)
	}
	pulled, err := q.Pull(t.Context(), 10)
	if err != nil || len(pulled) != 1 || pulled[0].Idx != 2 {
		t.Fatalf("pulled %+v, %v: the narrow queue is full, and what is unavailable is not pulled", pulled, err)
	}
	if err := q.Ack(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	pulled, err = q.Pull(t.Context(), 10)
	if err != nil || len(pulled) != 1 || pulled[0].Idx != 4 {
		t.Fatalf("pulled %+v, %v", pulled, err)
	}
	if rest := q.Take(nil, 10, all); len(rest) != 1 || rest[0].Idx != 1 || q.Len() != 0 {
		t.Errorf("taken %+v, %d left", rest, q.Len())
	}
}
