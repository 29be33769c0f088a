package stream

import (
	"sync/atomic"
	"time"
)

// load is how much of its time a step works. Goroutines say when they begin and end a batch, and watch looks five times a
// second at how many are at it: the cost is two additions for a batch, and a step that is stuck in one counts as working.
type load struct {
	working atomic.Int32 // goroutines in the module; of a source: that wait for the steps before or behind it
	parsing atomic.Int32 // goroutines that parse the texts of a source
	busy    atomic.Int64 // nanoseconds
	reads   atomic.Bool  // of a source: it has begun and not ended
	lanes   int32        // goroutines that may be in the module, or parse, at once; 0: one
}

// busyEvery is after how many looks a step that only worked is reported.
const busyEvery = 5

// sample adds to the steps' busy times what they do now, for the time since the last look.
func (s *segment) sample(since time.Duration) {
	for _, n := range s.graph.nodes {
		l := &n.counts.load
		lanes := float64(max(l.lanes, 1))
		share := float64(l.working.Load()) / lanes
		if n.root != nil {
			if share = 0; l.reads.Load() && l.working.Load() == 0 {
				share = 1
			}
			share = max(share, float64(l.parsing.Load())/lanes)
		}
		l.busy.Add(int64(min(max(share, 0), 1) * float64(since)))
	}
}
