package conductor

import (
	"context"
	"errors"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
)

// Cancel stops an execution: running steps are asked to stop, `finally` still runs. Cancelling twice, or after the
// end, is harmless. It returns when the request is durable; Wait waits for the end.
func (c *Conductor) Cancel(ctx context.Context, id, reason string) error {
	reason = stepwell.Head(c.o.Secrets.Text(id, stepwell.Head(reason, 2*maxText)), maxText)
	err := c.send(ctx, id, engine.Event{Kind: engine.Cancel, Reason: reason})
	if _, ok := errors.AsType[*engine.Diverged](err); ok {
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
