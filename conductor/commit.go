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
	stalledTries   = 3 // after so many it is worth telling, see Stalled
)

// commit makes the batch durable. A store that is away for a moment (a full disk, a lock) is tried
// again; meanwhile nothing goes on, because nothing may. The end of ctx ends the patience, not the
// commit.
func (c *Conductor) commit(ctx context.Context) error {
	defer c.stalled.Store(nil)
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
		if last || !transient(err) || try >= commitTries && !c.patient(err, begun) {
			return fmt.Errorf("%d executions stop here and can be resumed: %w", len(c.commits), err)
		}
		if try >= stalledTries {
			c.stalled.Store(&stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the store takes nothing at the moment", Hint: stepwell.HintOf(err), Err: err})
		}
		c.o.Log.Warn("commit failed, trying again; nothing goes on meanwhile", "error", err, "hint", stepwell.HintOf(err), "try", try, "pause", pause)
		last = !pausing(ctx, pause)
		pause = min(2*pause, maxCommitPause)
	}
}

// patient reports whether what the store says may pass, and is worth waiting for.
func (c *Conductor) patient(err error, begun time.Time) bool {
	return stepwell.CodeOf(err) == stepwell.CodeUnavailable && time.Since(begun) < c.o.Patience
}

// Stalled says why nothing goes on: the store has refused the same commit for some time, and it is tried again.
// CodeUnavailable; nil when all is well.
func (c *Conductor) Stalled() error {
	if err := c.stalled.Load(); err != nil {
		return err
	}
	return nil
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
