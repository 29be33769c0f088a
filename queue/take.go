package queue

import (
	"slices"
	"time"
)

// Take is PullInto without waiting, of the messages that ok accepts: for consumers that cannot deal with all. It passes
// over the others, which keep their order. Its cost grows with the messages that it passes over. ok is called under the
// queue's lock and must not use the queue.
func (q *Memory) Take(into []Lease, most int, ok func(*Message) bool) []Lease {
	q.mu.Lock()
	defer q.mu.Unlock()
	for range most {
		n, at := q.find(ok)
		if n == nil || q.closed {
			break
		}
		q.token++
		l := Lease{Message: at.from.remove(at), Token: q.token}
		if l.Away {
			q.away--
		} else {
			q.size--
		}
		if q.out != nil {
			q.spend(n, &l)
		}
		into = append(into, l)
	}
	return into
}

// find is choose for the messages that ok accepts: the queue, and the place of the message in it.
func (q *Memory) find(ok func(*Message) bool) (best *lane, at position) {
	lanes := q.lanes
	if len(lanes) == 0 {
		lanes = []*lane{&q.main}
	}
	now, next := time.Now(), q.turn
	for i := range lanes {
		turn := (q.turn + i) % len(lanes)
		n := lanes[turn]
		if n.size+n.away.size == 0 || n.full() || n.pause(now) > 0 {
			continue
		}
		for _, s := range []*levels{&n.levels, &n.away} {
			if p, there := s.search(ok); there && (best == nil || p.priority > at.priority) {
				best, at, next = n, p, turn+1
			}
		}
	}
	q.turn = next
	return best, at
}

// position is the place of a message in levels.
type position struct {
	from                *levels
	priority            int
	level, run, message int
}

// search finds the message to serve next of those that ok accepts.
func (s *levels) search(ok func(*Message) bool) (position, bool) {
	for i, l := range s.list {
		for k := range l.ring {
			run := (l.turn + k) % len(l.ring)
			b := l.ring[run]
			for m := b.head; m < len(b.list); m++ {
				if ok(&b.list[m]) {
					return position{s, l.priority, i, run, m}, true
				}
			}
		}
	}
	return position{}, false
}

// remove takes the message at a position.
func (s *levels) remove(p position) Message {
	l := s.list[p.level]
	b := l.ring[p.run]
	if p.message == b.head {
		l.turn = p.run
		return s.popFrom(p.level)
	}
	s.size--
	m := b.list[p.message]
	b.list = slices.Delete(b.list, p.message, p.message+1)
	l.turn = p.run + 1
	return m
}
