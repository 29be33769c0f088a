package conductor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Cancel stops an execution: running steps are asked to stop, `finally` still runs. Cancelling twice, or after the
// end, is harmless. It returns when the request is durable; Wait waits for the end.
func (c *Conductor) Cancel(ctx context.Context, id, reason string) error {
	reason = stepwell.Head(c.o.Secrets.Text(id, stepwell.Head(reason, 2*maxText)), maxText)
	err := c.send(ctx, id, engine.Event{Kind: engine.Cancel, Reason: reason})
	if _, ok := errors.AsType[*heldError](err); ok {
		return c.cancelDiverged(ctx, id, reason)
	}
	return err
}

// Pause lets running steps finish and starts no others; CodeConflict when the execution is ending.
func (c *Conductor) Pause(ctx context.Context, id string) error {
	return c.send(ctx, id, engine.Event{Kind: engine.Pause})
}

// Resume goes on after Pause.
func (c *Conductor) Resume(ctx context.Context, id string) error {
	return c.send(ctx, id, engine.Event{Kind: engine.Resume})
}

// send puts a wish to an execution, which is brought into memory for it if need be.
func (c *Conductor) send(ctx context.Context, id string, ev engine.Event) error {
	for {
		l, status, err := c.find(ctx, id, ev.Kind == engine.Restart)
		switch {
		case err != nil:
			return err
		case l == nil && (ev.Kind == engine.Cancel || ev.Kind == 0):
			return nil
		case l == nil:
			return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the execution has ended: " + status.String()}
		}
		ev.At = c.now()
		if err = c.ask(ctx, item{run: l.run.No, on: l, ev: ev}); !errors.Is(err, errGone) {
			return err
		} // it has ended meanwhile, or another process has changed it: read it again
	}
}

// LetGo unloads an execution that another process runs by now: nothing of it is decided here any more. Its attempts run on, because
// this process may take it up again before they end, and an attempt that was stopped would fail its step then. It does nothing
// for an execution that is not here, or that is being committed: the commit tells.
func (c *Conductor) LetGo(ctx context.Context, id string) error {
	l := c.live(id)
	if l == nil {
		return nil
	}
	return c.inLoop(ctx, func() error {
		if l.gone || l.touched || l.create || c.runs[l.run.No] != l {
			return nil
		}
		l.refused = &stepwell.Error{Code: stepwell.CodeConflict, Message: "execution " + id, Err: errGone, Hint: "another process runs it: ask there"}
		c.forget(l)
		return nil
	})
}

// Verify lets go of the executions here that the store has otherwise: after a connection was lost, the store may be one that lacks the
// last commits. versions asks it for all of them. It returns their ids; Recover takes up what the store has.
func (c *Conductor) Verify(ctx context.Context, versions func(context.Context, []int64) (map[int64]int64, error)) (ids []string, err error) {
	here := map[int64]int64{}
	err = c.inLoop(ctx, func() error {
		for no, l := range c.runs {
			if l.version > 0 {
				here[no] = l.version
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.numbers.drop() // the store may give them to others
	if len(here) == 0 {
		return nil, nil
	}
	found, err := versions(ctx, slices.Collect(maps.Keys(here)))
	if err != nil {
		return nil, err
	}
	err = c.inLoop(ctx, func() error {
		var gone store.RefusedError
		for no, before := range here {
			l := c.runs[no]
			if l == nil || found[no] >= before && found[no] <= l.version {
				continue
			}
			ids = append(ids, l.run.ID)
			gone.Refusals = append(gone.Refusals, store.Refusal{Execution: no, Why: store.VersionTaken,
				Err: fmt.Errorf("the database has version %d of it, this process %d", found[no], l.version)})
		}
		c.evict(&gone)
		return nil
	})
	return ids, err
}

// Task makes the task of an attempt in flight once more, for task distributors (Options.Expect). CodeConflict: the
// execution is not running here, or the attempt has ended.
func (c *Conductor) Task(ctx context.Context, run int64, idx int32, epoch uint32) (*engine.Task, error) {
	var t *engine.Task // the loop's until it answers
	err := c.inLoop(ctx, func() error {
		l := c.runs[run]
		if l == nil {
			return errGone
		}
		if t = l.run.Task(idx); t == nil || t.Epoch != epoch {
			return errStale
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}
