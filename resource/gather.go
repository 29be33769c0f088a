package resource

import (
	"context"
	"time"
)

// Gather stores what changes often a second later at most: a process that is killed loses the changes of its last second.
type Gather struct{ ring chan struct{} }

// gatherPause is how long changes are gathered before they are stored.
const gatherPause = time.Second

// NewGather begins with nothing to store.
func NewGather() Gather { return Gather{make(chan struct{}, 1)} }

// Changed says that there is something to store. It does not wait.
func (g Gather) Changed() {
	select {
	case g.ring <- struct{}{}:
	default:
	}
}

// Run calls store after changes until ctx ends, and then once more; it returns the error of that last call. A store that fails is
// called again after a pause.
func (g Gather) Run(ctx context.Context, store func(context.Context) error) error {
	for {
		select {
		case <-ctx.Done():
			return store(context.WithoutCancel(ctx))
		case <-g.ring:
		}
		timer := time.NewTimer(gatherPause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		if err := store(context.WithoutCancel(ctx)); err != nil && ctx.Err() == nil {
			g.Changed()
		}
	}
}
