package conductor

import (
	"context"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Cancel stops an execution: what runs is asked to stop, `finally` still runs. Cancelling one that
// has ended, or twice, is harmless. It returns when the wish is durable; Wait waits for the end.
func (c *Conductor) Cancel(ctx context.Context, id, reason string) error {
	return c.send(ctx, id, engine.Event{Kind: engine.Cancel, Reason: c.o.Secrets.Text(id, reason)})
}

// Pause lets running steps finish and starts no others; CodeConflict when the execution is ending.
func (c *Conductor) Pause(ctx context.Context, id string) error {
	return c.send(ctx, id, engine.Event{Kind: engine.Pause})
}

// Resume goes on after Pause.
func (c *Conductor) Resume(ctx context.Context, id string) error {
	return c.send(ctx, id, engine.Event{Kind: engine.Resume})
}

// Restart resets a step and everything after it in place, in a running execution or one that has
// ended; failedOnly repeats the failed iterations of a for_each only.
func (c *Conductor) Restart(ctx context.Context, id, step string, failedOnly bool) error {
	return c.send(ctx, id, engine.Event{Kind: engine.Restart, Step: step, FailedOnly: failedOnly})
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
		if err = c.ask(ctx, item{run: l.run.No, on: l, ev: ev}); err != errGone {
			return err
		} // else it ended between the two looks
	}
}

// Preview lists the keys of the steps that Restart would run again.
func (c *Conductor) Preview(ctx context.Context, id, step string) ([]string, error) {
	row, err := c.o.Store.Execution(ctx, id)
	if err != nil {
		return nil, err
	}
	l, err := c.rebuild(ctx, row)
	if err != nil {
		return nil, err
	}
	return l.run.PreviewRestart(step)
}

// Retry starts a new execution of the same snapshot with a link to the old one, which must have
// ended. Results of completed steps are taken over, except from the given step on ("" takes over all
// that completed).
func (c *Conductor) Retry(ctx context.Context, id, from string) (string, error) {
	id, _, err := c.RetryOnce(ctx, id, from, store.Origin{})
	return id, err
}

// RetryOnce is Retry for somebody (Actor), and only once for a Key; see StartOnce. The rest of where it comes
// from is that of the old execution.
func (c *Conductor) RetryOnce(ctx context.Context, id, from string, by store.Origin) (_ string, fresh bool, err error) {
	row, err := c.o.Store.Execution(ctx, id)
	if err != nil {
		return "", false, err
	}
	if !row.Status.Terminal() {
		return "", false, notEnded(row.Status)
	}
	l, err := c.rebuild(ctx, row)
	if err != nil {
		return "", false, err
	}
	seeds, err := l.run.Seeds(from)
	if err != nil {
		return "", false, err
	}
	if err := c.seedOutputs(ctx, row, l, seeds); err != nil {
		return "", false, err
	}
	var params map[string]any
	if params, err = c.openParams(row); err != nil {
		return "", false, err
	}
	origin := row.Origin
	origin.Key, origin.KeyHash = by.Key, by.KeyHash
	if by.Actor != "" {
		origin.Actor = by.Actor
	}
	return c.StartOnce(ctx, Request{Pipeline: l.pipeline, Params: params, Parent: row.ID, Trigger: "retry", Dir: row.Dir, Origin: origin, seeds: seeds})
}

// seedOutputs fills in what the completed steps gave.
func (c *Conductor) seedOutputs(ctx context.Context, row *store.Execution, l *live, seeds []engine.Seed) error {
	byKey := make(map[string]*engine.Seed, len(seeds))
	for i := range seeds {
		byKey[seeds[i].Key] = &seeds[i]
	}
	for step, err := range c.o.Store.Outputs(ctx, row.No) {
		if err != nil {
			return err
		}
		key := step.Key
		if steps := l.run.Plan().Graph.Steps; key == "" && int(step.Idx) < len(steps) {
			key = steps[step.Idx].ID
		}
		if s := byKey[key]; s != nil {
			s.Output = string(step.Output)
		}
	}
	return c.loadSeeds(ctx, seeds)
}
