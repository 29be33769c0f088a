package conductor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/store"
)

// Run is the loop: take events in, decide, commit, act. It returns when ctx ends, after the batch
// in hand, or with an error when the store fails for good.
func (c *Conductor) Run(ctx context.Context) error {
	defer c.shut()
	flushing, endFlush := context.WithCancel(context.WithoutCancel(ctx))
	flushed := make(chan struct{})
	go func() { defer close(flushed); c.flushLoop(flushing) }()
	defer func() { endFlush(); <-flushed }()
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	for {
		c.inbox.settle()
		batch := c.inbox.take()
		due := c.timers.due(c.now())
		if len(batch) > 0 || len(due) > 0 {
			if err := c.process(batch, due); err != nil {
				return err
			}
			continue
		}
		alarm.Reset(c.timers.wait(c.now()))
		select {
		case <-ctx.Done():
			return nil
		case <-c.inbox.ring:
		case <-alarm.C:
		}
	}
}

// shut answers everybody who still waits.
func (c *Conductor) shut() {
	for _, it := range c.inbox.close() {
		if it.reply != nil {
			it.reply <- errStopped
		}
	}
	close(c.stop)
}

// process is one turn of the loop.
func (c *Conductor) process(batch []item, due []timer) error {
	for i := range due {
		c.apply(&item{run: due[i].run, ev: engine.Event{Kind: engine.TimerDue, At: c.now(), Idx: due[i].Idx, Epoch: due[i].Epoch}})
	}
	for i := range batch {
		c.apply(&batch[i])
	}
	now := c.now()
	c.commits = c.commits[:0]
	for _, l := range c.touched {
		if err := c.prepare(l, now); err != nil {
			return err
		}
	}
	if len(c.commits) > 0 {
		if err := c.commit(); err != nil {
			return err
		}
	}
	c.act()
	return nil
}

// apply lets the engine take one event in.
func (c *Conductor) apply(it *item) {
	if it.adopt != nil {
		if l := c.runs[it.run]; l == nil {
			c.runs[it.run] = it.adopt
		}
	}
	l := c.runs[it.run]
	if l == nil {
		// A report for an execution that has ended meanwhile.
		c.answer(it.reply, &stepwell.Error{Code: stepwell.CodeConflict, Message: "the execution is not running here"})
		return
	}
	c.touch(l)
	changed, err := l.run.Apply(&it.ev, &l.fx)
	if changed {
		l.batch.Events = append(l.batch.Events, it.ev)
	}
	if err != nil || it.reply == nil {
		c.answer(it.reply, err)
		return
	}
	l.replies = append(l.replies, it.reply)
}

func (c *Conductor) answer(reply chan error, err error) {
	if reply != nil {
		reply <- err
	}
}

func (c *Conductor) touch(l *live) {
	if !l.touched {
		l.touched = true
		c.touched = append(c.touched, l)
	}
}

// prepare closes a run's batch and makes a commit of it.
func (c *Conductor) prepare(l *live, now int64) error {
	l.run.Settle(now, &l.fx)
	if len(l.batch.Events) == 0 && len(l.fx.Rows) == 0 && len(l.fx.Tasks) == 0 && !l.fx.Changed {
		return nil
	}
	l.batch.At = now
	l.batch.Queued = l.batch.Queued[:0]
	for _, t := range l.fx.Tasks {
		l.batch.Queued = append(l.batch.Queued, t.Idx)
	}
	var err error
	if l.log, err = engine.AppendBatch(l.log[:0], &l.batch); err != nil {
		return err
	}
	l.version++
	commit := store.Commit{Execution: l.run.No, Version: l.version, Log: l.log, Steps: l.fx.Rows}
	if l.create {
		commit.Create = &l.row
	}
	if l.fx.Changed {
		c.describe(l, &commit)
	}
	c.commits = append(c.commits, commit)
	return nil
}

// describe brings the execution's row up to date.
func (c *Conductor) describe(l *live, commit *store.Commit) {
	l.row.Status, l.row.Outputs, l.row.Failure, l.row.Progress = l.run.Status(), l.run.Outputs(), l.run.Failure(), l.run.Progress()
	u := &store.Update{Status: l.row.Status, Ended: l.run.Ended(), Outputs: l.row.Outputs, Failure: l.row.Failure, Progress: l.row.Progress}
	if l.row.Started.IsZero() {
		u.Started = l.batch.At
		l.row.Started = time.UnixMicro(l.batch.At)
	}
	l.row.Ended = time.Time{}
	if u.Ended != 0 {
		l.row.Ended = time.UnixMicro(u.Ended)
	}
	if !l.create {
		commit.Update = u
	}
}

// How often, and after what pause, a commit that the store refuses is tried again before the
// conductor gives up. Nothing is lost by giving up: what was not committed has not happened.
const (
	commitTries = 6
	commitPause = 100 * time.Millisecond
)

// commit makes the batch durable. A store that is away for a moment (a full disk, a lock) is tried
// again; meanwhile nothing goes on, because nothing may.
func (c *Conductor) commit() error {
	pause := commitPause
	for try := 1; ; try++ {
		err := c.o.Store.Commit(context.Background(), c.commits)
		if err == nil {
			return nil
		}
		if conflict, ok := errors.AsType[*store.ConflictError](err); ok {
			return fmt.Errorf("commit: %w", conflict)
		}
		if try == commitTries {
			return fmt.Errorf("commit of %d executions: %w", len(c.commits), err)
		}
		c.o.Log.Warn("commit failed, trying again", "error", err, "try", try, "pause", pause)
		time.Sleep(pause)
		pause *= 2
	}
}

// act does what was decided, now that it is durable.
func (c *Conductor) act() {
	c.push = c.push[:0]
	for _, l := range c.touched {
		for _, t := range l.fx.Timers {
			c.timers.add(timer{run: l.run.No, Timer: t})
		}
		if l.rebuilt {
			l.rebuilt = false
			for _, t := range l.run.Pending() {
				c.timers.add(timer{run: l.run.No, Timer: t})
			}
		}
		for _, t := range l.fx.Tasks {
			c.push = append(c.push, queue.Message{Run: t.Run, Idx: t.Idx, Epoch: t.Epoch, Priority: t.Priority, Body: t})
		}
		for _, r := range l.fx.Revokes {
			c.o.Revoke(l.run.No, r.Idx, r.Epoch)
		}
	}
	if len(c.push) > 0 {
		if err := c.o.Queue.Push(context.Background(), c.push); err != nil && !errors.Is(err, queue.ErrClosed) {
			c.o.Log.Error("push failed; the steps are dispatched again when the executions are recovered", "steps", len(c.push), "error", err)
		}
	}
	for i, l := range c.touched {
		c.finishTurn(l)
		c.touched[i] = nil
	}
	c.touched = c.touched[:0]
	clear(c.push)
	clear(c.commits)
}

// finishTurn tells whoever waits or watches, and lets go of what has ended.
func (c *Conductor) finishTurn(l *live) {
	if len(l.fx.Rows)+len(l.fx.Tasks) > 0 || l.fx.Changed {
		c.o.Observe(&Update{Execution: &l.row, Rows: l.fx.Rows, Tasks: l.fx.Tasks, Progress: l.run.Progress()})
	}
	for _, reply := range l.replies {
		reply <- nil
	}
	finished := l.run.Status().Terminal()
	l.create, l.touched, l.replies = false, false, l.replies[:0]
	clear(l.batch.Events)
	l.batch.Events = l.batch.Events[:0]
	l.fx.Reset()
	if finished {
		c.forget(l)
	}
}

// forget lets go of an execution that has ended. What it left is in the store.
func (c *Conductor) forget(l *live) {
	delete(c.runs, l.run.No)
	c.mu.Lock()
	delete(c.byID, l.run.ID)
	c.mu.Unlock()
	c.flushLines()
	close(l.done)
}
