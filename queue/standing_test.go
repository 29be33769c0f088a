package queue_test

import (
	"fmt"
	"testing"

	"github.com/stepwell/stepwell/queue"
)

// The oldest of those that are still wanted is found in each queue, over executions and priorities, and among those that are not pulled.
func TestStandingsOldest(t *testing.T) {
	q := &queue.Memory{}
	q.Limit("narrow", queue.Limits{Concurrency: 1})
	list := []queue.Message{{Run: 1, Idx: 1, Since: 30}, {Run: 1, Idx: 2, Since: 31}, {Run: 2, Idx: 1, Since: 20, Priority: -3}, {Run: 3, Idx: 1, Since: 10}, {Run: 3, Idx: 2, Since: 25, Away: true}, {Run: 4},
		{Run: 5, Idx: 7, Queue: "narrow", Since: 40}, {Run: 6, Queue: "narrow"}}
	if err := q.Push(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	oldest := func(look queue.Look) (s string) {
		for _, one := range q.Standings(look) {
			s += " " + one.Name
			if m := one.Oldest; m != nil {
				s += fmt.Sprintf(" %d/%d", m.Run, m.Idx)
			}
		}
		return s
	}
	not := func(runs ...int64) func(*queue.Message) bool {
		return func(m *queue.Message) bool {
			for _, run := range runs {
				if m.Run == run {
					return false
				}
			}
			return true
		}
	}
	for _, one := range []struct {
		look queue.Look
		want string
	}{
		{queue.Look{}, " default narrow"},
		{queue.Look{Oldest: true}, " default 3/1 narrow 5/7"},
		{queue.Look{Oldest: true, Waits: func(m *queue.Message) bool { return m.Since != 10 }}, " default 2/1 narrow 5/7"},
		{queue.Look{Oldest: true, Waits: func(m *queue.Message) bool { return m.Since > 20 }}, " default 3/2 narrow 5/7"},
		{queue.Look{Oldest: true, Waits: not(2, 3, 5)}, " default 1/1 narrow"},
		{queue.Look{Oldest: true, Waits: func(m *queue.Message) bool { return m.Since == 31 }}, " default 1/2 narrow"},
	} {
		if got := oldest(one.look); got != one.want {
			t.Errorf("oldest are%s, want%s", got, one.want)
		}
	}
}

// The first holders of a queue with a limit are told; their end, and a lease from before, change them.
func TestStandingsHolders(t *testing.T) {
	q := &queue.Memory{}
	q.Limit("narrow", queue.Limits{Concurrency: 50})
	q.Hold("narrow", "from before")
	var list []queue.Message
	for i := range 100 {
		list = append(list, queue.Message{Queue: "narrow", Body: i}, queue.Message{Body: i})
	}
	if err := q.Push(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	leases, err := q.Pull(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	holders := func(most int) (s string) {
		for _, one := range q.Standings(queue.Look{Holders: most}) {
			s += fmt.Sprint(one.Name, " ", one.Out, ":")
			for _, h := range one.Holders {
				s += fmt.Sprint(" ", h.Body)
			}
			s += "; "
		}
		return s
	}
	if got, want := holders(4), "default 100:; narrow 50: from before 0 1 2; "; got != want {
		t.Errorf("holders are %s, want %s", got, want)
	}
	for _, l := range leases {
		if l.Queue == "narrow" && l.Body != 7 {
			if err := q.Ack(t.Context(), []queue.Lease{l}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, want := holders(100), "default 100:; narrow 2: from before 7; "; got != want {
		t.Errorf("then holders are %s, want %s", got, want)
	}
	if got, want := holders(0), "default 100:; narrow 2:; "; got != want {
		t.Errorf("none asked for: %s", got)
	}
}
