package scenario

import (
	"bytes"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/sim"
	"github.com/stepwell/stepwell/spec"
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
	Folder    string     // in which steps ran; it may be there no more
	Tree      Tree       // what that held at the end; nil: it was no copy of the test's own
	Repeated  []Repeated

	def    *definition.Definition
	pipe   *conductor.Pipeline
	effect func(action string) spec.Effect
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
	Epoch       uint32
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

// StepOf is the definition of a step, by its key without iterations ([*] may stand for them); nil: it has none, as one that was spawned.
func (p *Played) StepOf(key string) (s *definition.Step) {
	steps := p.def.Steps
	for part := range strings.SplitSeq(plainKey(key), ".") {
		switch part {
		case "on_failure":
			steps = p.def.OnFailure
			continue
		case "finally":
			steps = p.def.Finally
			continue
		}
		i := slices.IndexFunc(steps, func(s definition.Step) bool { return s.ID == part })
		if i < 0 {
			return nil
		}
		s = &steps[i]
		steps = s.Steps
		if sub := p.def.Pipelines[s.Pipeline]; sub != nil {
			steps = sub.Steps
		}
	}
	return s
}

// ActionOf is the action of a step, by its key or a pattern, "" if it was not called.
func (p *Played) ActionOf(step string) string {
	for i := range p.Calls {
		if c := &p.Calls[i]; matches(step, c.Key, "") > 0 {
			return c.Action
		}
	}
	return ""
}

// EffectOf is what the action of a call does outside of the execution.
func (p *Played) EffectOf(action string) spec.Effect { return p.effect(action) }

// played is what can be told of the execution that has come to rest.
func (r *run) played() (p *Played, err error) {
	p = &Played{def: r.def, pipe: r.pipe, effect: r.effect, Execution: r.x, Keys: r.keys, Steps: make(map[string]*PlayedStep, len(r.keys)), Calls: r.calls, Lines: r.lines, Folder: r.folder, Repeated: r.repeated}
	if p.Outputs, err = r.outputs(r.x.Outputs); err != nil {
		return nil, err
	}
	for _, key := range r.keys {
		s := &PlayedStep{Step: r.steps[key]}
		if calm := r.calm(key); calm != nil && bytes.Equal(calm.Output, s.Output) && !engine.IsRef(s.Output) {
			s.Outputs = calm.Outputs
		} else if s.Outputs, err = r.outputs(s.Output); err != nil {
			return nil, err
		}
		p.Steps[key] = s
	}
	return p, nil
}

// calm is what came of a step in the undisturbed execution; nil: nothing that is known.
func (r *run) calm(key string) *PlayedStep {
	if r.how.Calm == nil {
		return nil
	}
	return r.how.Calm.Steps[key]
}
