package conductor

import (
	"context"
	"sync"
	"time"

	"github.com/stepwell/stepwell/store"
)

// How many log lines are kept for the next write, and how long at most.
const (
	lineBatch = 1000
	lineDelay = 100 * time.Millisecond
	maxQueued = 100_000
)

// lines collects the steps' log lines between writes.
type lines struct {
	mu      sync.Mutex
	list    []store.LogLine
	flush   sync.Mutex
	dropped int
}

// Line adds a line to a step's log. It is durable within a fraction of a second, and at the latest
// when its execution is reported as ended.
func (c *Conductor) Line(line store.LogLine) {
	l := &c.lines
	l.mu.Lock()
	if len(l.list) >= maxQueued {
		l.dropped++
		l.mu.Unlock()
		return
	}
	l.list = append(l.list, line)
	full := len(l.list) == lineBatch
	l.mu.Unlock()
	if full {
		c.flushLines()
	}
}

// flushLoop writes what has been collected, as long as ctx lasts and once more at its end.
func (c *Conductor) flushLoop(ctx context.Context) {
	tick := time.NewTicker(lineDelay)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			c.flushLines()
			return
		case <-tick.C:
			c.flushLines()
		}
	}
}

func (c *Conductor) flushLines() {
	l := &c.lines
	l.mu.Lock()
	empty := len(l.list) == 0
	l.mu.Unlock()
	if empty {
		return
	}
	l.flush.Lock() // one writer at a time keeps the lines in order
	defer l.flush.Unlock()
	l.mu.Lock()
	list, dropped := l.list, l.dropped
	l.list, l.dropped = nil, 0
	l.mu.Unlock()
	if dropped > 0 {
		c.o.Log.Warn("log lines were dropped: the store is too slow for them", "lines", dropped)
	}
	if len(list) == 0 {
		return
	}
	if err := c.o.Store.AppendLogs(context.Background(), list); err != nil {
		c.o.Log.Error("log lines were lost", "lines", len(list), "error", err)
	}
}
