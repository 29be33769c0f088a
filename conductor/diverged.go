package conductor

import (
	"context"
	"errors"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Executions that their logs do not lead to (engine.Diverged) are held: nothing of them runs, their rows say why, and
// the program that they began with can take them up. Here they can be cancelled.

// holdDiverged records why an execution cannot be taken up, where err says that it has diverged. It returns err.
func (c *Conductor) holdDiverged(ctx context.Context, id string, err error) error {
	d, ok := errors.AsType[*engine.Diverged](err)
	if !ok {
		return err
	}
	return firstError(c.inLoop(ctx, func() error {
		row, err := c.o.Store.Execution(ctx, id)
		if err != nil || row.Status.Terminal() || row.Failure != nil && *row.Failure == *d.Failure() {
			return err
		}
		row.Failure = d.Failure()
		return c.commitDiverged(row, nil, false)
	}), err)
}

// cancelDiverged ends an execution that has diverged: its steps end where they are, and no handler runs.
func (c *Conductor) cancelDiverged(ctx context.Context, id, reason string) error {
	row, err := c.o.Store.Execution(ctx, id)
	if err != nil {
		return err
	}
	p, err := c.snapshot(ctx, row.Definition)
	if err != nil {
		return err
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
			if int(s.Idx) < len(p.plan.Graph.Steps) {
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
		return c.commitDiverged(row, rows, true)
	})
}

// commitDiverged stores a change of an execution that is not in memory with an empty batch: its version fences the
// commit, and folding it changes nothing.
func (c *Conductor) commitDiverged(row *store.Execution, rows []engine.StepRow, ended bool) error {
	l := &live{run: engine.New(nil, row.No, row.ID), row: *row, batch: engine.Batch{At: c.now()}}
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
	c.observe(&Update{Execution: row, Rows: rows, Progress: row.Progress, At: l.batch.At})
	return nil
}
