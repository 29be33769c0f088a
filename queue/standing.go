package queue

import (
	"slices"
	"strings"
	"time"
)

// Standing is how a queue is.
type Standing struct {
	Name string
	Limits
	Out     int // leases
	Waiting int // messages
	// Pause is how long its rate lets it give nothing; 0: it may.
	Pause time.Duration
}

// Full reports whether as many leases are out as may be.
func (s *Standing) Full() bool { return s.Concurrency != 0 && s.Out >= s.Concurrency }

// Standings are how the queues with limits are, and DefaultQueue, which stands for all others; in order of their names. Leases of
// DefaultQueue are counted only where some queue has limits.
func (q *Memory) Standings() []Standing {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lanes) == 0 {
		return []Standing{{Name: DefaultQueue, Waiting: q.main.size + q.main.away.size}}
	}
	now := time.Now()
	var out []Standing
	for name, n := range q.byName {
		out = append(out, Standing{Name: name, Limits: n.limits, Out: n.out, Waiting: n.size + n.away.size, Pause: n.pause(now)})
	}
	slices.SortFunc(out, func(a, b Standing) int { return strings.Compare(a.Name, b.Name) })
	return out
}
