package conductor

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// How many log lines one write takes, how long a line waits for it, and how much is kept while the
// store takes none.
const (
	lineBatch = 1000
	lineDelay = 100 * time.Millisecond
	maxLines  = 100_000
	maxBytes  = 64 << 20
	lastTries = 5 // of the last write
)

// lines collects the steps' log lines between writes.
type lines struct {
	mu      sync.Mutex
	list    []store.LogLine
	held    int // lines that are not written yet, those in unwritten included
	bytes   int // of their texts
	dropped int
	failing bool // the last write failed

	flush     sync.Mutex      // one writer at a time keeps the lines in order
	unwritten []store.LogLine // lines of a refused write; owned by the holder of flush
}

func size(l *store.LogLine) int { return len(l.Message) + len(l.Attrs) }

// Line adds a line to a step's log. It is durable within a fraction of a second, and at the latest
// when its execution is reported as ended. While the store takes no lines they are kept, up to a
// bound; beyond it they are dropped and counted.
func (c *Conductor) Line(line store.LogLine) {
	l := &c.lines
	l.mu.Lock()
	if l.held >= maxLines || l.bytes >= maxBytes {
		l.dropped++
		l.mu.Unlock()
		return
	}
	l.list = append(l.list, line)
	l.held++
	l.bytes += size(&line)
	full := len(l.list) == lineBatch && !l.failing
	l.mu.Unlock()
	if full {
		c.flushLines() // here, so that a heavy logger is slowed down
	}
}

// flushLoop writes collected lines until ctx ends, and then the rest.
func (c *Conductor) flushLoop(ctx context.Context) {
	tick := time.NewTicker(lineDelay)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			c.flushLines()
		}
	}
	for try := 1; ; try++ {
		c.flushLines()
		n := c.lines.pending()
		if n == 0 {
			return
		}
		if try == lastTries {
			c.o.Log.Error("log lines were lost: the store did not take them until the end", "lines", n)
			return
		}
		<-tick.C
	}
}

func (l *lines) pending() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// flushLines writes the lines collected until its call.
func (c *Conductor) flushLines() {
	l := &c.lines
	if l.pending() == 0 {
		return
	}
	l.flush.Lock()
	defer l.flush.Unlock()
	l.mu.Lock()
	list, dropped := l.list, l.dropped
	l.list, l.dropped = nil, 0
	l.mu.Unlock()
	if dropped > 0 {
		c.o.Log.Warn("log lines were dropped: the store is too slow for them", "lines", dropped)
	}
	if len(l.unwritten) > 0 {
		list = append(l.unwritten, list...)
	}
	l.unwritten = c.writeLines(list)
}

// writeLines writes lines in parts, so that no commit waits for long. It returns the lines to retry.
func (c *Conductor) writeLines(list []store.LogLine) []store.LogLine {
	for len(list) > 0 {
		part := list[:min(lineBatch, len(list))]
		err := c.o.Store.AppendLogs(context.Background(), part)
		again := err != nil && transient(err)
		c.settleLines(part, again, err)
		if again {
			return list
		}
		list = list[len(part):]
	}
	return nil
}

// settleLines books a write, and says when writing begins to fail.
func (c *Conductor) settleLines(part []store.LogLine, again bool, err error) {
	l := &c.lines
	l.mu.Lock()
	first := err != nil && !l.failing
	l.failing = again
	if !again {
		l.held -= len(part)
		for i := range part {
			l.bytes -= size(&part[i])
		}
	}
	l.mu.Unlock()
	switch {
	case again && first:
		c.o.Log.Warn("log lines could not be written, retrying", "lines", len(part), "error", err)
	case err != nil && !again:
		c.o.Log.Error("log lines were refused", "lines", len(part), "error", err)
	case err == nil:
		c.o.Lines(executions(part))
	}
}

// executions are the executions of these lines, each once.
func executions(part []store.LogLine) (list []int64) {
	seen := map[int64]struct{}{}
	for i := range part {
		no := part[i].Execution
		if _, ok := seen[no]; !ok && (len(list) == 0 || list[len(list)-1] != no) {
			seen[no] = struct{}{}
			list = append(list, no)
		}
	}
	return list
}

// transient reports whether the same call to the store may succeed another time. An error without
// a code may be anything, so also that.
func transient(err error) bool {
	coded, ok := errors.AsType[*stepwell.Error](err)
	return !ok || coded.Code == stepwell.CodeUnavailable || coded.Code == stepwell.CodeTimeout
}
