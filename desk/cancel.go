package desk

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/engine"
)

// cancel is a call of Cancel that a worker elsewhere is to make. The desk's lock guards it.
type cancel struct {
	task   wire.Task
	secret bool     // needs a link that nobody can listen to
	holder *session // nil: nobody has been given it
	ended  chan wire.Outcome
}

// Cancel is worker.Options.CancelElsewhere: it offers the call to the workers that serve the action and can cancel, and waits for the
// outcome until ctx ends. CodeUnavailable: there is no such worker. The caller keeps the durable row and repeats the call.
func (d *Desk) Cancel(ctx context.Context, t *engine.Task, state json.RawMessage, h action.Host) error {
	c := &cancel{secret: string(state) != string(t.State), ended: make(chan wire.Outcome, 1)}
	k := id{t.Execution, t.Idx, t.Epoch}
	c.task = wire.Task{ID: k.wire(), ExecutionID: t.Execution, ExecutionNo: t.Run, StepKey: t.Key, StepName: stepName(t), Action: t.Step.Action, Attempt: t.Attempt, Params: []byte("{}"), State: state}
	c.task.Kind = wire.Cancel
	if end, ok := ctx.Deadline(); ok {
		c.task.TimeoutMS = time.Until(end).Milliseconds()
	}
	if err := d.offerCancel(k, c); err != nil {
		return err
	}
	defer d.dropCancel(k, c)
	select {
	case o := <-c.ended:
		logLines(h, o.Log)
		return cancelError(&o)
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-d.serving.Done():
		return context.Canceled
	}
}

// offerCancel makes a call known to those who may take it.
func (d *Desk) offerCancel(k id, c *cancel) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	anyone := false
	for _, s := range d.sessions {
		if d.mayCancel(s, c) && d.o.Now().Sub(s.seen) <= d.o.Lease+wire.MaxWaitMS*time.Millisecond {
			anyone = true
			s.ring()
		}
	}
	if !anyone {
		return stepwell.Errorf(stepwell.CodeUnavailable, "start one; a state with secrets goes over TLS, and within this machine, alone", "no worker is here that stops work of the action %q", c.task.Action)
	}
	d.cancels[k] = c
	return nil
}

// mayCancel reports whether a worker may be given a call. The caller holds the lock.
func (d *Desk) mayCancel(s *session, c *cancel) bool {
	return s.cancels[c.task.Action] && !s.draining && (s.caller.Secure || !c.secret)
}

// dropCancel ends a call: a later outcome of it changes nothing.
func (d *Desk) dropCancel(k id, c *cancel) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cancels[k] == c {
		delete(d.cancels, k)
	}
}

// drawCancels gives a worker the calls that nobody has been given. The caller holds the lock.
func (d *Desk) drawCancels(s *session) (list []wire.Task) {
	for _, c := range d.cancels {
		if c.holder == nil && d.mayCancel(s, c) {
			c.holder = s
			list = append(list, c.task)
		}
	}
	return list
}

// undoCancels takes calls back that have not reached their worker. The caller holds the lock.
func (d *Desk) undoCancels(s *session, list []wire.Task) {
	if len(list) > 0 {
		d.loseCancels(s)
	}
}

// loseCancels offers the calls of a worker to others, or to itself again. The caller holds the lock.
func (d *Desk) loseCancels(s *session) {
	for _, c := range d.cancels {
		if c.holder != s {
			continue
		}
		c.holder = nil
		for _, other := range d.sessions {
			if d.mayCancel(other, c) {
				other.ring()
			}
		}
	}
}

// retryCancels tells that a worker has joined.
func (d *Desk) retryCancels(actions []wire.Action) {
	names := map[string]bool{}
	for i := range actions {
		if actions[i].Cancels {
			names[actions[i].Name] = true
		}
	}
	if len(names) > 0 && d.p.RetryCancels != nil {
		d.p.RetryCancels(func(name string) bool { return names[name] })
	}
}

// settleCancels takes the outcomes of calls in, and returns those of attempts. Calls that are not the worker's are forgotten.
func (d *Desk) settleCancels(s *session, outcomes []wire.Outcome, out *wire.Turned) (rest []wire.Outcome) {
	rest = outcomes
	for i := range outcomes {
		o := &outcomes[i]
		if o.Kind == "" {
			if len(rest) < len(outcomes) {
				rest = append(rest, *o)
			}
			continue
		}
		if len(rest) == len(outcomes) {
			rest = outcomes[:i:i]
		}
		if err := d.settleCancel(s, o); err != nil {
			out.Refused = append(out.Refused, wire.Refused{ID: o.ID, Code: stepwell.CodeOf(err), Message: err.Error()})
			continue
		}
		out.Committed = append(out.Committed, o.ID)
	}
	return rest
}

func (d *Desk) settleCancel(s *session, o *wire.Outcome) error {
	k, err := idOf(o.ID)
	switch {
	case err != nil:
		return err
	case o.Kind != wire.Cancel || o.Status != wire.Completed && o.Status != wire.Failed:
		return stepwell.Invalid("", "kind is %q and status is %q, not %q and %s or %s", stepwell.Head(o.Kind, wire.MaxName), stepwell.Head(o.Status, wire.MaxName), wire.Cancel, wire.Completed, wire.Failed)
	case len(o.Log) > maxLines:
		return stepwell.Errorf(stepwell.CodeLimit, "", "an outcome carries at most %d lines", maxLines)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.cancels[k]; c != nil && (c.holder == s || c.holder == nil && d.mayCancel(s, c)) {
		delete(d.cancels, k)
		c.ended <- *o // has room for one
	}
	return nil
}

// cancelError is an outcome as Cancel returns it.
func cancelError(o *wire.Outcome) error {
	if o.Status == wire.Completed {
		return nil
	}
	failure := failureOf(o.Error)
	if o.Permanent {
		return action.Fail(failure)
	}
	return failure
}
