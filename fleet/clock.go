package fleet

import (
	"sync"
	"time"
)

// clock is the store's clock as estimated here: never ahead of it by more than the two clocks drift apart between two beats.
type clock struct {
	local func() time.Time

	mu   sync.Mutex
	base time.Time // the store's
	at   time.Time // this machine's, when base had come
	last time.Time
}

// set takes a time of the store's clock that has just come.
func (c *clock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.at = now, c.local()
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.base.Add(c.local().Sub(c.at)); t.After(c.last) {
		c.last = t
	}
	return c.last
}
