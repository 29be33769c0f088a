package scenario

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
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
	t := &Test{Name: "the recording of " + r.ID, Open: true, At: r.Created.UTC().Truncate(time.Second), Secrets: secrets, foreign: true, params: map[string]bool{}, def: d,
		tape: &tape{steps: make(map[string]*RecordedStep, len(r.Steps)), mocks: make(map[string]*mock, len(r.Steps)), fails: fails, unmocked: map[string]bool{},
			asked: map[string]int{}, ended: map[string]bool{}, own: own}}
	params, err := objectOf(r.Params)
	if err != nil {
		return nil, fmt.Errorf("the params of %s: %w", r.ID, err)
	}
	for name, v := range params { // what is hidden is not the same as something else that is hidden
		if v == hidden {
			params[name] = hidden + "params." + name
		}
	}
	t.Params = params
	around := r.around()
	for i := range r.Steps {
		s := &r.Steps[i]
		t.tape.steps[s.Key] = s
		if about, ok := actions.Spec(s.Action); (!ok || about.Effect != spec.NoEffect) && s.Action != reportAction && !around[s.Key] {
			if m, err := s.mock(r); err != nil {
				return nil, fmt.Errorf("the step %s of %s: %w", s.Key, r.ID, err)
			} else if len(m.outcomes) > 0 {
				t.tape.mocks[s.Key] = m
			}
		}
	}
	t.planned, err = r.planned(actions)
	return t, err
}

// planned is what happened from outside, as the test file says it.
func (r *Recording) planned(actions *action.Registry) ([]*planned, error) {
	when := r.when(actions)
	if len(when) == 0 {
		return nil, nil
	}
	list, problems := Parse("recording.test.yaml", fmt.Appendf(nil, "pipeline: recording.yaml\ntests:\n  - name: recorded\n    when:\n      - %s\n", strings.Join(when, "\n      - ")))
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return list[0].planned, nil
}

// mock has the outcomes of a step's attempts, as outcomes writes them. It has none where the step did not run.
func (s *RecordedStep) mock(r *Recording) (*mock, error) {
	m := &mock{name: s.Key}
	if s.Action == "" || s.Items {
		return m, nil
	}
	add := func(keys outcomeKeys) *outcome {
		if keys.Takes < 0 || keys.Takes > math.MaxInt64/2 {
			keys.Takes = 0
		}
		o := &outcome{outcomeKeys: keys}
		m.outcomes = append(m.outcomes, o)
		return o
	}
	for _, t := range s.Tries {
		if t.Lost {
			add(outcomeKeys{LoseWorker: true, Takes: t.Took})
			continue
		}
		add(outcomeKeys{Fail: cmp.Or(t.Error, "failed"), Takes: t.Took})
	}
	took := s.Ended.Sub(s.Started)
	switch s.Status {
	case "completed":
		outputs, err := objectOf(s.Outputs)
		if err != nil {
			return nil, err
		}
		o := add(outcomeKeys{Takes: took})
		if o.given = outputs; outputs == nil {
			o.given = map[string]any{}
		}
		o.Spawn, err = s.spawned(r)
		return m, err
	case "failed":
		add(outcomeKeys{Fail: cmp.Or(s.Error, "failed"), Code: stepwell.Code(cmp.Or(s.Code, "failed")), Permanent: true, Takes: took})
	case "timed_out", "cancelled":
		if !s.Started.IsZero() {
			add(outcomeKeys{Hang: true})
		}
	}
	return m, nil
}

// spawned are the steps that a step has added.
func (s *RecordedStep) spawned(r *Recording) (list []action.NewStep, err error) {
	for _, key := range s.Spawned {
		i := slices.IndexFunc(r.Steps, func(x RecordedStep) bool { return x.Key == key })
		if i < 0 {
			continue
		}
		n := action.NewStep{Action: r.Steps[i].Action}
		n.Name, n.Key, _ = strings.Cut(key, ":")
		if n.Params, err = objectOf(r.Steps[i].Params); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// objectOf reads a JSON object; nil: there is none.
func objectOf(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	v, err := expr.Decode(raw)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("not an object, but %T", v)
	}
	return m, nil
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
