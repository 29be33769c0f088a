package engine

import (
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
)

// stop is why and how nothing new starts in a scope.
type stop struct {
	level  level
	cause  stepwell.StepStatus // cancelled or timed out when it came from outside; 0: another step of the scope failed
	reason string
	step   string // that failed
}

// level says how hard a stop is.
type level uint8

const (
	draining   level = iota + 1 // running steps may finish
	cancelling                  // running steps are asked to stop
)

// add makes a stop harder. It reports whether that changed it.
func (s *stop) add(x stop) bool {
	if x.level <= s.level && (x.cause == 0 || s.cause != 0) {
		return false
	}
	if s.level == 0 || x.cause != 0 {
		s.cause, s.reason, s.step = x.cause, x.reason, x.step
	}
	s.level = max(s.level, x.level)
	return true
}

// bars reports whether a step that is not running may not go on.
func (s *stop) bars(n *node) bool {
	return s.level == cancelling || s.level == draining && n.flags&underway == 0
}

// stopScope stops a scope and everything inside it.
func (r *Run) stopScope(s *scope, st stop) {
	if !s.ended && s.stop.add(st) {
		r.sweep(s)
	}
}

// sweep carries a scope's stop out: pending and sleeping steps end, and running ones are asked to end if the stop
// says so. It visits every step of the scope.
func (r *Run) sweep(s *scope) {
	if s.ended {
		return
	}
	for i := range s.nodes {
		p := place{s, int32(i)}
		switch n := &s.nodes[i]; n.status {
		case stepwell.StepPending:
			if s.stop.bars(n) && !p.led() {
				r.cutShort(p)
			}
		case stepwell.StepRetrying, stepwell.StepWaiting:
			if s.stop.bars(n) {
				r.sleeping--
				r.cutShort(p)
			}
		case stepwell.StepQueued, stepwell.StepRunning:
			if p.step().Body != nil {
				n.flags |= halted
				r.stopInside(p, s.stop)
			} else if s.stop.level == cancelling && n.flags&revoking == 0 {
				n.flags |= revoking
				r.fx.Revokes = append(r.fx.Revokes, Revoke{Idx: p.idx(), Epoch: n.epoch})
			}
		}
	}
}

// cutShort ends a step that a stop has kept from starting or from finishing. A step that was waiting for its retry
// has failed.
func (r *Run) cutShort(p place) {
	n, st := p.node(), &p.s.stop
	n.flags |= halted | judged
	p.s.cut = true
	r.leave(p)
	retrying := n.status == stepwell.StepRetrying && n.flags&keepTry == 0
	if in := n.info; in != nil && r.got.started == 0 {
		r.got.worker, r.got.started = in.worker, in.started
	}
	switch {
	case retrying && st.cause == 0:
		f := *n.info.last
		r.end(p, failureStatus(&f), &f)
	case n.attempt > 0 && st.cause == stepwell.StepTimedOut:
		r.end(p, stepwell.StepTimedOut, &Failure{Code: stepwell.CodeTimeout, Message: "stopped: " + st.reason, Step: st.step})
	case n.attempt > 0:
		r.end(p, stepwell.StepCancelled, &Failure{Code: stepwell.CodeCancelled, Message: "stopped: " + st.reason, Step: st.step})
	case st.cause == stepwell.StepCancelled:
		r.end(p, stepwell.StepCancelled, &Failure{Code: stepwell.CodeCancelled, Message: "not started: " + st.reason})
	default:
		r.end(p, stepwell.StepSkipped, &Failure{Code: stepwell.CodeSkipped, Message: "not started: " + st.reason, Step: st.step})
	}
}

// stopInside stops the steps inside a group, for_each or sub-pipeline. Handlers of a sub-pipeline may finish, like
// those of the pipeline itself.
func (r *Run) stopInside(p place, st stop) {
	in := p.node().ensure()
	if in.body != nil {
		r.stopScope(in.body, st)
	}
	if e := in.each; e != nil {
		e.stopped = true
		for _, s := range e.live() {
			r.stopScope(s, st)
		}
		r.todo(p, moreItems)
	}
}

// insist cancels an ending execution: waiting steps of handlers end. If nobody has cancelled it before, the first
// cancel during handlers is only recorded: handlers may finish.
func (r *Run) insist(why string) bool {
	if r.status.Terminal() {
		return false
	}
	if r.status != stepwell.ExecutionCancelling {
		r.setStatus(stepwell.ExecutionCancelling)
		return true
	}
	var waiting []place
	r.visit(func(p place) {
		if s := p.node().status; s == stepwell.StepWaiting || s == stepwell.StepRetrying {
			waiting = append(waiting, p)
		}
	})
	for _, p := range waiting {
		n := p.node()
		r.sleeping--
		n.flags |= halted | judged
		r.leave(p)
		r.got.worker, r.got.started = n.info.worker, n.info.started
		if f := n.info.last; n.status == stepwell.StepRetrying && n.flags&keepTry == 0 {
			r.end(p, failureStatus(f), f)
		} else {
			r.end(p, stepwell.StepCancelled, &Failure{Code: stepwell.CodeCancelled, Message: strings.TrimSuffix("stopped: cancelled again: "+why, ": ")})
		}
	}
	return len(waiting) > 0
}

// halt cancels the execution or ends it for lack of time. Halting twice, or after the end, or
// while handlers run, changes nothing (see insist).
func (r *Run) halt(cause stepwell.ExecutionStatus, why string) bool {
	if r.status.Terminal() || r.cause != 0 || r.main.phase != phaseMain {
		return false
	}
	if why == "" {
		why = "cancelled"
	}
	if r.Held() {
		r.drop(why)
		return true
	}
	r.cause = cause
	code, step := stepwell.CodeCancelled, stepwell.StepCancelled
	if cause == stepwell.ExecutionTimedOut {
		code, step = stepwell.CodeTimeout, stepwell.StepTimedOut
	}
	r.failure = &Failure{Code: code, Message: why}
	r.setStatus(stepwell.ExecutionCancelling)
	r.stopScope(r.main, stop{level: cancelling, cause: step, reason: why})
	return true
}

func (r *Run) pause() (bool, error) {
	switch r.status {
	case stepwell.ExecutionPaused:
		return false, nil
	case stepwell.ExecutionRunning, stepwell.ExecutionPending:
		r.setStatus(stepwell.ExecutionPaused)
		return true, nil
	}
	return false, &stepwell.Error{Code: stepwell.CodeConflict, Message: "an execution that is " + r.status.String() + " cannot be paused"}
}

func (r *Run) resume() (bool, error) {
	switch r.status {
	case stepwell.ExecutionRunning, stepwell.ExecutionPending:
		return false, nil
	case stepwell.ExecutionPaused:
		if r.Held() {
			r.setStatus(stepwell.ExecutionPending)
		} else {
			r.setStatus(stepwell.ExecutionRunning)
		}
		return true, nil
	}
	return false, &stepwell.Error{Code: stepwell.CodeConflict, Message: "an execution that is " + r.status.String() + " cannot be resumed"}
}

// visit calls f for every step that exists, in order of index.
func (r *Run) visit(f func(place)) {
	for i := range r.main.graph.Steps {
		f(place{r.main, int32(i)})
	}
	rest := make([]int32, 0, len(r.where))
	for idx := range r.where {
		rest = append(rest, idx)
	}
	slices.Sort(rest)
	for _, idx := range rest {
		if p, ok := r.where[idx]; ok {
			f(p)
		}
	}
}
