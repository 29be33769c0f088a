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
	reply chan error   // has room for one; nil: no caller waits
	size  int          // of ev, in bytes; 0: it does not count
	do    func(*item)  // instead of ev: runs in the loop and answers the item; on is the execution, if any
}

// maxSpare limits the items of an idle buffer: the memory of a burst is freed.
const maxSpare = 1 << 14

// inbox collects items while the loop is busy. Two buffers take turns: the loop owns the one that take returned until
// it calls take again.
type inbox struct {
	mu     sync.Mutex
	items  []item
	spare  []item
	ring   chan struct{} // one token: items are there
	closed error         // why nothing is taken in any more
	bytes  int           // of the items
	room   chan struct{} // closed when the items are taken, for callers waiting for room; nil: none
}

// awaitRoom waits, as long as done is open, while too much is there already for so many bytes more.
func (b *inbox) awaitRoom(size int, done <-chan struct{}) {
	for {
		b.mu.Lock()
		if b.closed != nil || b.bytes == 0 || b.bytes+size <= maxWaiting {
			b.mu.Unlock()
			return
		}
		if b.room == nil {
			b.room = make(chan struct{})
		}
		room := b.room
		b.mu.Unlock()
		select {
		case <-room:
		case <-done:
			return // the process ends
		}
	}
}

// emptied lets those go on that wait for room. The caller holds the lock.
func (b *inbox) emptied() {
	b.bytes = 0
	if b.room != nil {
		close(b.room)
		b.room = nil
	}
}

func (b *inbox) put(it item) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed != nil {
		return b.closed
	}
	b.add(it)
	return nil
}

// putEvents is put for all events at once, so that one commit has them. An event that cannot be put in is answered.
func (b *inbox) putEvents(events []RunEvent, replies chan error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed != nil {
		return b.closed
	}
	for i := range events {
		if it, err := eventItem(&events[i], replies); err != nil {
			replies <- err // has room for one of each event
		} else {
			b.add(it)
		}
	}
	return nil
}

// add adds an item. The caller holds the lock.
func (b *inbox) add(it item) {
	b.items = append(b.items, it)
	b.bytes += it.size
	if len(b.items) == 1 {
		select {
		case b.ring <- struct{}{}:
		default:
		}
	}
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
	b.emptied()
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
	b.emptied()
	return left
}
