package queue

import (
	"math"
	"slices"
	"time"
)

// lane is one queue with its limits, or all those without.
type lane struct {
	levels
	away   levels // of messages that are not pulled
	limits Limits
	out    int     // leases
	tokens float64 // permitted by Rate, as of filled
	filled time.Time
}

// given is what is known of a lease that is out.
type given struct {
	of   *lane
	body any // of its message
}

// Limit sets a queue's limits, or changes them. Messages of other queues go to DefaultQueue, which has no limits
// until set. A burst is given with the first limits of a queue only: this process's part of limits that several share may be set every
// second.
// Leases are counted from the first Limit on, and waiting messages stay where they are.
func (q *Memory) Limit(name string, l Limits) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lanes) == 0 {
		q.lanes, q.byName = []*lane{&q.main}, map[string]*lane{DefaultQueue: &q.main}
		q.out = map[uint64]given{}
	}
	n := q.byName[name]
	if n == nil {
		n = &lane{}
		q.byName[name] = n
		q.lanes = append(q.lanes, n)
	}
	now := time.Now()
	fresh := n.filled.IsZero()
	n.fill(now)
	if math.IsInf(l.Rate, 1) {
		l.Rate = 0
	}
	if l.Rate > 0 && l.Burst <= 0 {
		l.Burst = int(min(max(1, math.Ceil(l.Rate)), math.MaxInt32))
	}
	if n.tokens = min(n.tokens, float64(l.Burst)); fresh { // else what the rate has given so far counts
		n.tokens = float64(l.Burst)
	}
	n.limits = l
	q.serve()
}

// lane finds the queue of a message. The caller holds the lock.
func (q *Memory) lane(name string) *lane {
	if n := q.byName[name]; n != nil {
		return n
	}
	return &q.main
}

// choose finds the queue to serve next: of those within their limits the one with the highest priority; those of
// equal priority take turns.
func (q *Memory) choose() *lane {
	now := time.Now()
	best, top := -1, 0
	for i := range q.lanes {
		at := (q.turn + i) % len(q.lanes)
		n := q.lanes[at]
		if n.size == 0 || n.full() || n.pause(now) > 0 {
			continue
		}
		if p := n.list[n.first()].priority; best < 0 || p > top {
			best, top = at, p
		}
	}
	if best < 0 {
		return nil
	}
	q.turn = best + 1
	return q.lanes[best]
}

// full reports whether as many leases are out as may be.
func (n *lane) full() bool { return n.limits.Concurrency != 0 && n.out >= n.limits.Concurrency }

// Hold is a lease of a queue for a message that was given out before this queue was there, with its body. Its limits do not
// refuse it.
func (q *Memory) Hold(name string, body any) Lease {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.token++
	if q.out != nil {
		n := q.lane(name)
		q.out[q.token] = given{n, body}
		n.out++
	}
	return Lease{Message: Message{Queue: name, Body: body}, Token: q.token}
}

// Demand is how many leases of a queue that has limits are out, and how many messages wait in it.
func (q *Memory) Demand(name string) (out, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.lane(name)
	return n.out, n.size + n.away.size
}

// pause is how long the rate lets the queue give nothing.
func (n *lane) pause(now time.Time) time.Duration {
	if n.limits.Rate <= 0 {
		return 0
	}
	n.fill(now)
	if n.tokens >= 1 {
		return 0
	}
	return max(time.Microsecond, time.Duration(min((1-n.tokens)/n.limits.Rate, maxAlarm.Seconds())*float64(time.Second)))
}

func (n *lane) fill(now time.Time) {
	n.tokens = min(float64(n.limits.Burst), n.tokens+now.Sub(n.filled).Seconds()*n.limits.Rate)
	n.filled = now
}

// spend books a lease.
func (q *Memory) spend(n *lane, l *Lease) {
	q.out[l.Token] = given{n, l.Body}
	n.out++
	if n.limits.Rate > 0 {
		n.tokens--
	}
}

// endLease ends a lease, and gives the queue that it was of; nil if it has ended already.
func (q *Memory) endLease(token uint64) *lane {
	n := q.out[token].of
	if n != nil {
		delete(q.out, token)
		n.out--
	}
	return n
}

// maxAlarm is how long a queue waits for its rate without looking again.
const maxAlarm = time.Hour

// alarmAt serves waiting pulls as soon as a rate allows it. The caller holds the lock.
func (q *Memory) alarmAt(now time.Time) {
	var waits []time.Duration
	for _, n := range q.lanes {
		if n.size > 0 && !n.full() {
			waits = append(waits, n.pause(now))
		}
	}
	if len(waits) == 0 || q.closed {
		return // Ack serves
	}
	first := slices.Min(waits)
	if q.alarm == nil {
		q.alarm = time.AfterFunc(first, q.ring)
		return
	}
	q.alarm.Reset(first)
}

// ring is the alarm.
func (q *Memory) ring() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.serve()
}
