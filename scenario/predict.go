package scenario

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/stepwell/stepwell/definition"
)

// A recorded execution took as long as it took; of the changed one only the simulation knows. What the simulation of the execution as it
// was leaves out is commits, dispatches, and the times in which its process was away or its workers had other work. Of that the changed
// execution gets its share: it loses with what it loses of duration, and grows with nothing.

// predicted is how long an execution takes that was simulated, from how long it took as it was and what its simulation said then.
func predicted(recorded, was, is time.Duration) time.Duration {
	rest := recorded - was
	if recorded <= 0 || was <= 0 {
		return is
	}
	if is < was {
		rest = time.Duration(float64(rest) * float64(is) / float64(was))
	}
	return max(is+rest, 0)
}

// atOnce is how many attempts of the recorded execution ran at the same time: at least so many workers there were.
func (r *Recording) atOnce() (most int) {
	type edge struct {
		at time.Time
		by int
	}
	around := r.around()
	edges := make([]edge, 0, 2*len(r.Steps))
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Action == "" || s.Waited || around[s.Key] || s.Started.IsZero() || !s.Ended.After(s.Started) {
			continue
		}
		edges = append(edges, edge{s.Started, 1}, edge{s.Ended, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.by, b.by)) })
	n := 0
	for _, e := range edges {
		n += e.by
		most = max(most, n)
	}
	return most
}

// waited is how long attempts waited for a worker, together: of each step its last one.
func (p *Played) waited() (sum time.Duration) {
	for _, s := range p.Steps {
		if s.Queued > 0 && s.Started > s.Queued {
			sum += time.Duration(s.Started-s.Queued) * time.Microsecond
		}
	}
	return sum
}

func (r *Recording) waited() (sum time.Duration) {
	for i := range r.Steps {
		if s := &r.Steps[i]; !s.Queued.IsZero() && s.Started.After(s.Queued) {
			sum += s.Started.Sub(s.Queued)
		}
	}
	return sum
}

// seat is an execution that may have to wait for a slot of its concurrency key.
type seat struct {
	key      string
	priority int
	order    int // of creation, among those of its key
	created  time.Time
	lasts    time.Duration
	queued   time.Duration // before it started
	refused  bool          // none was free, and it does not wait
}

// seated gives executions slots of their keys, as a server does: to those that wait by priority and then in the order of their creation.
// Executions that are not in the list take none.
func seated(list []*seat, limit *definition.Concurrency) {
	byKey := map[string][]*seat{}
	for _, s := range list {
		s.queued, s.refused = 0, false
		if limit != nil && s.key != "" {
			byKey[s.key] = append(byKey[s.key], s)
		}
	}
	for _, of := range byKey {
		slices.SortStableFunc(of, func(a, b *seat) int { return a.created.Compare(b.created) })
		assign(of, max(limit.Limit, 1), limit.OnConflict == "skip")
	}
}

// assign gives the executions of one key, in order of creation, its slots.
func assign(of []*seat, limit int, skips bool) {
	var waiting seats  // by precedence
	var taken released // by when they are free again
	take := func(s *seat, at time.Time) {
		s.queued = at.Sub(s.created)
		heap.Push(&taken, at.Add(s.lasts))
	}
	for i, s := range of {
		for s.order = i; len(waiting) > 0 && !taken[0].After(s.created); {
			take(heap.Pop(&waiting).(*seat), heap.Pop(&taken).(time.Time))
		}
		for len(taken) > 0 && len(waiting) == 0 && !taken[0].After(s.created) {
			heap.Pop(&taken)
		}
		switch {
		case len(taken) < limit:
			take(s, s.created)
		case skips:
			s.refused = true
		default:
			heap.Push(&waiting, s)
		}
	}
	for len(waiting) > 0 {
		take(heap.Pop(&waiting).(*seat), heap.Pop(&taken).(time.Time))
	}
}

// seats are a heap of those that wait.
type seats []*seat

func (s seats) Len() int      { return len(s) }
func (s seats) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s seats) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(s[j].priority, s[i].priority), cmp.Compare(s[i].order, s[j].order)) < 0
}

// Push implements heap.Interface.
func (s *seats) Push(x any) { *s = append(*s, x.(*seat)) }

// Pop implements heap.Interface.
func (s *seats) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// released is a heap of the times at which slots are free again.
type released []time.Time

func (r released) Len() int           { return len(r) }
func (r released) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r released) Less(i, j int) bool { return r[i].Before(r[j]) }

// Push implements heap.Interface.
func (r *released) Push(x any) { *r = append(*r, x.(time.Time)) }

// Pop implements heap.Interface.
func (r *released) Pop() any {
	last := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return last
}
