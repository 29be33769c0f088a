package conductor

import (
	"context"
	"fmt"
	"sync"
)

// numberBlock is how many numbers of executions the store is asked for at once.
const numberBlock = 1024

// numbers are the blocks of numbers that this process may give to executions. The next block is fetched while the last half
// of this one is used, so that a start waits for the store only when it is the first, or when starts outrun it.
type numbers struct {
	mu        sync.Mutex
	next, end int64         // of the block in use
	spare     int64         // the first number of the block after it; 0: there is none yet
	fetched   chan struct{} // closed when the store has answered; nil: it is not being asked
	err       error         // of the last answer
	fetching  sync.WaitGroup
}

// takeNumber gives the number of a new execution.
func (c *Conductor) takeNumber(ctx context.Context) (int64, error) {
	n := &c.numbers
	for {
		n.mu.Lock()
		if n.next == n.end && n.spare > 0 {
			n.next, n.end, n.spare = n.spare, n.spare+numberBlock, 0
		}
		if n.spare == 0 && n.fetched == nil && n.end-n.next <= numberBlock/2 && !c.Stopped() {
			n.fetched = make(chan struct{})
			n.fetching.Go(c.fetchNumbers)
		}
		no, fetched := n.next, n.fetched
		if no < n.end {
			n.next++
			n.mu.Unlock()
			return no, nil
		}
		n.mu.Unlock()
		select {
		case <-fetched:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-c.stop:
			return 0, c.stopped()
		}
		n.mu.Lock()
		err := n.err
		n.mu.Unlock()
		if err != nil {
			return 0, fmt.Errorf("number of the execution: %w", err)
		}
	}
}

// drop gives up the numbers that were fetched.
func (n *numbers) drop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.next, n.end, n.spare = 0, 0, 0
}

func (c *Conductor) fetchNumbers() {
	first, err := c.o.Store.Numbers(context.Background(), numberBlock)
	n := &c.numbers
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err = err; err == nil {
		n.spare = first
	}
	close(n.fetched)
	n.fetched = nil
}
