package api

import (
	"context"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
)

// maxPlanWait is how long a caller's plan waits for the one before it.
const maxPlanWait = 10 * time.Second

// turns lets each caller have one thing going on at a time. It may be used by any goroutine.
type turns struct {
	mu   sync.Mutex
	busy map[string]chan struct{} // closed when the caller's turn ends
}

// take waits until nothing of the caller goes on; leave ends its turn. CodeLimit: that takes longer than wait.
func (t *turns) take(ctx context.Context, caller string, wait time.Duration) (leave func(), err error) {
	late := time.NewTimer(wait)
	defer late.Stop()
	for {
		t.mu.Lock()
		before := t.busy[caller]
		if before == nil {
			if t.busy == nil {
				t.busy = map[string]chan struct{}{}
			}
			mine := make(chan struct{})
			t.busy[caller] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				defer t.mu.Unlock()
				delete(t.busy, caller)
				close(mine)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-before:
		case <-late.C:
			return nil, stepwell.Errorf(stepwell.CodeLimit, "wait for its answer", "another plan of this caller is going on")
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
