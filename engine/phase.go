package engine

import (
	"math"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/plan"
)

// scopeEnded takes a scope's result outwards once its last step has ended.
func (r *Run) scopeEnded(s *scope) {
	if s.open > 0 || s.ended || s.closed {
		return
	}
	s.ended = true
	switch pipeline := s.above; {
	case pipeline != nil:
		if pipeline.handlerErr == nil {
			pipeline.handlerErr = s.err
		}
		pipeline.lost = pipeline.lost || s.lost
		r.close(s)
		pipeline.handlers = nil
		r.advance(pipeline)
	case s.iter >= 0:
		r.iterationEnded(s)
	default:
		r.advance(s)
	}
}

// advance goes from a pipeline's steps to its handlers to its end. A group has no handlers.
func (r *Run) advance(s *scope) {
	for {
		s.phase++
		switch on, finally := r.handlersOf(s); {
		case s.phase == phaseOnFailure && on != nil && (s.err != nil || r.timedOut(s)):
			r.openHandlers(s, on, "on_failure.")
			return
		case s.phase == phaseFinally && finally != nil:
			r.openHandlers(s, finally, "finally.")
			return
		case s.phase == phaseOver && s == r.main:
			r.conclude()
			return
		case s.phase == phaseOver:
			r.bodyEnded(s)
			return
		}
	}
}

func (r *Run) handlersOf(s *scope) (onFailure, finally *plan.Graph) {
	if s == r.main {
		return r.plan.OnFailure, r.plan.Finally
	}
	return s.body.OnFailure, s.body.Finally
}

// timedOut: the time of the pipeline has passed before it ended.
func (r *Run) timedOut(s *scope) bool { return s.stop.cause == stepwell.StepTimedOut }

func (r *Run) openHandlers(s *scope, g *plan.Graph, label string) {
	h := r.openScope(g, place{}, nil, -1)
	h.above, h.label = s, label
	s.handlers = h
	r.expect(h.around(), len(g.Steps), g.Weight)
	r.first(h)
}

func (r *Run) conclude() {
	m := r.main
	switch {
	case r.cause != 0:
		r.finish(r.cause, r.failure)
	case m.err != nil:
		r.finish(stepwell.ExecutionFailed, m.err)
	case m.handlerErr != nil:
		r.finish(stepwell.ExecutionFailed, m.handlerErr)
	default:
		status := stepwell.ExecutionCompleted
		if r.withFailures(m) {
			status = stepwell.ExecutionCompletedWithFailures
		}
		out, f := r.renderOutputs(m, r.plan.Outputs)
		if f != nil {
			status = stepwell.ExecutionFailed
		}
		r.outputs = out
		r.finish(status, f)
	}
}

// withFailures: something in the pipeline failed or was left out, and it went on all the same.
func (r *Run) withFailures(s *scope) bool {
	if r.revision < 2 {
		return r.tolerated
	}
	return s.lost
}

func (r *Run) finish(status stepwell.ExecutionStatus, f *Failure) {
	r.failure = f
	r.ended = r.now
	r.late()
	r.setStatus(status)
	r.fx.Finished = true
	r.countExecution(status)
}

// bodyEnded ends the step that a group or a sub-pipeline is the inside of.
func (r *Run) bodyEnded(s *scope) {
	p := s.owner
	in := p.node().info
	var raw []byte
	var fault *Failure
	switch {
	case in.err != nil: // its own time has passed
		fault = in.err
	case s.cut && p.s.stop.cause != 0:
	case s.err != nil:
		fault = s.err
	case s.handlerErr != nil:
		fault = s.handlerErr
	case !s.cut:
		raw, fault = r.bodyResult(s)
	}
	r.close(s)
	in.body = nil
	if s.lost {
		p.node().flags |= partly
	}
	if r.retain {
		in.past = s
	}
	r.got = arrival{started: in.started}
	switch {
	case fault != nil && r.tryAgain(p, fault):
		r.got = arrival{}
	case fault != nil && fault == in.err:
		r.end(p, failureStatus(fault), fault)
	case fault != nil:
		r.end(p, stepwell.StepFailed, fault)
	case s.cut:
		r.cutShort(p)
	default:
		r.bodyOutput(p, in, raw)
		r.end(p, stepwell.StepCompleted, nil)
	}
}

// tryAgain puts a failed group or sub-pipeline aside for its next attempt, if it has one.
func (r *Run) tryAgain(p place, why *Failure) bool {
	n, retry := p.node(), &p.step().Policy.Retry
	if p.s.stop.level > 0 || int(n.attempt) >= min(retry.MaxAttempts, math.MaxUint16) {
		return false
	}
	n.epoch++ // the timer of its timeout is of the attempt before
	in := n.info
	in.err, in.last, in.deferred = nil, why, false
	r.sleep(p, stepwell.StepRetrying, r.now+retry.Delay(int(n.attempt), fraction(r.ID, p.idx(), n.attempt)).Microseconds())
	return true
}

func (r *Run) bodyOutput(p place, in *info, raw []byte) {
	r.got = arrival{output: raw, started: in.started}
	if p.step().Keep {
		in.output = raw
	}
}

// close drops a scope after its results have been taken.
func (r *Run) close(s *scope) {
	s.closed = true
	for i := range s.nodes {
		idx := s.idx(int32(i))
		delete(r.where, idx)
		delete(r.costs, idx)
		delete(r.goesOn, idx)
		if len(r.dependent) > 0 {
			delete(r.dependent, idx)
		}
		if in := s.nodes[i].info; in != nil && in.each != nil {
			r.collected -= in.each.bytes
		}
	}
}
