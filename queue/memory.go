package queue

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Memory is a queue within the process. Its leases last as long as the process, because so does
// everything else in it. The zero value is ready.
type Memory struct {
	mu      sync.Mutex
	main    lane    // of all queues without limits of their own
	lanes   []*lane // main and those with limits; empty while there are no limits at all
	byName  map[string]*lane
	out     map[uint64]given // by the tokens of leases; nil while there are no limits at all
	turn    int              // of lanes
	alarm   *time.Timer
	waiting []chan Lease
	size    int // of messages to pull
	away    int // of the others
	token   uint64
	closed  bool
}

// Push implements Queue.
func (q *Memory) Push(_ context.Context, messages []Message) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	for _, m := range messages {
		if m.Away {
			q.lane(m.Queue).away.add(m)
			q.away++
			continue
		}
		q.lane(m.Queue).add(m)
		q.size++
	}
	q.serve()
	return nil
}

// Pull implements Queue.
func (q *Memory) Pull(ctx context.Context, most int) ([]Lease, error) {
	return q.PullInto(ctx, nil, most)
}

// PullInto is Pull into memory that the caller keeps.
func (q *Memory) PullInto(ctx context.Context, into []Lease, most int) ([]Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // an ended caller gets no message
	}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil, ErrClosed
	}
	before := len(into)
	for range min(max(1, most), q.size) {
		l, ok := q.next()
		if !ok {
			break
		}
		into = append(into, l)
	}
	if len(into) > before {
		q.mu.Unlock()
		return into, nil
	}
	ch := make(chan Lease, 1)
	q.waiting = append(q.waiting, ch)
	q.serve()
	q.mu.Unlock()
	select {
	case l, ok := <-ch:
		if !ok {
			return nil, ErrClosed
		}
		return append(into, l), nil
	case <-ctx.Done():
		return q.giveUp(ctx, ch)
	}
}

// giveUp stops waiting; a message that arrived at the same moment goes back to the front.
func (q *Memory) giveUp(ctx context.Context, ch chan Lease) ([]Lease, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, ch); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		return nil, ctx.Err()
	}
	if l, ok := <-ch; ok {
		q.putBack(l)
		q.serve()
	}
	return nil, ctx.Err()
}

// putBack undoes next. The caller holds the lock.
func (q *Memory) putBack(l Lease) {
	q.lane(l.Queue).putBack(l.Message)
	q.size++
	if n := q.endLease(l.Token); n != nil && n.limits.Rate > 0 {
		n.tokens++
	}
}

// serve gives messages to waiting pulls. The caller holds the lock.
func (q *Memory) serve() {
	for len(q.waiting) > 0 && q.size > 0 {
		l, ok := q.next()
		if !ok {
			q.alarmAt(time.Now())
			return
		}
		last := len(q.waiting) - 1
		ch := q.waiting[last]
		q.waiting = q.waiting[:last]
		ch <- l // has room for one
	}
}

// Extend implements Queue.
func (q *Memory) Extend(context.Context, []Lease) ([]Lease, error) { return nil, nil }

// Ack implements Queue.
func (q *Memory) Ack(_ context.Context, leases []Lease) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.out == nil {
		return nil // no counts without limits
	}
	for i := range leases {
		q.endLease(leases[i].Token)
	}
	q.serve()
	return nil
}

// Len is how many messages wait.
func (q *Memory) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.size + q.away
}

// Close ends all waiting calls with ErrClosed, and all later ones.
func (q *Memory) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, ch := range q.waiting {
		close(ch)
	}
	q.waiting = nil
	if q.alarm != nil {
		q.alarm.Stop()
	}
}

// next takes the next message. There may be none, although size is above zero, when limits hold all messages back.
// The caller holds the lock.
func (q *Memory) next() (Lease, bool) {
	n := &q.main
	if len(q.lanes) > 0 {
		n = q.choose()
	} else if n.size == 0 {
		n = nil
	}
	if n == nil {
		return Lease{}, false
	}
	q.size--
	q.token++
	l := Lease{Message: n.pop(), Token: q.token}
	if q.out != nil {
		q.spend(n, &l)
	}
	return l, true
}
