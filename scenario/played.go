package scenario

import (
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/sim"
	"github.com/stepwell/stepwell/store"
)

// Played is what came of the execution of a test.
type Played struct {
	Execution *store.Execution
	Outputs   any      // of the execution, opened
	Keys      []string // of steps, in the order in which they became known
	Steps     map[string]*PlayedStep
	Calls     []Call
	Lines     []store.LogLine
	World     *sim.World // of Runner.Play: it stands still

	plan *plan.Plan
}

// PlayedStep is what came of a step.
type PlayedStep struct {
	*store.Step
	Outputs any // opened
}

// Call is an attempt that began.
type Call struct {
	Key, Action string
	Attempt     int
	Number      int // of the step's calls, from 1; a call that was cut off does not count
	Params      map[string]any

	id string
}

// CallsOf are the calls of a step, by key, pattern or id, in order.
func (p *Played) CallsOf(step string) (calls []Call) {
	for _, c := range p.Calls {
		if matches(step, c.Key, c.id) > 0 {
			calls = append(calls, c)
		}
	}
	return calls
}

// played is what can be told of the execution that has come to rest.
func (r *run) played() (p *Played, err error) {
	p = &Played{Execution: r.x, Keys: r.keys, Steps: map[string]*PlayedStep{}, Calls: r.calls, Lines: r.lines}
	if p.Outputs, err = r.outputs(r.x.Outputs); err != nil {
		return nil, err
	}
	for _, key := range r.keys {
		s := &PlayedStep{Step: r.steps[key]}
		if s.Outputs, err = r.outputs(s.Output); err != nil {
			return nil, err
		}
		p.Steps[key] = s
	}
	return p, nil
}
