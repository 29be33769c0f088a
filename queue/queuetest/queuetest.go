// Package queuetest is the definition of what a queue must do: every queue.Queue passes Run.
//
// It uses nothing but the interface, so that a queue in another process is tested like the one in
// memory. Stable.
package queuetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/queue"
)

// Run runs the suite; open gives an empty queue each time.
func Run(t *testing.T, open func(t *testing.T) queue.Queue) {
	tests := []struct {
		name string
		run  func(*testing.T, queue.Queue)
	}{
		{"messages of one execution come in the order of Push", inOrder},
		{"a higher priority comes first, whenever it was pushed", byPriority},
		{"executions take turns", turns},
		{"no more messages are given than asked for", atMost},
		{"Pull waits for a message", waits},
		{"Pull ends with its context, and nothing is lost", givesUp},
		{"Pull gives nothing to who has stopped", stopped},
		{"every message reaches exactly one of many who pull", exactlyOne},
		{"an acknowledged message does not come again", acknowledged},
		{"a message comes as it was pushed, its body too", asPushed},
		{"what is pushed twice comes twice", twice},
		{"a lease that is extended is held", extended},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

func push(t *testing.T, q queue.Queue, messages ...queue.Message) {
	t.Helper()
	if err := q.Push(t.Context(), messages); err != nil {
		t.Fatal(err)
	}
}

// pull takes n messages, one call at a time.
func pull(t *testing.T, q queue.Queue, n int) (out []queue.Message) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	for len(out) < n {
		leases, err := q.Pull(ctx, 1)
		if err != nil {
			t.Fatalf("after %d of %d messages: %v", len(out), n, err)
		}
		if err := q.Ack(ctx, leases); err != nil {
			t.Fatal(err)
		}
		for _, l := range leases {
			out = append(out, l.Message)
		}
	}
	return out
}

func show(messages []queue.Message) (s string) {
	for _, m := range messages {
		s += fmt.Sprintf(" %d/%d", m.Run, m.Idx)
	}
	return s
}

func inOrder(t *testing.T, q queue.Queue) {
	for i := range int32(3000) {
		push(t, q, queue.Message{Run: 1, Idx: i, Epoch: 7})
	}
	for i, m := range pull(t, q, 3000) {
		if m.Idx != int32(i) || m.Run != 1 || m.Epoch != 7 {
			t.Fatalf("message %d is %+v", i, m)
		}
	}
}

func byPriority(t *testing.T, q queue.Queue) {
	push(t, q, queue.Message{Run: 1, Idx: 1}, queue.Message{Run: 1, Idx: 2, Priority: 5}, queue.Message{Run: 2, Idx: 3, Priority: -1}, queue.Message{Run: 2, Idx: 4, Priority: 5})
	if got := show(pull(t, q, 4)); got != " 1/2 2/4 1/1 2/3" {
		t.Errorf("order%s", got)
	}
}

func turns(t *testing.T, q queue.Queue) {
	large := make([]queue.Message, 1000)
	for i := range large {
		large[i] = queue.Message{Run: 1, Idx: int32(i)}
	}
	push(t, q, large...)
	push(t, q, queue.Message{Run: 2, Idx: 0}, queue.Message{Run: 2, Idx: 1})
	for i, m := range pull(t, q, 8) {
		if m.Run == 2 && m.Idx == 1 {
			return
		}
		_ = i
	}
	t.Error("the small execution had to wait for the large one")
}

func atMost(t *testing.T, q queue.Queue) {
	push(t, q, make([]queue.Message, 10)...)
	leases, err := q.Pull(t.Context(), 4)
	if err != nil || len(leases) == 0 || len(leases) > 4 {
		t.Errorf("%d messages, error %v", len(leases), err)
	}
	leases, err = q.Pull(t.Context(), 100)
	if err != nil || len(leases) == 0 || len(leases) > 6 {
		t.Errorf("%d messages, error %v", len(leases), err)
	}
}

func waits(t *testing.T, q queue.Queue) {
	got := make(chan queue.Message)
	go func() {
		leases, err := q.Pull(t.Context(), 5)
		if err != nil || len(leases) != 1 {
			t.Errorf("%d messages, error %v", len(leases), err)
			close(got)
			return
		}
		got <- leases[0].Message
	}()
	push(t, q, queue.Message{Run: 3, Idx: 9})
	if m := <-got; m.Run != 3 || m.Idx != 9 {
		t.Errorf("got %+v", m)
	}
}

func givesUp(t *testing.T, q queue.Queue) {
	for i := range int32(200) {
		ctx, stop := context.WithCancel(t.Context())
		var late []queue.Lease
		ended := make(chan error)
		go func() {
			var err error
			late, err = q.Pull(ctx, 1)
			ended <- err
		}()
		go stop()
		push(t, q, queue.Message{Run: 1, Idx: i})
		err := <-ended
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err == nil {
			if len(late) != 1 || late[0].Idx != i {
				t.Fatalf("pulled %v", late)
			}
			continue
		}
		if m := pull(t, q, 1); m[0].Idx != i {
			t.Fatalf("message %d was lost, got %d", i, m[0].Idx)
		}
	}
}

func stopped(t *testing.T, q queue.Queue) {
	push(t, q, queue.Message{Run: 1, Idx: 1})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if leases, err := q.Pull(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("pulled %v, error %v", leases, err)
	}
	if m := pull(t, q, 1); m[0].Idx != 1 {
		t.Errorf("pulled %v", m)
	}
}

func exactlyOne(t *testing.T, q queue.Queue) {
	const n, pullers = 5000, 8
	seen := make([]int, n)
	var mu sync.Mutex
	left := n
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range pullers {
		group.Go(func() {
			for {
				leases, err := q.Pull(ctx, 3)
				if err != nil {
					return
				}
				mu.Lock()
				for _, l := range leases {
					seen[l.Idx]++
					left--
				}
				done := left == 0
				mu.Unlock()
				if err := q.Ack(context.WithoutCancel(ctx), leases); err != nil {
					t.Error(err)
				}
				if done {
					stop()
				}
			}
		})
	}
	for i := range int32(n) {
		push(t, q, queue.Message{Run: int64(i % 7), Idx: i, Priority: int(i % 3)})
	}
	group.Wait()
	stop()
	for i, times := range seen {
		if times != 1 {
			t.Fatalf("message %d came %d times", i, times)
		}
	}
}

func acknowledged(t *testing.T, q queue.Queue) {
	push(t, q, queue.Message{Run: 1, Idx: 1})
	pull(t, q, 1)
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if leases, err := q.Pull(ctx, 1); err == nil {
		t.Errorf("came again: %v", leases)
	}
}

func asPushed(t *testing.T, q queue.Queue) {
	body := &struct{ n int }{7}
	list := []queue.Message{{Run: 1 << 40, Idx: 5, Epoch: 6, Priority: -2, Queue: "some", Body: body}}
	want := list[0]
	push(t, q, list...)
	list[0] = queue.Message{}
	if got := pull(t, q, 1)[0]; got != want {
		t.Errorf("pushed %+v, pulled %+v", want, got)
	}
}

func twice(t *testing.T, q queue.Queue) {
	push(t, q, queue.Message{Run: 1, Idx: 1, Epoch: 3})
	push(t, q, queue.Message{Run: 1, Idx: 1, Epoch: 3})
	if got := show(pull(t, q, 2)); got != " 1/1 1/1" {
		t.Errorf("pulled%s", got)
	}
}

func extended(t *testing.T, q queue.Queue) {
	push(t, q, make([]queue.Message, 3)...)
	var leases []queue.Lease
	for len(leases) < 3 {
		more, err := q.Pull(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, more...)
	}
	if gone, err := q.Extend(t.Context(), leases); err != nil || len(gone) != 0 {
		t.Errorf("gone are %v, error %v", gone, err)
	}
	for range 2 {
		if err := q.Ack(t.Context(), leases); err != nil {
			t.Error(err)
		}
	}
}
