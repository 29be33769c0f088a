package conductor

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/store"
)

// Restart resets a step and everything after it in place, in a running or ended execution. failedOnly keeps completed
// parts of the step: iterations, inner steps of groups and sub-pipelines, stream items.
func (c *Conductor) Restart(ctx context.Context, id, step string, failedOnly bool) error {
	ev := engine.Event{Kind: engine.Restart, Step: step, FailedOnly: failedOnly, Fine: failedOnly}
	if failedOnly {
		row, l, err := c.retained(ctx, id)
		if err != nil {
			return err
		}
		if err := c.keepInside(ctx, row, l, &ev); err != nil {
			return err
		}
	}
	return c.send(ctx, id, ev)
}

// keepInside fills in what a restart of only what failed keeps inside the step.
func (c *Conductor) keepInside(ctx context.Context, row *store.Execution, l *live, ev *engine.Event) (err error) {
	if ev.Seeds, ev.Epoch, err = l.run.RestartSeeds(ev.Step); err != nil {
		return err
	}
	if err := c.seedOutputs(ctx, row, l, ev.Seeds); err != nil {
		return err
	}
	return checkSize(ev)
}

// PreviewRestart returns the effects of a Restart.
func (c *Conductor) PreviewRestart(ctx context.Context, id, step string, failedOnly bool) (*engine.Forecast, error) {
	row, l, err := c.retained(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.foretellRestart(ctx, row, l, step, failedOnly)
}

func (c *Conductor) foretellRestart(ctx context.Context, row *store.Execution, l *live, step string, failedOnly bool) (*engine.Forecast, error) {
	fc, err := l.run.PreviewRestart(step, failedOnly)
	if err != nil {
		return nil, err
	}
	return fc, c.complete(ctx, row, l, fc)
}

// PreviewRetry returns the effects of a Retry. CodeConflict: the execution has not ended, or nothing failed in it.
func (c *Conductor) PreviewRetry(ctx context.Context, id, from string) (*engine.Forecast, error) {
	row, l, err := c.retryable(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.foretellRetry(ctx, row, l, from)
}

func (c *Conductor) foretellRetry(ctx context.Context, row *store.Execution, l *live, from string) (*engine.Forecast, error) {
	fc, err := l.run.PreviewRetry(from)
	if err != nil {
		return nil, err
	}
	return fc, c.complete(ctx, row, l, fc)
}

// complete fills in how many items have failed at stream steps, and leaves out the step that writes the report of streams
// when nobody has asked for it.
func (c *Conductor) complete(ctx context.Context, row *store.Execution, l *live, fc *engine.Forecast) error {
	if report := "finally." + l.pipeline.report; l.pipeline.report != "" {
		fc.Again = slices.DeleteFunc(fc.Again, func(a engine.Again) bool { return a.Step == report && a.Because == "" })
	}
	if len(fc.Items) == 0 {
		return nil
	}
	failed := make(map[string]int64, len(fc.Items))
	const page = 10_000
	for f := (store.StepFilter{Limit: page}); ; {
		steps, err := c.o.Store.Steps(ctx, row.No, f)
		if err != nil {
			return err
		}
		for i := range steps {
			s := &steps[i]
			if _, asked := fc.Items[s.Key]; !asked {
				continue
			}
			if items := s.Items(); items != nil && items.Failed > 0 {
				failed[s.Key] = items.Failed
			}
		}
		if len(steps) < page {
			break
		}
		f.From = steps[len(steps)-1].Idx + 1
	}
	fc.Items = failed
	return nil
}

// Retry starts a new execution of the same snapshot with a link to the old one, which must have ended. Completed
// results are taken over, iterations and steps inside groups included, except from the given step on ("": all).
// CodeConflict: the execution has not ended, or nothing failed in it.
func (c *Conductor) Retry(ctx context.Context, id, from string) (string, error) {
	id, _, err := c.RetryOnce(ctx, id, from, store.Origin{})
	return id, err
}

// RetryOnce is Retry for somebody (Actor), and only once for a Key; see StartOnce. The rest of where it comes
// from is that of the old execution.
func (c *Conductor) RetryOnce(ctx context.Context, id, from string, by store.Origin) (_ string, fresh bool, err error) {
	row, l, err := c.retryable(ctx, id)
	if err != nil {
		return "", false, err
	}
	req, err := c.retryOf(ctx, row, l, from)
	if err != nil {
		return "", false, err
	}
	if req.Params, err = c.openParams(row); err != nil {
		return "", false, err
	}
	req.Key, req.KeyHash = by.Key, by.KeyHash
	if by.Actor != "" {
		req.Actor = by.Actor
	}
	return c.StartOnce(ctx, *req)
}

// retryOf is the start of a retry, without its parameters.
func (c *Conductor) retryOf(ctx context.Context, row *store.Execution, l *live, from string) (*Request, error) {
	seeds, err := l.run.Seeds(from)
	if err != nil {
		return nil, err
	}
	if err := c.seedOutputs(ctx, row, l, seeds); err != nil {
		return nil, err
	}
	var about json.RawMessage
	if known := l.run.About(); known != nil {
		if about, err = expr.Marshal(map[string]any(known)); err != nil {
			return nil, err
		}
	}
	return &Request{Pipeline: l.pipeline, Parent: row.ID, Trigger: "retry", Dir: row.Dir, About: about, Origin: row.Origin,
		seeds: seeds, revision: l.run.Revision()}, nil
}

// retryable rebuilds an execution that has ended, for a retry.
func (c *Conductor) retryable(ctx context.Context, id string) (*store.Execution, *live, error) {
	row, err := c.o.Store.Execution(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	if !row.Status.Terminal() {
		return nil, nil, notEnded(row.Status)
	}
	return c.retained(ctx, row.ID)
}

func notEnded(s stepwell.ExecutionStatus) error {
	return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the execution has not ended: " + s.String(), Hint: "cancel it first, or restart a step in place"}
}

// retained rebuilds a separate copy of an execution that keeps the inside of failed steps.
func (c *Conductor) retained(ctx context.Context, id string) (*store.Execution, *live, error) {
	row, err := c.o.Store.Execution(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	l, err := c.fresh(ctx, row)
	if err != nil {
		return nil, nil, err
	}
	l.run.Retain()
	return row, l, c.replay(ctx, l, row, 0, nil)
}

// Seeds' outputs are recorded in the new execution's first event. If they exceed maxSeeds together, those above
// smallSeed are stored as blobs.
const (
	maxSeeds  = 16 << 20
	smallSeed = 512
)

// seedOutputs fills in the outputs of the completed steps.
func (c *Conductor) seedOutputs(ctx context.Context, row *store.Execution, l *live, seeds []engine.Seed) error {
	byKey := make(map[string]*engine.Seed, len(seeds))
	for i := range seeds {
		if s := &seeds[i]; s.Status == stepwell.StepCompleted && s.Output == "" {
			byKey[s.Key] = s
		}
	}
	total := 0
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
			total += len(step.Output)
		}
	}
	if total > maxSeeds {
		for i := range seeds {
			if err := c.spill(ctx, &seeds[i]); err != nil {
				return err
			}
		}
	}
	return c.loadSeeds(ctx, seeds)
}

func (c *Conductor) spill(ctx context.Context, s *engine.Seed) error {
	if len(s.Output) <= smallSeed || engine.IsRef([]byte(s.Output)) {
		return nil
	}
	ref, err := c.o.Blobs.Put(ctx, []byte(s.Output))
	if err == nil {
		s.Output = ref
	}
	return err
}
