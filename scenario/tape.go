package scenario

import (
	"bytes"
	"errors"
	"maps"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/sim"
	"github.com/stepwell/stepwell/spec"
)

// tape gives the steps of an execution that is played again the outcomes that they had, by key and attempt.
type tape struct {
	steps    map[string]*RecordedStep
	mocks    map[string]*mock
	fails    bool            // steps without a recorded outcome fail
	unmocked map[string]bool // steps with attempts that were never made
	asked    map[string]int  // how many attempts were made, by step
	// ended gets the steps whose last failure ended them although their definition had attempts left: no other definition would have
	// tried again.
	ended map[string]bool
	// own is the tape of the execution under its own definition; nil: this is it. What that did not ask for was decided before an action
	// was called, as by a template that failed, and says nothing of a call.
	own *tape
}

// errNotRecorded is why a step fails of which nothing is recorded.
var errNotRecorded = errors.New("not recorded: the execution did not come so far")

// plays reports why a recording cannot be played again; nil: it can.
func (r *Recording) plays() error {
	for i := range r.Steps {
		if r.Steps[i].Items {
			return stepwell.Errorf(stepwell.CodeInvalid, "stepwell test tests streams, with items that the test gives",
				"the items of streams are not recorded: %s cannot be played again", r.Steps[i].Key)
		}
	}
	if !r.terminal() {
		return stepwell.Errorf(stepwell.CodeConflict, "wait until it has ended", "execution %s is %s", r.ID, r.Status)
	}
	return nil
}

func (r *Recording) terminal() bool {
	var s stepwell.ExecutionStatus
	return s.UnmarshalText([]byte(r.Status)) == nil && s.Terminal()
}

// test is a test that plays the recording with a definition. Its outcomes come from the tape alone.
func (r *Recording) test(d *definition.Definition, actions *action.Registry, secrets map[string]string, fails bool, own *tape) (*Test, error) {
	var src bytes.Buffer
	named := *r
	named.File = "recording.yaml" // no file is read
	if err := named.WriteTest(&src, actions); err != nil {
		return nil, err
	}
	list, problems := Parse("recording.test.yaml", src.Bytes())
	if err := problems.Err(); err != nil {
		return nil, err
	}
	t := list[0]
	t.tape = &tape{steps: map[string]*RecordedStep{}, mocks: map[string]*mock{}, fails: fails, unmocked: map[string]bool{}, asked: map[string]int{}, ended: map[string]bool{}, own: own}
	for i := range r.Steps {
		t.tape.steps[r.Steps[i].Key] = &r.Steps[i]
	}
	for _, m := range t.shared {
		t.tape.mocks[m.name] = m
	}
	for name, v := range t.Params { // what is hidden is not the same as something else that is hidden
		if v == hidden {
			t.Params[name] = hidden + "params." + name
		}
	}
	t.def = d
	t.Open, t.shared, t.Secrets, t.foreign, t.params = true, nil, maps.Clone(secrets), true, map[string]bool{}
	return t, nil
}

// outcome is how an attempt ends: as recorded; nil and no error: its action decides nothing that is not known, and runs.
func (p *tape) outcome(r *run, a *sim.Attempt, n int) (*sim.Outcome, error) {
	s, m := p.steps[a.Key], p.mocks[a.Key]
	p.asked[a.Key] = max(p.asked[a.Key], n+1)
	if m != nil && s != nil && r.sameAction(s.Action, a.Step.Action) {
		switch last := n == len(m.outcomes)-1; {
		case n >= len(m.outcomes), p.own != nil && n >= p.own.asked[a.Key]:
			return p.unknown(a.Key), nil
		case last && s.Status == "failed" && p.own == nil:
			p.ended[a.Key] = a.Attempt < a.Step.Policy.Retry.MaxAttempts
		case last && s.Status == "failed":
			m.outcomes[n].Permanent = p.own.ended[a.Key]
		}
		return r.mocked(m, a, n)
	}
	if r.effect(a.Step.Action) == spec.NoEffect {
		if s := p.steps[a.Key]; s != nil && !s.Waited && !s.Started.IsZero() {
			return &sim.Outcome{Real: true, Takes: max(s.Ended.Sub(s.Started), 0)}, nil
		}
		return nil, nil
	}
	if a.Step.Action == reportAction {
		return &sim.Outcome{}, nil
	}
	return p.unknown(a.Key), nil
}

// unknown is the outcome of an attempt that was never made.
func (p *tape) unknown(key string) *sim.Outcome {
	p.unmocked[key] = true
	if p.fails {
		return &sim.Outcome{Err: action.Fail(errNotRecorded)}
	}
	return &sim.Outcome{}
}
