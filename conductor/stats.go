package conductor

import "sync/atomic"

// Stats are how many executions a conductor has.
type Stats struct {
	Active  int // in memory
	Pending int // of them held until there is room
	Running int // of them admitted and not ended, paused ones included
}

// tallies are read by Stats while the loop goes on.
type tallies struct{ pending, running atomic.Int64 }

// tally notes the loop's counts.
func (c *Conductor) tally() {
	c.tallies.pending.Store(int64(c.admission.waiting))
	c.tallies.running.Store(int64(c.admission.running))
}

// Stats counts the executions in memory.
func (c *Conductor) Stats() Stats {
	c.mu.Lock()
	active := len(c.byID)
	c.mu.Unlock()
	return Stats{Active: active, Pending: int(c.tallies.pending.Load()), Running: int(c.tallies.running.Load())}
}
