package conductor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// How often, and after what pauses, a commit that the store refuses is tried again before the conductor gives
// up, unless Options.Patience is longer. Nothing is lost by giving up: what was not committed has not happened.
const (
	commitTries    = 6
	commitPause    = 100 * time.Millisecond
	maxCommitPause = 2 * time.Second
	minPatience    = 3 * time.Second // about what commitTries take
)

// commit makes the batch durable. A store that is away for a moment (a full disk, a lock) is tried
// again; meanwhile nothing goes on, because nothing may. The end of ctx ends the patience, not the
// commit.
func (c *Conductor) commit(ctx context.Context) error {
	end := func() {}
	defer func() { end() }()
	begun, pause, last := time.Now(), commitPause, false
	for try := 1; ; try++ {
		err := c.o.Store.Commit(context.Background(), c.commits)
		if err == nil {
			return nil
		}
		if conflict, ok := errors.AsType[*store.ConflictError](err); ok {
			if try > 1 && c.committed() {
				return nil
			}
			return c.overtaken(conflict)
		}
		if last || !transient(err) || try >= commitTries && (!store.IsAway(err) || c.impatient(begun)) {
			return fmt.Errorf("%d executions stop here and can be resumed: %w", len(c.commits), err)
		}
		if try == 1 {
			end = c.o.Outage.Begin(err)
		}
		c.o.Log.Warn("commit failed, trying again; nothing goes on meanwhile", "error", err, "hint", stepwell.HintOf(err), "try", try, "pause", pause)
		last = !pausing(ctx, pause)
		pause = min(2*pause, maxCommitPause)
	}
}

// impatient reports whether the store has been away for longer than is to be waited.
func (c *Conductor) impatient(since time.Time) bool { return time.Since(since) >= c.o.Patience }

// hold waits while the store is away for others, such as a worker whose outputs the blobs refuse: nothing is decided
// meanwhile. It returns when the store is back or ctx ends, and with an error when the patience is over.
func (c *Conductor) hold(ctx context.Context) error {
	over, since := c.o.Outage.Over()
	if over == nil {
		return nil
	}
	err := c.o.Outage.Err()
	c.o.Log.Warn("nothing goes on, because the store is away", "error", err, "hint", stepwell.HintOf(err))
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

// Stalled says why nothing goes on: the store is away, and what it has refused is tried again. CodeUnavailable; nil when
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

// pausing waits, and reports whether there is time for more of it.
func pausing(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// committed reports whether the store holds this very batch: it had stored what it said had failed.
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

// overtaken says whose executions another process has written.
func (c *Conductor) overtaken(conflict *store.ConflictError) error {
	var ids []string
	for _, no := range conflict.Executions {
		if l := c.runs[no]; l != nil && len(ids) < 10 {
			ids = append(ids, l.run.ID)
		}
	}
	return &stepwell.Error{Code: stepwell.CodeConflict, Message: "execution " + strings.Join(ids, ", "), Err: conflict,
		Hint: "only one process may run the executions of a database: stop the others, then resume"}
}
