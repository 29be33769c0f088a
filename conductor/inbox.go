package conductor

import (
	"runtime"
	"sync"

	"github.com/stepwell/stepwell/engine"
)

// item is one thing for the loop to take in.
type item struct {
	run   int64
	ev    engine.Event
	adopt *live      // an execution that is new in memory
	reply chan error // nil: nobody waits
}

// inbox collects items while the loop is busy. Two buffers take turns: the one that take returned
// is the loop's until it calls take again.
type inbox struct {
	mu     sync.Mutex
	items  []item
	spare  []item
	ring   chan struct{} // one token: something is there
	closed bool
}

func (b *inbox) put(it item) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return errStopped
	}
	b.items = append(b.items, it)
	first := len(b.items) == 1
	b.mu.Unlock()
	if first {
		select {
		case b.ring <- struct{}{}:
		default:
		}
	}
	return nil
}

func (b *inbox) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.items)
}

// settle gives others the chance to add to a batch that is growing; it never waits for a timer.
// Without it, group commit falls into two half-size groups that alternate.
func (b *inbox) settle() {
	for n, tries := b.len(), 0; n > 0 && tries < 3; tries++ {
		runtime.Gosched()
		m := b.len()
		if m == n {
			return
		}
		n = m
	}
}

// take swaps the buffers. Nothing is swapped when nothing is there, so that a spurious wake-up
// cannot hand out the buffer that is being filled.
func (b *inbox) take() []item {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.items) == 0 {
		return nil
	}
	full := b.items
	clear(b.spare)
	b.items, b.spare = b.spare[:0], full
	return full
}

// close refuses further items and returns those left.
func (b *inbox) close() []item {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	left := b.items
	b.items = nil
	return left
}
