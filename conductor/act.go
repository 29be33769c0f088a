package conductor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/store"
)

// pushPause is the pause before a refused push is retried.
const pushPause = time.Second

// act carries out the decisions of the turn, which are durable now.
func (c *Conductor) act() {
	ended := false
	for _, l := range c.touched {
		timers, awaits, since := l.fx.Timers, l.fx.Awaits, l.batch.At
		rebuilt := l.rebuilt
		if l.rebuilt {
			timers, awaits, since = l.run.Pending(), l.run.Awaiting(), 0
			if l.rebuilt = false; len(l.flying) > 0 {
				c.o.Expect(l.run.No, l.flying)
				l.flying = nil
			}
		}
		c.awaitNoMore(l, l.fx.Rows)
		c.awaitSignals(l, awaits, since)
		ended = ended || l.run.Status().Terminal()
		for _, t := range timers {
			c.timers.add(timer{run: l.run.No, Timer: t})
		}
		for _, t := range l.fx.Tasks {
			c.intoQueue(l, t)
			waits := l.batch.At
			if rebuilt {
				waits = l.run.QueuedAt(t.Idx)
			}
			c.push = append(c.push, queue.Message{Run: t.Run, Idx: t.Idx, Epoch: t.Epoch, Priority: t.Priority, Queue: t.Queue, Since: uint32(waits / 1e6), Body: t})
		}
		for _, r := range l.fx.Revokes {
			c.o.Revoke(l.run.No, r.Idx, r.Epoch)
		}
		for i := range l.outside {
			c.o.Cancel(l.outside[i])
		}
		if !l.run.Status().Terminal() {
			c.observe(l) // before a worker has its steps, whose lines and progress observers would not know yet
		}
	}
	c.dispatch()
	if ended {
		c.flushLines() // so that the log is whole before an end is announced
	}
	for i, l := range c.touched {
		c.finishTurn(l)
		c.touched[i] = nil
	}
	c.touched = c.touched[:0]
	clear(c.commits)
	c.timers.prune(func(run int64) bool { return c.runs[run] != nil })
}

// dispatch pushes tasks. Refused tasks are retried; a task pushed twice does no harm.
func (c *Conductor) dispatch() {
	if len(c.push) == 0 {
		return
	}
	c.repush = 0
	err := c.o.Queue.Push(context.Background(), c.push)
	if err != nil && !errors.Is(err, queue.ErrClosed) { // a closed queue has no workers, and the process ends
		c.repush = c.now() + pushPause.Microseconds()
		c.o.Log.Error("push failed, retrying", "steps", len(c.push), "error", err)
		return
	}
	clear(c.push)
	c.push = c.push[:0]
}

// refusedPush reports whether a refused push is due for a retry.
func (c *Conductor) refusedPush() bool { return c.repush > 0 && c.now() >= c.repush }

// finishTurn answers and notifies, and unloads ended executions.
func (c *Conductor) finishTurn(l *live) {
	finished := l.run.Status().Terminal()
	if finished {
		c.observe(l)
	}
	if l.created != nil {
		*l.created, l.created = l.row, nil
	}
	for _, reply := range l.replies {
		reply <- nil
	}
	if l.create {
		c.release(l.row.Key, l.claim)
	}
	l.create, l.touched, l.broke, l.replies, l.taken, l.outside, l.counted = false, false, false, l.replies[:0], nil, nil, nil
	clear(l.batch.Events)
	l.batch.Events = l.batch.Events[:0]
	l.fx.Reset()
	if finished {
		c.forget(l)
	}
}

// observe tells what the turn has changed in an execution.
func (c *Conductor) observe(l *live) {
	since := l.told
	l.told = l.version
	if len(l.fx.Rows)+len(l.fx.Tasks)+len(l.fx.Superseded) == 0 && !l.fx.Changed {
		return
	}
	u := &Update{Execution: &l.row, StepChanges: store.StepChanges{Since: since, Version: l.version, Rows: l.fx.Rows, Tasks: l.fx.Tasks, Superseded: len(l.fx.Superseded) > 0},
		Progress: l.run.Progress(), At: l.batch.At, Counted: l.counted}
	if l.broke {
		u.Breached = l.breached
	}
	c.notify(u)
}

// notify keeps an observer's panic from ending all executions.
func (c *Conductor) notify(u *Update) {
	defer func() {
		if v := recover(); v != nil {
			c.o.Log.Error("an observer panicked", "execution", u.Execution.ID, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		}
	}()
	c.o.Observe(u)
}

// forget unloads an execution that has ended or was refused.
func (c *Conductor) forget(l *live) {
	l.gone = true
	c.leave(l)
	c.awaitNothing(l)
	c.release(l.row.Key, l.claim)
	delete(c.runs, l.run.No)
	c.mu.Lock()
	delete(c.byID, l.run.ID)
	c.mu.Unlock()
	c.o.Secrets.Forget(l.run.ID)
	close(l.done)
}
