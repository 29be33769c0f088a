package conductor

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/stepwell/stepwell"
)

// Idle is what Turn returns when nothing is due ever, unless somebody asks for something.
const Idle = time.Duration(math.MaxInt64)

// Turn does what Run does until nothing is left to do, for a conductor that is Stepped. It returns after how long the next timer is due,
// or Idle. After an error the conductor decides nothing more: what was not committed has not happened.
func (c *Conductor) Turn(ctx context.Context) (idle time.Duration, err error) {
	c.stepping.Lock()
	defer c.stepping.Unlock()
	if c.Stopped() {
		return Idle, c.stopped()
	}
	c.ctx = ctx
	for {
		worked, err := c.work(ctx)
		if err != nil {
			c.shut(err)
			return Idle, err
		}
		if !worked {
			break
		}
	}
	c.flushLines()
	return c.next(), nil
}

// End ends a conductor that is Stepped, in order: what was asked for is done, and log lines are stored. It decides nothing more then.
func (c *Conductor) End(ctx context.Context) error {
	c.stepping.Lock()
	defer c.stepping.Unlock()
	if c.Stopped() {
		return c.stopped()
	}
	c.ctx = ctx
	err := c.turns(ctx, c.inbox.close(errStopped), nil)
	c.flushLines()
	c.shut(err)
	return err
}

// next is how long until the loop has work by itself.
func (c *Conductor) next() time.Duration {
	at, now := int64(math.MaxInt64), c.now()
	if len(c.timers.list) > 0 {
		at = c.timers.list[0].At
	}
	if c.repush > 0 {
		at = min(at, c.repush)
	}
	if len(c.waiters.again) > 0 {
		at = min(at, c.waiters.retry)
	}
	if at == math.MaxInt64 {
		return Idle
	}
	return time.Duration(max(0, at-now)) * time.Microsecond
}

// errNoAnswer is the error of a call that would wait for ever.
var errNoAnswer = errors.New("conductor: nothing that is due answers the call")

// turnUntil makes turns until there are as many replies as the channel has room for.
func (c *Conductor) turnUntil(ctx context.Context, replies chan error) error {
	for len(replies) < cap(replies) {
		before := len(replies)
		if _, err := c.Turn(ctx); err != nil && len(replies) < cap(replies) {
			return err
		}
		if len(replies) == before {
			return errNoAnswer
		}
	}
	return nil
}

// newID is the default of Options.NewID.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", stepwell.Errorf(stepwell.CodeInternal, "", "id of an execution: %v", err)
	}
	return id.String(), nil
}
