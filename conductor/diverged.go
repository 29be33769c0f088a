package conductor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Executions that cannot be taken up for a reason that does not pass are held: nothing of them runs, and their rows say why. Those
// that their logs do not lead to (engine.Diverged), or that a newer program has begun, that program can take up. Here they can be cancelled.

// heldError is why an execution cannot be taken up.
type heldError struct{ error }

func (e *heldError) Unwrap() error { return e.error }

// newerError is the error of an execution that a program with later decisions has begun.
type newerError struct{ revision int }

func (e *newerError) Error() string {
	return fmt.Sprintf("a newer stepwell has begun it (revision %d of the engine, this one has %d)", e.revision, engine.Revision)
}

// holding says whether an error of rebuild passes by itself; else it is a heldError.
func holding(err error) error {
	switch {
	case err == nil, store.IsAway(err), stepwell.CodeOf(err) == stepwell.CodeUnavailable, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return &heldError{err}
}

// failure is recorded for the execution while it is held.
func (e *heldError) failure() *engine.Failure {
	if d, ok := errors.AsType[*engine.Diverged](e.error); ok {
		return d.Failure()
	}
	if n, ok := errors.AsType[*newerError](e.error); ok {
		return &engine.Failure{Code: engine.CodeNewer, Message: "held, because " + n.Error(), Hint: "a server of that version takes it up as soon as there is one; or cancel it and start over"}
	}
	return &engine.Failure{Code: engine.CodeHeld, Message: "held, because it cannot be taken up: " + e.Error(),
		Hint: cmp.Or(stepwell.HintOf(e.error), "it is retried from time to time; or cancel it and start over")}
}

// holdBack records why an execution cannot be taken up, where err says so, and leaves one that a newer program has begun to that. It
// returns err.
func (c *Conductor) holdBack(ctx context.Context, id string, err error) error {
	d, ok := errors.AsType[*heldError](err)
	if !ok {
		return err
	}
	failure := d.failure()
	return firstError(c.inLoop(ctx, func() error {
		row, err := c.o.Store.Execution(ctx, id)
		if err != nil || row.Status.Terminal() {
			return err
		}
		if row.Failure == nil || *row.Failure != *failure {
			row.Failure = failure
			err = c.commitDiverged(row, nil, nil, false)
		}
		if newer, ok := errors.AsType[*newerError](d); ok && err == nil {
			err = c.o.Owners.Yield(ctx, row.No, newer.revision)
		}
		return err
	}), err)
}

// cancelDiverged ends an execution that has diverged: its steps end where they are, and no handler runs.
func (c *Conductor) cancelDiverged(ctx context.Context, id, reason string) error {
	row, err := c.o.Store.Execution(ctx, id)
	if err != nil {
		return err
	}
	known := 0 // steps whose names are in the snapshot
	of, err := c.snapshot(ctx, row.Definition)
	if err == nil {
		known = len(of.plan.Graph.Steps)
	}
	why := &engine.Failure{Code: stepwell.CodeCancelled, Message: reason}
	var rows []engine.StepRow
	for from := int32(0); ; {
		page, err := c.o.Store.Steps(ctx, row.No, store.StepFilter{From: from, Limit: 10_000})
		if err != nil {
			return err
		}
		for i := range page {
			s := &page[i].StepRow
			if from = s.Idx + 1; s.Status.Terminal() {
				continue
			}
			s.Status, s.Error, s.Ended, s.Wake, s.External = stepwell.StepCancelled, why, c.now(), 0, ""
			if int(s.Idx) < known {
				s.Key, s.Action = "", ""
			}
			rows = append(rows, *s)
		}
		if len(page) == 0 {
			break
		}
	}
	return c.inLoop(ctx, func() error {
		row.Status, row.Failure, row.Progress.Running = stepwell.ExecutionCancelled, why, 0
		row.Progress.Cancelled += len(rows)
		return c.commitDiverged(row, of, rows, true)
	})
}

// commitDiverged stores a change of an execution that is not in memory with an empty batch: its version fences the
// commit, and folding it changes nothing. of is nil when its snapshot cannot be had.
func (c *Conductor) commitDiverged(row *store.Execution, of *Pipeline, rows []engine.StepRow, ended bool) error {
	l := &live{run: engine.New(nil, row.No, row.ID), row: *row, pipeline: of, batch: engine.Batch{At: c.now()}}
	log, err := engine.AppendBatch(nil, &l.batch)
	if err != nil {
		return err
	}
	row.Version++
	u := &store.Update{Status: row.Status, Outputs: row.Outputs, Failure: row.Failure, Progress: row.Progress}
	if l.fx.Finished = ended; ended {
		u.Ended = l.batch.At
		row.Ended = time.UnixMicro(u.Ended)
	}
	commit := store.Commit{Execution: row.No, Version: row.Version, Log: log, Steps: rows, Update: u}
	if commit.Outbox, err = c.outgoing(l); err != nil {
		return err
	}
	if err := c.o.Store.Commit(context.Background(), []store.Commit{commit}); err != nil {
		return err
	}
	c.notify(&Update{Execution: row, StepChanges: store.StepChanges{Since: row.Version - 1, Version: row.Version, Rows: rows}, Progress: row.Progress, At: l.batch.At})
	return nil
}
