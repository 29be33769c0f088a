package conductor

import (
	"context"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// WhyAt is Why for a moment in the past: after the commit with a version, or after the last one up to a time; the earlier of both where
// both are given, and 0 or the zero time for none. It also returns the version of that commit. The log is folded up to there in a run of
// its own, so it costs what recovering the execution does, and changes nothing. CodeInvalid for a moment that is not in the log.
func (c *Conductor) WhyAt(ctx context.Context, id, step string, version int64, at time.Time) ([]engine.Reason, int64, error) {
	row, err := c.o.Store.Execution(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	var over *engine.StepRow // of the step, which the engine may not know any more
	l, err := c.past(ctx, row, version, at, false, func(_ *engine.Batch, fx *engine.Effects) {
		for i := range fx.Rows {
			if r := &fx.Rows[i]; r.Key == step && r.Status.Terminal() {
				last := *r
				over = &last
			}
		}
	})
	if err != nil {
		return nil, 0, err
	}
	reasons, err := l.run.Why(step)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound && over != nil {
		return engine.WhyOver(over), l.version, nil
	}
	return reasons, l.version, err
}

// past is the execution after the commit with a version, or after the last one up to a time; with neither, the last one. retain is
// engine.Run.Retain. each sees every commit that counts.
func (c *Conductor) past(ctx context.Context, row *store.Execution, version int64, at time.Time, retain bool, each func(*engine.Batch, *engine.Effects)) (*live, error) {
	if !at.IsZero() {
		until, err := c.versionAt(ctx, row, at)
		if err != nil {
			return nil, err
		}
		if version == 0 || until < version {
			version = until
		}
	}
	l, err := c.fresh(ctx, row)
	if err != nil {
		return nil, err
	}
	if retain {
		l.run.Retain()
	}
	if err := c.replay(ctx, l, row, version, each); err != nil {
		return nil, err
	}
	if version > l.version {
		return nil, stepwell.Errorf(stepwell.CodeInvalid, "stepwell executions events lists them", "the execution %s has %d versions, none is %d", row.ID, l.version, version)
	}
	return l, nil
}

// versionAt is the version of the last commit up to a time, the first one from when the execution was created.
func (c *Conductor) versionAt(ctx context.Context, row *store.Execution, at time.Time) (version int64, err error) {
	at = at.Truncate(time.Millisecond).Add(time.Millisecond - time.Microsecond) // the history shows milliseconds
	if at.Before(row.Created) {
		return 0, stepwell.Invalid("it was created at "+row.Created.UTC().Format(time.RFC3339Nano), "the execution %s was not there yet", row.ID)
	}
	for entry, err := range c.o.Store.StepLog(ctx, row.No, 0) {
		if err != nil {
			return 0, err
		}
		b, err := engine.DecodeBatch(entry.Version, entry.Body)
		if err != nil {
			return 0, err
		}
		if b.At > at.UnixMicro() && version > 0 {
			break
		}
		version = entry.Version
	}
	return version, nil
}
