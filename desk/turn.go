package desk

import (
	"context"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/worker"
)

// turn is one turn of a worker.
func (d *Desk) turn(ctx context.Context, s *session, in *wire.Turn) (*wire.Turned, error) {
	if len(in.Outcomes) > wire.MaxOutcomes || len(in.Holding)+len(in.Back)+len(in.Took) > wire.MaxHolding {
		return nil, stepwell.Errorf(stepwell.CodeLimit, "", "a turn carries at most %d outcomes and %d held attempts", wire.MaxOutcomes, wire.MaxHolding)
	}
	d.mu.Lock()
	err := d.renew(s, in.Holding)
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	out := &wire.Turned{Tasks: []wire.Task{}, Stop: []wire.ID{}, Committed: []wire.ID{}, Refused: []wire.Refused{}}
	stop, err := d.took(ctx, s, in.Took)
	if err != nil {
		return nil, err
	}
	if err := d.giveBack(ctx, s, in.Back); err != nil {
		return nil, err
	}
	away, run := d.settle(ctx, s, d.settleCancels(s, in.Outcomes, out), in.Want > 0 && !in.Leaving, out)
	if len(away) > 0 { // which may take a while
		d.asked(s, run)
		run = 0
		d.forwardOutcomes(ctx, s, away, out)
	}
	if in.Leaving {
		d.leave(ctx, s)
		return out, nil
	}
	wait := time.Duration(min(max(in.WaitMS, 0), wire.MaxWaitMS)) * time.Millisecond
	if len(in.Outcomes)+len(in.Took) > 0 {
		wait = 0
	}
	d.deal(ctx, s, in.Want, wait, out)
	d.asked(s, run)
	if len(out.Tasks)+len(out.Committed) > 0 {
		d.refund(s)
	}
	out.Stop = append(out.Stop, stop...)
	return out, nil
}

// held back by a limit of a queue, tasks are looked for again after limitPause.
const limitPause = 100 * time.Millisecond

// deal adds tasks and stops to an answer, and waits for the first of them.
func (d *Desk) deal(ctx context.Context, s *session, want int, wait time.Duration, out *wire.Turned) {
	var over <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		over = timer.C
	}
	for {
		d.mu.Lock()
		news := s.bell()
		stop, fresh := d.stops(s)
		out.Cancels = d.drawCancels(s)
		fresh = fresh || len(out.Cancels) > 0
		out.Drain = s.draining
		if s.nodes != d.nodesNo && s.caller.Name == "" {
			out.Nodes, s.nodes, fresh = d.nodes, d.nodesNo, true
		}
		gone := d.left(s)
		d.mu.Unlock()
		out.Stop = stop
		if want > 0 {
			out.Tasks = d.take(ctx, s, want)
		}
		if len(out.Tasks) > 0 || fresh || out.Drain || wait <= 0 || gone {
			return
		}
		pause := d.pause(s, want)
		select {
		case <-news:
		case <-pause:
		case <-over:
			return
		case <-d.serving.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// pause is how long to wait for a limit that holds back what a worker could take; nil: nothing is held back.
func (d *Desk) pause(s *session, want int) <-chan time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if want > 0 && d.anyFor(s) {
		return time.After(limitPause)
	}
	return nil
}

// stops lists what a worker is to stop; fresh says that it has not been told of all. The caller holds the lock.
func (d *Desk) stops(s *session) (list []wire.ID, fresh bool) {
	list = []wire.ID{}
	if !s.revoked {
		return list, false
	}
	s.revoked = false
	for a := range s.held {
		if a.revoked {
			s.revoked = true
			fresh = fresh || !a.told
			a.told = true
			list = append(list, a.wire())
		}
	}
	return list, fresh
}

// take finds tasks for a worker, makes it their holder, and renders them.
func (d *Desk) take(ctx context.Context, s *session, want int) []wire.Task {
	drawn := d.draw(s, want)
	tasks := make([]wire.Task, 0, len(drawn))
	for _, a := range drawn {
		if t, ok := d.finish(ctx, a, s, true); ok {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// draw takes tasks out of the queue for a worker.
func (d *Desk) draw(s *session, want int) (list []*attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	want = min(want, wire.MaxOutcomes, s.concurrency+maxCredit-len(s.held)+s.settling)
	if want <= 0 || s.draining || d.stopped || d.left(s) || !d.anyFor(s) {
		return nil
	}
	leases := d.queue.Take(nil, want, func(m *queue.Message) bool {
		t, ok := m.Body.(*engine.Task)
		return ok && d.suits(t, s)
	})
	for _, l := range leases {
		t := l.Body.(*engine.Task)
		a := d.attempts[id{t.Execution, t.Idx, t.Epoch}]
		if a == nil || a.state != waiting {
			_ = d.queue.Ack(context.Background(), []queue.Lease{l}) // pushed twice, or no longer wanted
			continue
		}
		d.hold(a, s, l)
		list = append(list, a)
	}
	return list
}

// suits reports whether a task may go to a worker. The caller holds the lock.
func (d *Desk) suits(t *engine.Task, s *session) bool {
	if !s.actions[t.Step.Action] || !d.serves(s, t.Queue) || len(t.Members) > 0 && !d.leaves(t) || !d.mayGo(t.Step.Action) || d.listed(t) {
		return false
	}
	if s.caller.Secure {
		return true
	}
	a := d.attempts[id{t.Execution, t.Idx, t.Epoch}]
	return !t.Step.Secrets && (a == nil || !a.secret)
}

// isLocal reports whether the local pool runs a task. The caller holds the lock.
func (d *Desk) isLocal(t *engine.Task) bool {
	name := t.Step.Action
	if d.p.Actions == nil {
		return true
	}
	if len(t.Members) > 0 {
		return !d.o.Conducts || !d.leaves(t)
	}
	return !d.p.Actions.Announced(name) && !(d.o.Conducts && d.mayGo(name)) && !d.goesOut(t)
}

// mayGo reports whether calls of an action can be finished here: no template is left for the handler. The caller holds the
// lock.
func (d *Desk) mayGo(name string) bool {
	may, known := d.portable[name]
	if !known {
		about, ok := d.p.Actions.Spec(name)
		if !ok {
			return false // it may be announced yet
		}
		may = Portable(about) == nil
		d.portable[name] = may
	}
	return may
}

// finish renders a task for its holder; direct says that it goes over the holder's own link. A task that cannot be rendered has
// failed.
func (d *Desk) finish(ctx context.Context, a *attempt, s *session, direct bool) (wire.Task, bool) {
	p, params, ok := d.render(ctx, a)
	if !ok {
		return wire.Task{}, false
	}
	d.mu.Lock()
	secure := direct && s.caller.Secure
	d.mu.Unlock()
	if !secure && d.hasSecrets(a, &p, params) {
		d.mu.Lock()
		a.secret = true
		d.putBack(a)
		d.mu.Unlock()
		return wire.Task{}, false
	}
	if len(a.task.Members) > 0 {
		return d.segmentCall(ctx, a, &p, params)
	}
	return d.call(a, &p, params), true
}

// call is a task as it goes out.
func (d *Desk) call(a *attempt, p *worker.Prepared, params []byte) wire.Task {
	t, x := a.task, d.p.Runner.Remote(context.Background(), *p)
	d.mu.Lock()
	if a.remote != nil {
		a.remote.Close()
	}
	a.remote = x
	d.mu.Unlock()
	media, _, _ := worker.MediaToken(t.About)
	return wire.Task{ID: a.wire(), ExecutionID: t.Execution, ExecutionNo: t.Run, Pipeline: t.Pipeline, StepKey: t.Key, StepName: stepName(t), Action: t.Step.Action,
		Attempt: t.Attempt, Params: params, State: p.State, TimeoutMS: x.Timeout().Milliseconds(), Dir: t.Dir, LogLevel: t.Step.Policy.LogLevel,
		NotIdempotent: t.Step.Policy.NotIdempotent, Media: media}
}

// stepName is the name of a task's step.
func stepName(t *engine.Task) string {
	if t.Step.Name == "" {
		return t.Step.ID
	}
	return t.Step.Name
}
