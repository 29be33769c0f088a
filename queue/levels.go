package queue

import "slices"

// maxLevels is how many priorities are remembered while they have no messages.
const maxLevels = 16

// levels are the messages of a queue, by descending priority.
type levels struct {
	list []*level
	size int
}

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

func (s *levels) add(m Message) {
	s.size++
	s.level(m.Priority).add(m)
}

func (s *levels) putBack(m Message) {
	s.size++
	s.level(m.Priority).putBack(m)
}

// first is the priority to serve next. size is above zero.
func (s *levels) first() int {
	for i, l := range s.list {
		if len(l.ring) > 0 {
			return i
		}
	}
	panic("queue: size and content disagree")
}

// pop takes the next message. size is above zero.
func (s *levels) pop() Message {
	return s.popFrom(s.first())
}

// popFrom takes the next message of a priority that has one.
func (s *levels) popFrom(i int) Message {
	l := s.list[i]
	s.size--
	m := l.pop()
	if len(l.ring) == 0 && len(s.list) > maxLevels {
		s.list = slices.Delete(s.list, i, i+1)
	}
	return m
}

func (s *levels) level(priority int) *level {
	at := 0
	for at < len(s.list) && s.list[at].priority >= priority {
		if s.list[at].priority == priority {
			return s.list[at]
		}
		at++
	}
	l := &level{priority: priority, byRun: map[int64]*backlog{}}
	s.list = slices.Insert(s.list, at, l)
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

// pop gives the next execution's first message; an execution without messages leaves the ring.
func (l *level) pop() Message {
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
