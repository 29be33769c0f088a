package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stepwell/stepwell/store"
)

// Retention says for how long things are kept once they are over. 0 keeps them for good.
type Retention struct {
	Executions time.Duration // executions that have ended, with all that belongs to them
	Logs       time.Duration // their log lines
	Keys       time.Duration // idempotency keys and signals
	Audit      time.Duration // entries of the audit log
	Firings    time.Duration // outcomes of schedules' firings
}

// pruner is the part of a store that removes.
type pruner interface {
	Prune(ctx context.Context, r store.Retention) (removed store.Removed, more bool, err error)
}

// How often the retention looks, and how it rests between batches so that the work of executions goes first.
const (
	retentionInterval = time.Hour
	retentionDelay    = time.Minute // after the start, when there is other work
	retentionRest     = 100 * time.Millisecond
	retentionBatches  = 10_000 // in one go: a bound, not a wish
)

// retention is the loop that removes old data.
type retention struct {
	store pruner
	keep  Retention
	// uploads removes uploads that nobody will come back for. nil: there are none.
	uploads func(ctx context.Context) (removed int, err error)
	// partitions removes definitions by which no partition was made. nil: there are none.
	partitions func(ctx context.Context) error
	now        func() time.Time
	log        *slog.Logger
}

// Run prunes every hour until ctx ends. Errors are logged and retried an hour later.
func (r *retention) Run(ctx context.Context) error {
	if r.keep == (Retention{}) && r.uploads == nil && r.partitions == nil {
		return nil
	}
	for pause := retentionDelay; ; pause = retentionInterval {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		gone, err := 0, error(nil)
		if r.uploads != nil {
			gone, err = r.uploads(ctx) // before the blobs that they refer to
		}
		if r.partitions != nil {
			err = errors.Join(err, r.partitions(ctx))
		}
		removed, failed := r.runOnce(ctx, r.now())
		if err = errors.Join(err, failed); err != nil && ctx.Err() == nil {
			r.log.Error("retention has failed; it will be retried in an hour", "error", err)
		}
		if removed != (store.Removed{}) || gone > 0 {
			r.log.Info("retention removed what was old", "executions", removed.Executions, "log_lines", removed.Lines, "keys", removed.Keys,
				"audit", removed.Audit, "firings", removed.Firings, "blobs", removed.Blobs, "uploads", gone)
		}
	}
}

// keepEnds is how long the counts of ended executions are kept, by hour.
const keepEnds = 400 * 24 * time.Hour

// runOnce removes data that is old at the time, batch by batch.
func (r *retention) runOnce(ctx context.Context, now time.Time) (sum store.Removed, err error) {
	before := func(d time.Duration) time.Time {
		if d <= 0 {
			return time.Time{}
		}
		return now.Add(-d)
	}
	what := store.Retention{Executions: before(r.keep.Executions), Logs: before(r.keep.Logs), Keys: before(r.keep.Keys), Audit: before(r.keep.Audit), Firings: before(r.keep.Firings), Ends: before(keepEnds), Blobs: r.uploads != nil}
	for range retentionBatches {
		removed, more, err := r.store.Prune(ctx, what)
		sum.Executions += removed.Executions
		sum.Lines += removed.Lines
		sum.Keys += removed.Keys
		sum.Audit += removed.Audit
		sum.Firings += removed.Firings
		sum.Blobs += removed.Blobs
		if err != nil {
			return sum, err
		}
		if !more {
			return sum, nil
		}
		select {
		case <-ctx.Done():
			return sum, ctx.Err()
		case <-time.After(retentionRest):
		}
	}
	return sum, nil
}
