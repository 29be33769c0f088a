package conductor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// Retries of a refused commit before the conductor gives up, unless Options.Patience is longer. Giving up loses
// nothing: an uncommitted decision has not happened.
const (
	commitTries    = 6
	commitPause    = 100 * time.Millisecond
	maxCommitPause = 2 * time.Second
	minPatience    = 3 * time.Second // about the duration of commitTries
)

// commit makes the batch durable. While the store is away (a full disk, a lock) it retries and nothing else is
// decided. The end of ctx ends the retries, not the commit. Executions whose commits the store refuses are evicted,
// and the others are committed without them.
func (c *Conductor) commit(ctx context.Context) error {
	end := func() {}
	defer func() { end() }()
	begun, pause, last, tries := time.Now(), commitPause, false, 0
	for len(c.commits) > 0 {
		err := c.o.Store.Commit(context.Background(), c.commits)
		if err == nil {
			return nil
		}
		if refused, ok := errors.AsType[*store.RefusedError](err); ok {
			if tries > 0 && c.committed() {
				return nil
			}
			if !c.evict(refused) {
				return err
			}
			continue
		}
		if tries++; last || !transient(err) || tries >= commitTries && (!store.IsAway(err) || c.impatient(begun)) {
			return fmt.Errorf("%d executions stop here and can be resumed: %w", len(c.commits), err)
		}
		if tries == 1 {
			end = c.o.Outage.Begin(err)
		}
		c.o.Log.Warn("commit failed, retrying; executions are stopped meanwhile", "error", err, "hint", stepwell.HintOf(err), "try", tries, "pause", pause)
		last = !c.o.Outage.Pause(ctx, pause)
		pause = min(2*pause, maxCommitPause)
	}
	return nil
}

// impatient reports whether the store has been away for longer than is to be waited.
func (c *Conductor) impatient(since time.Time) bool { return time.Since(since) >= c.o.Patience }

// hold waits while the store is away for others, such as a worker whose outputs the blobs refuse. It returns when the
// store is back or ctx ends, and with an error when the patience is over.
func (c *Conductor) hold(ctx context.Context) error {
	over, since := c.o.Outage.Over()
	if over == nil {
		return nil
	}
	err := c.o.Outage.Err()
	c.o.Log.Warn("executions are stopped, because the store is unavailable", "error", err, "hint", stepwell.HintOf(err))
	limit := time.NewTimer(max(c.o.Patience, minPatience) - time.Since(since))
	defer limit.Stop()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return nil
	case <-limit.C:
		return fmt.Errorf("the executions stop here and can be resumed: %w", err)
	}
}

// Stalled is the reason that nothing is decided: the store is away and is being retried. CodeUnavailable; nil when
// all is well.
func (c *Conductor) Stalled() error { return c.o.Outage.Err() }

// putBlob stores a large value in the loop, which waits for the blobs as commit does for the database.
func (c *Conductor) putBlob(value []byte) (ref string, err error) {
	ctx, stop := context.WithTimeout(c.ctx, max(c.o.Patience, minPatience))
	defer stop()
	err = c.o.Outage.Retry(ctx, func() (err error) {
		ref, err = c.o.Blobs.Put(context.Background(), value)
		return err
	})
	if errors.Is(err, store.ErrAway) && c.ctx.Err() == nil {
		c.failed = fmt.Errorf("the executions stop here and can be resumed: %w", err)
	}
	return ref, err
}

// committed reports whether the store holds this very batch although it reported a failure.
func (c *Conductor) committed() bool {
	for i := range c.commits {
		x, same := &c.commits[i], false
		for entry, err := range c.o.Store.StepLog(context.Background(), x.Execution, x.Version-1) {
			same = err == nil && entry.Version == x.Version && bytes.Equal(entry.Body, x.Log)
			break
		}
		if !same {
			return false
		}
	}
	return true
}

// evict unloads the executions whose commits the store refuses and answers their callers: nothing of this turn has
// happened to them. It reports whether there was one.
func (c *Conductor) evict(refused *store.RefusedError) (any bool) {
	for i := range refused.Refusals {
		r := &refused.Refusals[i]
		l := c.runs[r.Execution]
		if l == nil {
			continue
		}
		any = true
		if l.refused = r; !l.create {
			l.refused = &stepwell.Error{Code: stepwell.CodeConflict, Message: "execution " + l.run.ID, Err: fmt.Errorf("%w: %w", errGone, r),
				Hint: "another process runs it: ask there, or stop that process, then resume"}
			c.o.Log.Error("an execution is let go", "execution", l.run.ID, "error", r)
		}
		for _, reply := range l.replies {
			reply <- l.refused
		}
		c.commits = slices.DeleteFunc(c.commits, func(x store.Commit) bool { return x.Execution == r.Execution })
		c.touched = slices.DeleteFunc(c.touched, func(x *live) bool { return x == l })
		c.forget(l)
	}
	return any
}
