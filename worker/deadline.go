package worker

import (
	"context"
	"time"

	"github.com/stepwell/stepwell/action"
)

// attemptContext is a context with a timeout that can also be cancelled with a cause: two contexts of the standard library
// in one, because each step has one. When its time has passed, its cause is errDeadline.
type attemptContext struct {
	context.Context
	until time.Time // by this machine's clock, as every deadline of a context
	meter action.Meter
}

func newAttemptContext(parent context.Context, timeout time.Duration) (*attemptContext, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	return &attemptContext{Context: ctx, until: time.Now().Add(timeout)}, cancel
}

// Deadline is the earlier of the attempt's and the process's.
func (c *attemptContext) Deadline() (time.Time, bool) {
	if t, ok := c.Context.Deadline(); ok && t.Before(c.until) {
		return t, true
	}
	return c.until, true
}

// Value gives the attempt's meter too.
func (c *attemptContext) Value(key any) any {
	if key == any(action.MeterKey{}) {
		return &c.meter
	}
	return c.Context.Value(key)
}

// Err tells a timeout from a cancellation.
func (c *attemptContext) Err() error {
	err := c.Context.Err()
	if err != nil && context.Cause(c.Context) == errDeadline {
		return context.DeadlineExceeded
	}
	return err
}
