package queuetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/queue"
)

// Limited is a queue with limits.
type Limited interface {
	queue.Queue
	Limit(name string, l queue.Limits)
}

// RunLimits runs the suite for queues with limits; open gives an empty queue each time, in a synctest
// bubble, so that it must live in the process.
func RunLimits(t *testing.T, open func(t *testing.T) Limited) {
	tests := []struct {
		name string
		run  func(*testing.T, Limited)
	}{
		{"no more leases are out than may be, and an acknowledgement frees", concurrency},
		{"acknowledging twice frees once", freesOnce},
		{"one that is full holds no other up", holdsNobodyUp},
		{"queues of equal priority take turns", queuesTakeTurns},
		{"a higher priority comes first, in whichever queue", priorityOverQueues},
		{"names that are not set up share the default's limits", unknownNames},
		{"the rate is kept, and a burst is what it says", rate},
		{"what is given back counts as not given", givenBack},
		{"limits change while messages wait", limitsChange},
		{"under load limits hold and everything comes", underLoad},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test.run(t, open(t)) })
		})
	}
}

// some pushes n messages to a queue.
func some(t *testing.T, q queue.Queue, name string, run int64, n int) {
	t.Helper()
	list := make([]queue.Message, n)
	for i := range list {
		list[i] = queue.Message{Run: run, Idx: int32(i), Queue: name}
	}
	push(t, q, list...)
}

// grab pulls all that there is now.
func grab(t *testing.T, q queue.Queue) (out []queue.Lease) {
	t.Helper()
	for {
		ctx, stop := context.WithTimeout(t.Context(), time.Nanosecond)
		leases, err := q.Pull(ctx, 10)
		stop()
		if err != nil {
			return out
		}
		out = append(out, leases...)
	}
}

func ack(t *testing.T, q queue.Queue, leases ...queue.Lease) {
	t.Helper()
	if err := q.Ack(t.Context(), leases); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, got []queue.Lease, want int) []queue.Lease {
	t.Helper()
	if len(got) != want {
		t.Fatalf("%d leases, want %d", len(got), want)
	}
	return got
}

func concurrency(t *testing.T, q Limited) {
	q.Limit("gpu", queue.Limits{Concurrency: 2})
	some(t, q, "gpu", 1, 5)
	first := count(t, grab(t, q), 2)
	ack(t, q, first[0])
	second := count(t, grab(t, q), 1)
	ack(t, q, first[1], second[0])
	ack(t, q, count(t, grab(t, q), 2)...)
	count(t, grab(t, q), 0)
}

func freesOnce(t *testing.T, q Limited) {
	q.Limit("gpu", queue.Limits{Concurrency: 1})
	some(t, q, "gpu", 1, 5)
	first := count(t, grab(t, q), 1)
	ack(t, q, first...)
	count(t, grab(t, q), 1)
	ack(t, q, first...)
	count(t, grab(t, q), 0)
}

func holdsNobodyUp(t *testing.T, q Limited) {
	q.Limit("gpu", queue.Limits{Concurrency: 1})
	some(t, q, "gpu", 1, 100)
	some(t, q, "", 1, 10)
	some(t, q, "cpu", 2, 10)
	count(t, grab(t, q), 21)
}

func queuesTakeTurns(t *testing.T, q Limited) {
	q.Limit("a", queue.Limits{Concurrency: 1000})
	some(t, q, "a", 1, 100)
	some(t, q, "", 2, 100)
	seen := map[string]int{}
	for range 20 {
		leases, err := q.Pull(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		seen[leases[0].Queue]++
	}
	if seen["a"] != 10 || seen[""] != 10 {
		t.Errorf("given %v", seen)
	}
}

func priorityOverQueues(t *testing.T, q Limited) {
	q.Limit("a", queue.Limits{Concurrency: 10})
	push(t, q, queue.Message{Run: 1, Idx: 1, Queue: "a"}, queue.Message{Run: 1, Idx: 2, Priority: 3}, queue.Message{Run: 1, Idx: 3, Priority: 5, Queue: "a"},
		queue.Message{Run: 1, Idx: 4, Priority: 4})
	if got := show(pull(t, q, 4)); got != " 1/3 1/4 1/2 1/1" {
		t.Errorf("order%s", got)
	}
}

func unknownNames(t *testing.T, q Limited) {
	q.Limit(queue.DefaultQueue, queue.Limits{Concurrency: 2})
	some(t, q, "", 1, 2)
	some(t, q, "x", 1, 2)
	some(t, q, queue.DefaultQueue, 1, 2)
	for left := 6; left > 0; left -= 2 {
		ack(t, q, count(t, grab(t, q), 2)...)
	}
}

func rate(t *testing.T, q Limited) {
	q.Limit("api", queue.Limits{Rate: 10, Burst: 3})
	some(t, q, "api", 1, 13)
	ack(t, q, count(t, grab(t, q), 3)...)
	began := time.Now()
	for range 10 {
		leases, err := q.Pull(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		ack(t, q, leases...)
	}
	if took := time.Since(began); took < 999*time.Millisecond || took > 1001*time.Millisecond {
		t.Errorf("ten messages at ten per second took %v", took)
	}
	time.Sleep(time.Minute) // of the bubble
	some(t, q, "api", 1, 10)
	count(t, grab(t, q), 3)
}

// givenBack has pullers give up at the moment when messages come.
func givenBack(t *testing.T, q Limited) {
	q.Limit("gpu", queue.Limits{Concurrency: 1, Rate: 1000, Burst: 100})
	for i := range int32(200) {
		ctx, stop := context.WithCancel(t.Context())
		got := make(chan []queue.Lease)
		go func() {
			leases, err := q.Pull(ctx, 1)
			if err != nil {
				leases = nil
			}
			got <- leases
		}()
		go stop()
		push(t, q, queue.Message{Run: 1, Idx: i, Queue: "gpu"})
		leases := <-got
		if leases == nil {
			var err error
			if leases, err = q.Pull(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		if count(t, leases, 1)[0].Idx != i {
			t.Fatalf("message %d was lost", i)
		}
		ack(t, q, leases...)
	}
}

func limitsChange(t *testing.T, q Limited) {
	q.Limit("gpu", queue.Limits{Concurrency: 1})
	some(t, q, "gpu", 1, 10)
	some(t, q, "late", 1, 2)
	held := count(t, grab(t, q), 3)
	woken := make(chan error)
	go func() {
		_, err := q.Pull(t.Context(), 1)
		woken <- err
	}()
	synctest.Wait()
	q.Limit("gpu", queue.Limits{Concurrency: 3})
	if err := <-woken; err != nil {
		t.Fatal(err)
	}
	count(t, grab(t, q), 1)
	q.Limit("gpu", queue.Limits{})
	count(t, grab(t, q), 7)
	q.Limit("late", queue.Limits{Concurrency: 1}) // whose messages were given when it had none
	ack(t, q, held...)
	some(t, q, "late", 1, 2)
	count(t, grab(t, q), 1)
	q.Limit("paced", queue.Limits{Rate: 1, Burst: 2, Concurrency: 5})
	some(t, q, "paced", 1, 5)
	count(t, grab(t, q), 2)
	q.Limit("paced", queue.Limits{Rate: 1, Burst: 2, Concurrency: 6}) // gives no burst again
	count(t, grab(t, q), 0)
}

// load counts what is out of each queue.
type load struct {
	mu        sync.Mutex
	out, most map[string]int
	seen      map[string]int
}

func (l *load) add(name string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out[name] += n
	l.most[name] = max(l.most[name], l.out[name])
	if n > 0 {
		l.seen[name]++
	}
}

func underLoad(t *testing.T, q Limited) {
	limits := map[string]int{"q0": 1, "q1": 2, "q2": 5}
	for name, n := range limits {
		q.Limit(name, queue.Limits{Concurrency: n})
	}
	q.Limit("q3", queue.Limits{Rate: 100, Burst: 1})
	l := &load{out: map[string]int{}, most: map[string]int{}, seen: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 12 {
		group.Go(func() {
			for {
				leases, err := q.Pull(ctx, 1)
				if err != nil {
					return
				}
				l.add(leases[0].Queue, 1)
				time.Sleep(time.Duration(1+leases[0].Idx%7) * time.Millisecond) // of the bubble
				l.add(leases[0].Queue, -1)
				if err := q.Ack(context.WithoutCancel(ctx), leases); err != nil {
					t.Error(err)
				}
			}
		})
	}
	began := time.Now()
	for i := range 2000 {
		push(t, q, queue.Message{Run: int64(i % 5), Idx: int32(i), Queue: fmt.Sprintf("q%d", i%5), Priority: i % 3})
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	stop()
	group.Wait()
	for i := range 5 {
		name := fmt.Sprintf("q%d", i)
		if l.seen[name] != 400 {
			t.Errorf("%d messages of %s came within %v, want 400", l.seen[name], name, time.Since(began))
		}
		if n := limits[name]; n > 0 && l.most[name] != n {
			t.Errorf("%d of %s were out at once, want %d", l.most[name], name, n)
		}
	}
}
