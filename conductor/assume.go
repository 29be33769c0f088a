package conductor

import (
	"context"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// WhatIf tells what would come of an assumption: now, or at a moment in the past, which is one of WhyAt. It folds the log into a run of
// its own, applies the event to that and commits nothing; the execution itself is neither loaded nor touched. What waits for admission
// or for a concurrency slot is told as if there were room. It also returns the version of the last commit that counts. CodeConflict: it
// cannot come true at that moment.
//
// A retry and a restart of only what failed take over the outputs as they are stored now. Of a moment in the past it is not told how
// many items of streams failed.
func (c *Conductor) WhatIf(ctx context.Context, id string, a *engine.Assumption, version int64, at time.Time) (*engine.Consequence, int64, error) {
	row, err := c.o.Store.Execution(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	var last int64
	l, err := c.past(ctx, row, version, at, true, func(b *engine.Batch, _ *engine.Effects) { last = b.At })
	if err != nil {
		return nil, 0, holding(err)
	}
	now := version == 0 && at.IsZero()
	if now {
		last = max(last, c.now())
	}
	would, err := c.whatIf(ctx, row, l, a, last)
	if err != nil {
		return nil, 0, err
	}
	if would.Later != nil && !now {
		would.Later.Items = nil
	}
	return would, l.version, nil
}

func (c *Conductor) whatIf(ctx context.Context, row *store.Execution, l *live, a *engine.Assumption, at int64) (*engine.Consequence, error) {
	if a.Verb == engine.VerbRetry {
		return c.ifRetried(ctx, row, l, a.Step, at)
	}
	ev, err := l.run.Assumed(a, at)
	if err != nil {
		return nil, err
	}
	var later *engine.Forecast
	if a.Verb == engine.VerbRestart {
		if later, err = c.foretellRestart(ctx, row, l, a.Step, a.FailedOnly); err == nil && a.FailedOnly {
			err = c.keepInside(ctx, row, l, &ev)
		}
		if err != nil {
			return nil, err
		}
	}
	if ev.Kind == engine.Cancel && l.run.Status().Terminal() {
		return nil, stepwell.Errorf(stepwell.CodeConflict, "", "the execution has ended: %s", l.run.Status())
	}
	return l.run.Consequence(&ev, nil, later)
}

// ifRetried begins a run as RetryOnce begins an execution.
func (c *Conductor) ifRetried(ctx context.Context, row *store.Execution, l *live, from string, at int64) (*engine.Consequence, error) {
	if s := l.run.Status(); !s.Terminal() {
		return nil, notEnded(s)
	}
	later, err := c.foretellRetry(ctx, row, l, from)
	if err != nil {
		return nil, err
	}
	req, err := c.retryOf(ctx, row, l, from)
	if err != nil {
		return nil, err
	}
	ev := c.startEvent(req, row.Params)
	ev.At = at
	run := engine.New(l.pipeline.plan, row.No, row.ID)
	run.Dir = row.Dir
	return run.Consequence(&ev, l.run, later)
}
