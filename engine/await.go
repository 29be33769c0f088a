package engine

import "github.com/stepwell/stepwell"

// elsewhere reports whether the handler began work outside that may finish while the run drains.
func (w *Wait) elsewhere() bool { return w.Elsewhere || w.Resume && !w.Await }

// settled applies an outside result to a step that awaits it (semantics §3). The step must still be in the wait that
// was meant.
func (r *Run) settled(ev *Event) bool {
	p, ok := r.find(ev.Idx)
	if !ok {
		return false
	}
	n := p.node()
	if n.epoch != ev.Epoch || n.status != stepwell.StepWaiting || !n.info.wait.Await {
		return false
	}
	in := n.info
	r.sleeping--
	r.spend(p, ev)
	n.flags &^= underway
	in.wait, in.loaded = nil, nil
	r.got = arrival{worker: ev.Worker, started: in.started, input: ev.Input}
	switch {
	case ev.Failure != nil:
		n.epoch++      // the wait's timer must not end the backoff
		in.state = nil // the work outside has ended
		r.fail(p, ev)
	case ev.Reason != "":
		r.end(p, stepwell.StepSkipped, &Failure{Code: stepwell.CodeSkipped, Message: ev.Reason})
	default:
		r.complete(p, ev)
	}
	r.got = arrival{}
	return true
}

// Awaiting lists the steps that a signal may end, to be called once after a rebuild. It visits every step.
func (r *Run) Awaiting() []Await {
	if r.main == nil || r.status.Terminal() {
		return nil
	}
	var out []Await
	r.visit(func(p place) {
		if n := p.node(); n.status == stepwell.StepWaiting && n.info.wait.Await {
			out = append(out, p.await())
		}
	})
	return out
}

func (p place) await() Await {
	n := p.node()
	return Await{Idx: p.idx(), Epoch: n.epoch, Key: p.key(), Action: p.step().Action, External: n.info.wait.External, Require: n.info.wait.Require, State: n.info.wait.State, Until: n.info.wake}
}

// unanswered is the end of a wait in which no signal has come.
func unanswered(w *Wait) *Failure {
	return &Failure{Code: stepwell.CodeTimeout, Message: "no answer until " + clock(w.Until)}
}
