package conductor

import (
	"context"
	"fmt"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Run is the loop: take events in, decide, commit, act. It returns when ctx ends, after every earlier item, or with
// an error when the store fails for good: uncommitted decisions have then not happened, and every waiting caller gets
// the error.
func (c *Conductor) Run(ctx context.Context) (err error) {
	defer func() { c.shut(err) }()
	flushing, endFlush := context.WithCancel(context.WithoutCancel(ctx))
	flushed := make(chan struct{})
	go func() { defer close(flushed); c.flushLoop(flushing) }()
	defer func() { endFlush(); <-flushed }()
	alarm := time.NewTimer(maxWait)
	defer alarm.Stop()
	c.ctx = ctx
	for {
		if err := c.hold(ctx); err != nil {
			return err
		}
		c.inbox.settle()
		if worked, err := c.work(ctx); err != nil {
			return err
		} else if worked {
			continue
		}
		alarm.Reset(c.sleep())
		select {
		case <-ctx.Done():
			return c.turns(ctx, c.inbox.close(errStopped), nil)
		case <-c.inbox.ring:
		case <-c.o.Outage.Began(): // see hold
		case <-alarm.C:
		}
	}
}

// work takes in what is there and due. It reports whether there was anything.
func (c *Conductor) work(ctx context.Context) (worked bool, err error) {
	batch := c.inbox.take()
	due := c.timers.due(c.now())
	if len(batch) == 0 && len(due) == 0 && !c.more && !c.refusedPush() && !c.waiters.overdue(c.now()) {
		return false, nil
	}
	return true, c.turns(ctx, batch, due)
}

// sleep is the time until the next work unless the inbox rings.
func (c *Conductor) sleep() time.Duration {
	d := c.timers.wait(c.now())
	if c.repush > 0 || len(c.waiters.again) > 0 {
		d = min(d, pushPause)
	}
	return d
}

// shut answers all waiting callers.
func (c *Conductor) shut(cause error) {
	c.cause = cause
	for _, it := range c.inbox.close(c.stopped()) {
		c.answer(it.reply, c.stopped())
	}
	c.numbers.mu.Lock() // from here on no more numbers are fetched
	close(c.stop)
	c.numbers.mu.Unlock()
	c.numbers.fetching.Wait()
	c.elsewhere.Wait()
}

// turns takes a batch in, in as many turns as its size takes.
func (c *Conductor) turns(ctx context.Context, batch []item, due []timer) error {
	for {
		n := fitting(batch)
		if err := c.process(ctx, batch[:n], due); err != nil {
			return err
		}
		if batch, due = batch[n:], nil; len(batch) == 0 {
			return nil
		}
	}
}

// process is one turn of the loop.
func (c *Conductor) process(ctx context.Context, batch []item, due []timer) error {
	for i := range due {
		c.apply(&item{run: due[i].run, ev: engine.Event{Kind: engine.TimerDue, At: c.now(), Idx: due[i].Idx, Epoch: due[i].Epoch}})
	}
	for i := range batch {
		c.apply(&batch[i])
	}
	c.more = false
	c.deliverDue()
	if c.failed != nil {
		return c.failed
	}
	c.admit()
	now := c.now()
	c.commits = c.commits[:0]
	for _, l := range c.touched {
		if err := c.prepare(l, now); err != nil {
			return err
		}
	}
	if len(c.commits) > 0 {
		if err := c.commit(ctx); err != nil {
			return err
		}
	}
	c.act()
	return nil
}

// apply lets the engine take one item in. An item without effect is answered at once, unless it may depend on
// uncommitted changes of this batch.
func (c *Conductor) apply(it *item) {
	if it.do != nil && it.on == nil {
		it.do(it)
		return
	}
	l := c.runs[it.run]
	switch {
	case it.on != nil && it.on.gone, it.on == nil && l == nil:
		c.answer(it.reply, errGone) // no caller needs a late report's answer
		return
	case l != nil && it.on != nil && l != it.on && it.on.create: // of before the store lost it; Verify lets it go
		c.answer(it.reply, &store.Refusal{Execution: it.run, Why: store.VersionTaken, Err: &stepwell.Error{Code: stepwell.CodeConflict,
			Message: fmt.Sprintf("the number %d is that of another execution here", it.run)}})
		return
	case l == nil && it.ev.Kind == engine.Start && !c.enter(it):
		return // it comes again
	case l == nil:
		l = c.takeUp(it.on)
	}
	if it.do != nil {
		it.do(it)
		return
	}
	var changed bool
	var err error
	if it.ev.Kind == engine.Start && l.create {
		err = c.judge(l, it.ev.Begin)
	}
	if err == nil {
		changed, err = c.tell(l, &it.ev)
	}
	switch {
	case err == nil && !changed && it.ev.Kind == engine.Running:
		err = errStale
	case err != nil && it.reply == nil && stepwell.CodeOf(err) != stepwell.CodeConflict:
		c.o.Log.Error("a report was refused", "execution", l.run.ID, "step", it.ev.Idx, "error", err)
	}
	if err != nil && !l.touched && (l.create || l.run.Status().Terminal()) {
		l.refused = err
		c.forget(l) // loaded only for this request; unloaded before the answer
	}
	c.enroll(l)
	switch {
	case err == nil && it.reply != nil && l.touched:
		l.replies = append(l.replies, it.reply)
	default:
		c.answer(it.reply, err)
	}
}

// takeUp begins to run an execution. Attempts in flight are expected from workers, or were lost with the process.
func (c *Conductor) takeUp(l *live) *live {
	c.runs[l.run.No] = l
	l.breached = l.row.Progress.Breached
	if l.rebuilt {
		c.enroll(l)
	}
	if l.rebuilt && !l.run.Status().Terminal() {
		if c.o.Expect != nil {
			l.flying = l.run.Flying()
		} else if _, err := c.tell(l, &engine.Event{Kind: engine.Recovered, At: c.now()}); err != nil {
			c.o.Log.Error("an execution cannot continue", "execution", l.run.ID, "error", err)
		}
		c.touch(l) // for its timers
	}
	return l
}

// tell applies an event and records it.
func (c *Conductor) tell(l *live, ev *engine.Event) (changed bool, err error) {
	if ev.Kind == 0 {
		return false, nil
	}
	if changed, err = l.run.Apply(ev, &l.fx); changed {
		l.batch.Events = append(l.batch.Events, *ev)
		c.touch(l)
	}
	return changed, err
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
	if l.told == 0 { // it came from the store with its first versions, or is new
		l.told = l.version
	}
	l.version++
	commit := store.Commit{Execution: l.run.No, Version: l.version, Log: l.log, Steps: l.fx.Rows, Superseded: l.fx.Superseded, Forget: l.fx.Forget}
	if l.create {
		commit.Create = &l.row
	}
	before := l.row.Status
	if l.fx.Changed || now-l.described >= describeEvery.Microseconds() {
		l.described = now
		c.describe(l, &commit)
	}
	if l.fx.Changed {
		if commit.Outbox, err = c.outgoing(l); err != nil {
			return err
		}
	}
	if n := l.fx.Processed; n.Done > 0 {
		commit.Progress = []store.Count{{Project: l.run.Project(), Done: n.Done, Errors: n.Errors}}
		l.counted = commit.Progress
	}
	if !l.fx.Spent.None() {
		commit.Usage = l.row.Used(l.fx.Spent)
	}
	if l.row.Status.Terminal() && !before.Terminal() {
		commit.Usage = append(commit.Usage, l.row.Ends(l.run.Charged(), c.o.Owner))
		commit.Usage = l.row.Charged(commit.Usage, l.run.Charges(), c.o.Owner)
		if expected, maximum, took, ok := l.run.Promise(); ok {
			commit.Usage = l.row.Promised(commit.Usage, expected, maximum, took, c.o.Owner)
		}
	}
	l.outside = c.givenUp(l, now)
	commit.Outside = l.outside
	commit.Taken = l.taken
	c.commits = append(c.commits, commit)
	return nil
}

// givenUp is the work outside that steps have left with this batch.
func (c *Conductor) givenUp(l *live, now int64) (out []store.OutsideWork) {
	for _, t := range l.fx.Cancels {
		if c.o.Cancels(t.Step.Action) {
			at := time.UnixMicro(now)
			out = append(out, store.OutsideWork{Execution: t.Run, ExecutionID: t.Execution, Step: t.Idx, Epoch: t.Epoch, Attempt: t.Attempt, StepKey: t.Key,
				Action: t.Step.Action, State: t.State, Since: at, Next: at})
		}
	}
	return out
}

// describeEvery is how old the progress in an execution's row may get while it makes any.
const describeEvery = time.Second

// describe brings the execution's row up to date.
func (c *Conductor) describe(l *live, commit *store.Commit) {
	l.row.Status, l.row.Outputs, l.row.Failure, l.row.Progress = l.run.Status(), l.run.Outputs(), l.run.Failure(), l.run.Progress()
	u := &store.Update{Status: l.row.Status, Ended: l.run.Ended(), Outputs: l.row.Outputs, Failure: l.row.Failure, Progress: l.row.Progress}
	if l.row.Started.IsZero() && l.slot == slotTaken {
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
