package engine

import "github.com/stepwell/stepwell"

// launch lets an execution begin: at once, or when it is admitted.
func (r *Run) launch(seeds []Seed) {
	r.began = r.now
	r.setStatus(stepwell.ExecutionRunning)
	r.remember(seeds)
	r.seed(r.main)
	r.first(r.main)
	r.arm()
}

// Held reports whether the execution waits for its admission: nothing of it has run, and its time does not run. A paused one is not
// admitted before it is resumed.
func (r *Run) Held() bool { return r.main != nil && r.arming == 0 && !r.status.Terminal() }

// admit ends an execution's being held, unless it is paused. Twice is harmless.
func (r *Run) admit() bool {
	if r.status != stepwell.ExecutionPending {
		return false
	}
	seeds := r.held
	r.held = nil
	r.launch(seeds)
	return true
}

// drop ends an execution that has not been admitted: nothing has run, so there is nothing to tidy up.
func (r *Run) drop(why string) {
	m := r.main
	m.stop = stop{level: cancelling, cause: stepwell.StepCancelled, reason: why}
	m.cut, m.ended, m.phase = true, true, phaseOver
	for i := range m.nodes {
		p := place{m, int32(i)}
		p.node().flags |= halted
		r.end(p, stepwell.StepSkipped, &Failure{Code: stepwell.CodeSkipped, Message: "not started: " + why})
	}
	r.held = nil
	r.cause = stepwell.ExecutionCancelled
	r.finish(stepwell.ExecutionCancelled, &Failure{Code: stepwell.CodeCancelled, Message: why})
}
