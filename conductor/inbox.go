package conductor

import (
	"runtime"
	"sync"

	"github.com/stepwell/stepwell/engine"
)

// item is one thing for the loop to take in.
type item struct {
	run   int64
	ev    engine.Event // of kind 0: nothing but having the execution taken up
	on    *live        // the execution itself, which the loop takes up if it does not have it; nil for reports
	reply chan error   // has room for one; nil: nobody waits
	do    func(*item)  // instead of ev: what the loop is to do, on an execution that it has (on) or without one; it answers
}

// maxSpare is how many items an idle buffer may hold: what a burst needed is given back.
const maxSpare = 1 << 14

// inbox collects items while the loop is busy. Two buffers take turns: the one that take returned
// is the loop's until it calls take again.
type inbox struct {
	mu     sync.Mutex
	items  []item
	spare  []item
	ring   chan struct{} // one token: something is there
	closed error         // why nothing is taken in any more
}

func (b *inbox) put(it item) error {
	b.mu.Lock()
	if err := b.closed; err != nil {
		b.mu.Unlock()
		return err
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
	if cap(b.spare) > maxSpare {
		b.spare = nil
	}
	b.items, b.spare = b.spare[:0], full
	return full
}

// close refuses further items with why and returns those left. The first reason stays.
func (b *inbox) close(why error) []item {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed == nil {
		b.closed = why
	}
	left := b.items
	b.items = nil
	return left
}
