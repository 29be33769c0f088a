package engine

import "github.com/stepwell/stepwell"

// Pending lists the timers of a run, to be called once after a rebuild. It visits every step.
func (r *Run) Pending() []Timer {
	if r.main == nil || r.status.Terminal() || r.Held() { // a held execution has no time yet
		return nil
	}
	out := r.own()
	r.visit(func(p place) {
		n, step := p.node(), p.step()
		switch {
		case n.status == stepwell.StepRetrying || n.status == stepwell.StepWaiting:
			if n.info.wake == 0 && n.info.wait != nil && n.info.wait.Await {
				return // no time at all
			}
			out = append(out, Timer{At: n.info.wake, Idx: p.idx(), Epoch: n.epoch})
		case n.status == stepwell.StepRunning && step.Body != nil && step.Policy.Timeout > 0:
			out = append(out, Timer{At: n.info.started + step.Policy.Timeout.Microseconds(), Idx: p.idx(), Epoch: n.epoch})
		}
	})
	return out
}

func (r *Run) timer(at int64, idx int32, epoch uint32) {
	r.fx.Timers = append(r.fx.Timers, Timer{At: at, Idx: idx, Epoch: epoch})
}

// arm starts the execution's own time.
func (r *Run) arm() {
	r.armed = r.now
	r.arming++
	r.fx.Timers = append(r.fx.Timers, r.own()...)
}

// timerDue is the end of a backoff, of a wait, of a group's or the execution's time. A timer names the
// epoch that it was set for; one of another epoch has become pointless.
func (r *Run) timerDue(ev *Event) bool {
	if ev.Idx < 0 && (ev.Epoch != r.arming || r.arming == 0) {
		return false
	}
	switch ev.Idx {
	case expectedTimer, maximumTimer:
		return r.breach(ev.Idx)
	case timeoutTimer:
		return r.plan.Timeout > 0 &&
			r.halt(stepwell.ExecutionTimedOut, "the pipeline's timeout of "+r.plan.Timeout.String()+" passed")
	}
	p, ok := r.find(ev.Idx)
	if !ok || p.node().epoch != ev.Epoch {
		return false
	}
	switch p.node().status {
	case stepwell.StepRetrying:
		r.sleeping--
		p.node().status = stepwell.StepPending
		if p.step().Body != nil {
			r.todo(p, openAgain)
		} else {
			r.makeReady(p)
		}
	case stepwell.StepWaiting:
		r.sleeping--
		r.wakeUp(p)
	case stepwell.StepRunning:
		return p.step().Body != nil && r.timeOutBody(p)
	default:
		return false
	}
	return true
}

// wakeUp goes on with a step that waited.
func (r *Run) wakeUp(p place) {
	n := p.node()
	in := n.info
	w, loaded := in.wait, in.loaded
	in.wait, in.loaded = nil, nil
	if in.until > 0 && r.now >= in.until && (w.Resume || w.Until > in.until || w.Await && w.Until <= 0) {
		r.got = arrival{worker: in.worker, started: in.started}
		r.fail(p, &Event{Failure: &Failure{Code: stepwell.CodeTimeout, Message: "not ended within " + p.step().Policy.Within.String() + ", waits included"}})
		return
	}
	if w.Resume {
		n.flags |= keepTry
		n.status = stepwell.StepPending
		r.makeReady(p)
		return
	}
	r.got = arrival{worker: in.worker, started: in.started}
	out := w.Output
	switch {
	case len(out) == 0 && w.Await:
		r.fail(p, &Event{Failure: unanswered(w)})
		return
	case len(out) == 0:
		out = []byte("{}")
	}
	r.complete(p, &Event{Output: out, Loaded: loaded})
}

// timeOutBody stops the inside of a group or a sub-pipeline whose time has passed.
func (r *Run) timeOutBody(p place) bool {
	in := p.node().info
	if in.err != nil {
		return false
	}
	reason := "the timeout of " + p.step().Policy.Timeout.String() + " passed"
	in.err = &Failure{Code: stepwell.CodeTimeout, Message: "not ended: " + reason}
	r.stopInside(p, stop{level: cancelling, cause: stepwell.StepTimedOut, reason: reason})
	return true
}
