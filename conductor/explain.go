package conductor

import (
	"context"
	"errors"
	"fmt"

	"github.com/stepwell/stepwell/engine"
)

// Why explains the state of a step, or with "" of the execution.
func (c *Conductor) Why(ctx context.Context, id, step string) ([]engine.Reason, error) {
	row, err := c.o.Store.Execution(ctx, id) // id may be the beginning of one
	if err != nil {
		return nil, err
	}
	if l := c.live(row.ID); l != nil {
		var reasons []engine.Reason // the loop's until it answers
		err := c.look(ctx, item{run: l.run.No, on: l, do: func(it *item) {
			var wrong error
			if reasons, wrong = l.run.Why(step); wrong == nil && l.slot == slotWaiting {
				reasons = append(reasons, c.heldBy(l))
			}
			c.answer(it.reply, wrong)
		}})
		switch {
		case err == nil:
			return reasons, nil
		case err != errGone: // else it ended between the two looks
			return nil, err
		}
	}
	l, err := c.rebuild(ctx, row)
	if d, ok := errors.AsType[*engine.Diverged](err); ok {
		why := d.Failure()
		return []engine.Reason{{Code: engine.WhyDiverged, Message: why.Message + " (" + why.Hint + ")"}}, nil
	}
	if err != nil {
		return nil, err
	}
	return l.run.Why(step)
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

// heldBy is the reason that an execution has not been admitted.
func (c *Conductor) heldBy(l *live) engine.Reason {
	switch {
	case c.admission.suspended > 0:
		return engine.Reason{Code: "held_by_recovery", Message: "it begins when all executions of before have been taken up again"}
	case l.full():
		return engine.Reason{Code: "held_by_concurrency", Message: fmt.Sprintf("%d executions with the concurrency key %q run, of at most %d; the oldest is %s",
			l.group.running, l.group.key, l.limit(), l.group.oldestRunning())}
	case c.crowded():
		return engine.Reason{Code: "held_by_limit", Message: fmt.Sprintf("%d executions run, of at most %d, and %d wait to begin", c.admission.running, c.o.MaxExecutions, c.admission.waiting)}
	}
	return engine.Reason{Code: "held", Message: "it begins at any moment"}
}

func (g *group) oldestRunning() string {
	var first *live
	for m := range g.members {
		if m.slot == slotTaken && (first == nil || m.row.No < first.row.No) {
			first = m
		}
	}
	if first == nil {
		return "none"
	}
	return first.run.ID
}
