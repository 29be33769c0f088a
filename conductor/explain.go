package conductor

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Why explains the state of a step, or with "" of the execution. A step inside of one that has ended is explained by its row.
func (c *Conductor) Why(ctx context.Context, id, step string) ([]engine.Reason, error) {
	row, err := c.o.Store.Execution(ctx, id) // id may be the beginning of one
	if err != nil {
		return nil, err
	}
	if l := c.live(row.ID); l != nil {
		var reasons []engine.Reason // the loop's until it answers
		held := false
		err := c.look(ctx, item{run: l.run.No, on: l, do: func(it *item) {
			var wrong error
			if reasons, wrong = l.run.Why(step); wrong == nil && l.slot == slotWaiting {
				held, reasons = true, append(reasons, c.heldBy())
			}
			c.answer(it.reply, wrong)
		}})
		switch {
		case err == nil && held:
			last := len(reasons) - 1
			reasons[last], err = c.heldByKey(ctx, l, reasons[last])
			return reasons, err
		case err == nil:
			return reasons, nil
		case err != errGone: // else it ended between the two looks
			return c.whyStored(ctx, row, step, err)
		}
	}
	l, err := c.rebuild(ctx, row, 0)
	if held, ok := errors.AsType[*heldError](holding(err)); ok {
		why := held.failure()
		return []engine.Reason{{Code: string(why.Code), Message: why.Message + " (" + why.Hint + ")"}}, nil
	}
	if err != nil {
		return nil, err
	}
	reasons, err := l.run.Why(step)
	if err != nil {
		return c.whyStored(ctx, row, step, err)
	}
	return reasons, nil
}

// whyStored explains a step that the engine does not know any more by the last row of its key; without one that has ended, wrong stands.
func (c *Conductor) whyStored(ctx context.Context, row *store.Execution, step string, wrong error) ([]engine.Reason, error) {
	if stepwell.CodeOf(wrong) != stepwell.CodeNotFound {
		return nil, wrong
	}
	rows, err := c.o.Store.Steps(ctx, row.No, store.StepFilter{Key: step})
	if err != nil {
		return nil, err
	}
	if n := len(rows); n > 0 && rows[n-1].Status.Terminal() {
		return engine.WhyOver(&rows[n-1].StepRow), nil
	}
	return nil, wrong
}

// At is the state of an execution after its commit with a version; 0: after the last one. CodeNotFound: there is no such version.
func (c *Conductor) At(ctx context.Context, id string, version int64) (*engine.Run, error) {
	row, err := c.o.Store.Execution(ctx, id)
	if err != nil {
		return nil, err
	}
	l, err := c.rebuild(ctx, row, version)
	if err != nil {
		return nil, err
	}
	if l.version < version || version < 0 {
		return nil, stepwell.Errorf(stepwell.CodeNotFound, "", "execution %s has no version %d, the last one is %d", row.ID, version, l.version)
	}
	return l.run, nil
}

// look is ask for read-only requests: while the store is away they fail at once, as the loop answers nothing.
func (c *Conductor) look(ctx context.Context, it item) error {
	if err := c.Stalled(); err != nil {
		return err
	}
	return c.ask(ctx, it)
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

const heldByRecovery = "held_by_recovery"

// heldBy is the reason that an execution has not been admitted.
func (c *Conductor) heldBy() engine.Reason {
	switch {
	case c.admission.suspended > 0:
		return engine.Reason{Code: heldByRecovery, Message: "it begins when all executions of before have been taken up again"}
	case c.crowded():
		return engine.Reason{Code: "held_by_limit", Message: fmt.Sprintf("%d executions run, of at most %d, and %d wait to begin", c.admission.running, c.o.MaxExecutions, c.admission.waiting)}
	}
	return engine.Reason{Code: "held", Message: "it begins at any moment"}
}

// heldByKey is heldBy of an execution whose key has no free slot.
func (c *Conductor) heldByKey(ctx context.Context, l *live, other engine.Reason) (engine.Reason, error) {
	key := l.row.Concurrency
	if key == "" || other.Code == heldByRecovery {
		return other, nil
	}
	n, oldest, err := c.o.Slots.Holders(ctx, key)
	if limit := l.limit(); err == nil && n >= limit {
		other = engine.Reason{Code: "held_by_concurrency", Message: fmt.Sprintf("waits for execution %s: the concurrency key %q has %d of at most %d", cmp.Or(oldest, "(unknown)"), key, n, limit)}
	}
	return other, err
}
