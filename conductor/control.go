package conductor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

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

// Verify lets go of the executions here that the store has otherwise, or for another owner. Their attempts run on, because this process
// may take them up again before they end. It looks at all of them: after a connection was lost, the store may be one that lacks the last
// commits. With idle it looks at no more than so many, at other ones each time, and of them at those in which nothing has been committed
// for a while: no commit of theirs is refused. It returns the ids of those that the store does not give to another owner; Recover takes
// up what the store has. versions is store.Nodes.Versions.
func (c *Conductor) Verify(ctx context.Context, idle int, versions func(ctx context.Context, owner int64, executions []int64) (map[int64]int64, error)) (ids []string, err error) {
	var numbers []int64
	var here map[*live]int64
	err = c.inLoop(ctx, func() error {
		numbers, here = c.unverified(idle)
		return nil
	})
	if err != nil || len(numbers) == 0 {
		return nil, err
	}
	found, err := versions(ctx, c.o.Owner, numbers)
	if err != nil {
		return nil, err
	}
	err = c.inLoop(ctx, func() error {
		var gone store.RefusedError
		for l, before := range here {
			version, mine := found[l.run.No]
			if l.gone || !mine && l.touched || mine && version >= before && version <= l.version {
				continue
			}
			why := fmt.Errorf("the database has version %d of it, this process %d", version, l.version)
			if mine {
				ids = append(ids, l.run.ID)
			} else {
				why = errors.New("the database has another owner of it")
			}
			gone.Refusals = append(gone.Refusals, store.Refusal{Execution: l.run.No, Why: store.VersionTaken, Err: why})
		}
		c.evict(&gone)
		return nil
	})
	return ids, err
}

// idleTime is for how long nothing has been committed in an execution that Verify takes for idle.
const idleTime = 2 * time.Second

// unverified are the executions that Verify looks at, with their versions.
func (c *Conductor) unverified(idle int) (numbers []int64, here map[*live]int64) {
	if idle == 0 {
		c.numbers.drop() // the store may give them to others
	}
	if idle == 0 || len(c.verify) == 0 {
		c.verify = slices.AppendSeq(c.verify[:0], maps.Keys(c.runs))
	}
	n := len(c.verify)
	if idle > 0 {
		n = min(n, idle)
	}
	latest := c.now() - idleTime.Microseconds()
	here = make(map[*live]int64, n)
	for _, no := range c.verify[len(c.verify)-n:] {
		if l := c.runs[no]; l != nil && l.version > 0 && (idle == 0 || l.batch.At <= latest) {
			numbers, here[l] = append(numbers, no), l.version
		}
	}
	c.verify = c.verify[:len(c.verify)-n]
	return numbers, here
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
		c.intoQueue(l, t)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// intoQueue gives a task of an execution with a lesson its queue (Options.LessonQueue), unless the step names one.
func (c *Conductor) intoQueue(l *live, t *engine.Task) {
	if t.Queue == "" && l.row.Lesson != "" {
		t.Queue = c.o.LessonQueue
	}
}
