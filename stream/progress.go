package stream

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell/action"
)

// counts are the items of one step so far.
type counts struct {
	in, out, failed, dropped, skipped atomic.Int64
	made                              atomic.Int64 // by a source, before any check
	total                             atomic.Int64 // that a source expects
	room                              atomic.Int64 // for items that wait in front of it
	load
}

// tally returns a step's reported counts.
func (n *node) tally() action.Counts {
	c := &n.counts
	t := action.Counts{In: c.in.Load(), Out: max(c.out.Load(), 0), Failed: c.failed.Load(), Dropped: c.dropped.Load(), Skipped: c.skipped.Load(), Total: n.expected(), Busy: n.counts.busy.Load() / int64(time.Millisecond)}
	if n.root != nil && len(n.inputs) == 0 {
		t.In = c.made.Load()
	}
	return t
}

// expected is how many items will come to a step, 0 when that is not known.
func (n *node) expected() int64 {
	var total int64
	for _, r := range n.roots {
		t := r.node.counts.total.Load()
		if t <= 0 {
			return 0
		}
		total += t
	}
	return total
}

// behind is how many items the sources before a step have given, and how many have failed on the way or at it.
func (n *node) behind() (read, failed int64) {
	for _, r := range n.roots {
		read += r.node.counts.made.Load() + r.node.counts.skipped.Load()
	}
	seen := map[*node]bool{}
	var visit func(*node)
	visit = func(n *node) {
		if seen[n] {
			return
		}
		seen[n] = true
		failed += n.counts.failed.Load()
		for _, in := range n.inputs {
			visit(in)
		}
	}
	visit(n)
	return read, failed
}

// reached is how many items had come to a step when the stream was cut off: those that are behind the sources' watermarks, without
// those that failed before the step. Items that were dropped on the way are among them.
func (n *node) reached() (items int64) {
	for _, r := range n.roots {
		items += r.watermark.Read
	}
	seen := map[*node]bool{}
	var visit func(*node)
	visit = func(n *node) {
		for _, in := range n.inputs {
			if !seen[in] {
				seen[in] = true
				items -= in.counts.failed.Load()
				visit(in)
			}
		}
	}
	visit(n)
	return max(items, 0)
}

// before is how many items had come to a step in earlier attempts of its execution: those that it had reached, and those behind
// the watermarks that are left out because this execution has done them.
func (n *node) before() int64 {
	items := n.resumed
	if n.root == nil && n.own {
		for _, r := range n.roots {
			items += r.node.counts.skipped.Load() - r.node.resumed
		}
	}
	return items
}

const reportEvery = 200 * time.Millisecond

// watch reports the steps' progress, about five times a second while it changes, until the context is done.
func (s *segment) watch(ctx context.Context) {
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	told, last := make([]action.Counts, len(s.graph.nodes)), time.Now()
	for turn := 0; ; turn++ {
		select {
		case <-ticker.C:
			now := time.Now()
			s.sample(now.Sub(last))
			last = now
			s.reportCounts(told, turn%busyEvery == 0)
		case <-ctx.Done():
			s.reportCounts(told, true)
			return
		}
	}
}

// reportCounts reports the counts that have changed since they were told; busy: how long a step worked is a change.
func (s *segment) reportCounts(told []action.Counts, busy bool) {
	for i, n := range s.graph.nodes {
		now := n.tally()
		now.Room = n.counts.room.Load()
		before := told[i]
		if !busy {
			before.Busy = now.Busy
		}
		if now == before {
			continue
		}
		told[i] = now
		n.host.Count(now)
		if now.Total > 0 {
			done := now.In
			if n.root != nil {
				done += now.Skipped
			}
			n.host.Progress(min(float64(done)/float64(now.Total), 1), "")
		}
	}
}
