// Package queue is the volatile half of Stepwell: it carries dispatched steps to workers. It is a
// hint, never the truth: a queue may lose everything at any moment, and the store rebuilds it.
//
// Memory is the reference and the embedded queue; package queuetest is the definition of what a
// queue must do (specification: pipeline-steps, "Redis Queue Integration").
package queue

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Message says that a step may run. It is small: a worker claims the rest from the conductor.
type Message struct {
	Run      int64  // number of the execution
	Idx      int32  // of the step in it
	Epoch    uint32 // a message of another epoch than the step's is stale
	Priority int    // higher first
	// Body is the task itself when sender and receiver share a process; it is not sent over wires.
	Body any
}

// Queue hands messages to whoever pulls first. Within one execution and priority the order is that
// of Push; executions of equal priority take turns, so that a small one is not stuck behind a
// large one. Delivery is at least once: a message that is pulled and neither acknowledged nor
// extended within the lease comes again.
type Queue interface {
	// Push adds messages.
	Push(ctx context.Context, messages []Message) error
	// Pull waits for messages and gives at most max (at least one) of them under a lease. Its error
	// is the context's, or ErrClosed; with an ended context it gives nothing, whatever there is.
	Pull(ctx context.Context, max int) ([]Lease, error)
	// Extend renews leases; the result names those that are held no longer.
	Extend(ctx context.Context, leases []Lease) (gone []Lease, err error)
	// Ack ends leases: the messages have been dealt with.
	Ack(ctx context.Context, leases []Lease) error
}

// Lease is a message in a worker's hands.
type Lease struct {
	Message
	Token uint64
	Until time.Time // zero: as long as the process lives
}

// ErrClosed is the error of a queue that has been closed.
const ErrClosed = closedError("queue is closed")

type closedError string

func (e closedError) Error() string { return string(e) }

// Memory is a queue within the process. Its leases last as long as the process, because so does
// everything else in it. The zero value is ready.
type Memory struct {
	mu      sync.Mutex
	levels  []*level // by descending priority
	waiting []chan Lease
	size    int
	token   uint64
	closed  bool
}

// maxLevels is how many priorities are remembered while they have no messages.
const maxLevels = 16

// level is one priority: a ring of executions, each with its messages in order.
type level struct {
	priority int
	byRun    map[int64]*backlog
	ring     []*backlog
	turn     int
}

type backlog struct {
	run  int64
	list []Message
	head int
}

// Push implements Queue.
func (q *Memory) Push(_ context.Context, messages []Message) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	for _, m := range messages {
		q.level(m.Priority).add(m)
	}
	q.size += len(messages)
	for len(q.waiting) > 0 && q.size > 0 {
		last := len(q.waiting) - 1
		ch := q.waiting[last]
		q.waiting = q.waiting[:last]
		ch <- q.next() // has room for one
	}
	return nil
}

// Pull implements Queue.
func (q *Memory) Pull(ctx context.Context, most int) ([]Lease, error) {
	return q.PullInto(ctx, nil, most)
}

// PullInto is Pull into memory that the caller keeps.
func (q *Memory) PullInto(ctx context.Context, into []Lease, most int) ([]Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // who has stopped gets nothing, however much there is
	}
	most = max(1, most)
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil, ErrClosed
	}
	if q.size > 0 {
		for range min(most, q.size) {
			into = append(into, q.next())
		}
		q.mu.Unlock()
		return into, nil
	}
	ch := make(chan Lease, 1)
	q.waiting = append(q.waiting, ch)
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
	for i, w := range q.waiting {
		if w == ch {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			return nil, ctx.Err()
		}
	}
	if l, ok := <-ch; ok {
		if len(q.waiting) > 0 {
			last := len(q.waiting) - 1
			q.waiting[last] <- l
			q.waiting = q.waiting[:last]
		} else {
			q.level(l.Priority).putBack(l.Message)
			q.size++
		}
	}
	return nil, ctx.Err()
}

// Extend implements Queue.
func (q *Memory) Extend(context.Context, []Lease) ([]Lease, error) { return nil, nil }

// Ack implements Queue.
func (q *Memory) Ack(context.Context, []Lease) error { return nil }

// Len is how many messages wait.
func (q *Memory) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.size
}

// Close wakes all who wait; nothing can be pushed or pulled any more.
func (q *Memory) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, ch := range q.waiting {
		close(ch)
	}
	q.waiting = nil
}

// next takes the message whose turn it is. The caller holds the lock and size is above zero.
func (q *Memory) next() Lease {
	for i, l := range q.levels {
		if len(l.ring) > 0 {
			q.size--
			q.token++
			lease := Lease{Message: l.take(), Token: q.token}
			if len(l.ring) == 0 && len(q.levels) > maxLevels {
				q.levels = slices.Delete(q.levels, i, i+1)
			}
			return lease
		}
	}
	panic("queue: size and content disagree")
}

func (q *Memory) level(priority int) *level {
	at := 0
	for at < len(q.levels) && q.levels[at].priority >= priority {
		if q.levels[at].priority == priority {
			return q.levels[at]
		}
		at++
	}
	l := &level{priority: priority, byRun: map[int64]*backlog{}}
	q.levels = append(q.levels, nil)
	copy(q.levels[at+1:], q.levels[at:])
	q.levels[at] = l
	return l
}

func (l *level) add(m Message) {
	b := l.byRun[m.Run]
	if b == nil {
		b = &backlog{run: m.Run}
		l.byRun[m.Run] = b
		l.ring = append(l.ring, b)
	}
	b.list = append(b.list, m)
}

func (l *level) putBack(m Message) {
	b := l.byRun[m.Run]
	switch {
	case b == nil:
		l.add(m)
	case b.head == 0:
		b.list = slices.Insert(b.list, 0, m)
	default:
		b.head--
		b.list[b.head] = m
	}
}

// take gives the next execution's first message; an execution without messages leaves the ring.
func (l *level) take() Message {
	if l.turn >= len(l.ring) {
		l.turn = 0
	}
	b := l.ring[l.turn]
	m := b.list[b.head]
	b.list[b.head] = Message{}
	b.head++
	if b.head == len(b.list) {
		last := len(l.ring) - 1
		l.ring[l.turn] = l.ring[last]
		l.ring[last] = nil
		l.ring = l.ring[:last]
		delete(l.byRun, b.run)
		return m
	}
	if b.head > 1024 && b.head*2 > len(b.list) {
		b.list = slices.Delete(b.list, 0, b.head)
		b.head = 0
	}
	l.turn++
	return m
}
