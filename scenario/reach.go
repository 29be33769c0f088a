package scenario

import (
	"context"
	"errors"
	"slices"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/sim"
	"github.com/stepwell/stepwell/spec"
)

// reachAction is what every step of a skeleton does.
const reachAction = "reach.step"

// maxReachRuns bounds the runs of Reach.
const maxReachRuns = 2000

// maxReachSteps bounds the steps of these runs together.
const maxReachSteps = 200_000

// errPlanned is why a step fails in a run of Reach.
var errPlanned = errors.New("it fails in this run")

// Reach finds the steps of a definition that never start, whatever its conditions say and whichever one or two of its steps fail. The
// engine runs a skeleton of it, at most 2,000 times: the same dependencies, rules and groups, with steps that do nothing. idle has their
// ids, runs how often it ran. Nothing is said of definitions whose runs are
// more than that, or 200,000 steps together, or which have steps that others spawn.
func Reach(ctx context.Context, d *definition.Definition) (idle map[string]bool, runs int, err error) {
	s := &skeleton{ids: map[string]string{}, started: map[string]bool{}}
	raw, err := definition.Encode(d)
	if err != nil {
		return nil, 0, err
	}
	if s.def, err = definition.Decode(raw); err != nil {
		return nil, 0, err
	}
	s.pipelines = s.def.Pipelines
	s.strip()
	if s.spawns || len(s.keys) == 0 {
		return nil, 0, nil
	}
	s.actions = &action.Registry{}
	if err := s.actions.Announce(spec.Spec{Name: reachAction, Summary: "Ends as the run says.", OpenParams: true, OpenOutputs: true}); err != nil {
		return nil, 0, err
	}
	for run := range s.plans {
		if len(s.started) == len(s.keys) {
			break
		}
		if runs >= maxReachRuns || runs*len(s.keys) > maxReachSteps {
			return nil, runs, nil // what is left might start the others
		}
		runs++
		if err := s.run(ctx, run); err != nil {
			return nil, runs, err
		}
	}
	ran := map[string]bool{}
	for key := range s.started {
		ran[s.ids[key]] = true
	}
	idle = map[string]bool{}
	for _, key := range s.keys {
		if id := s.ids[key]; !ran[id] {
			idle[id] = true
		}
	}
	return idle, runs, nil
}

// skeleton is a definition without what its steps do.
type skeleton struct {
	def        *definition.Definition
	pipelines  map[string]*definition.Definition
	actions    *action.Registry
	keys       []string           // of the steps that have none inside, without iterations
	ids        map[string]string  // of the steps, by key
	conditions []*definition.Step // those with one
	spawns     bool
	started    map[string]bool
}

// plan is a run: which steps fail, and which conditions do not hold.
type reachRun struct {
	fails []string
	skips []int
}

// strip takes away what the steps do.
func (s *skeleton) strip() {
	d := s.def
	settings := definition.Settings{FailFast: d.Settings.FailFast, Sequential: d.Settings.Sequential}
	s.def = &definition.Definition{Name: d.Name, Steps: d.Steps, OnFailure: d.OnFailure, Finally: d.Finally, Settings: settings}
	s.steps(s.def.Steps, "", 0)
	s.steps(s.def.OnFailure, "on_failure.", 0)
	s.steps(s.def.Finally, "finally.", 0)
}

// maxReachDepth bounds groups and sub-pipelines inside each other.
const maxReachDepth = 50

func (s *skeleton) steps(list []definition.Step, prefix string, depth int) {
	if depth > maxReachDepth {
		s.spawns = true
		return
	}
	known := map[string]bool{}
	for i := range list {
		known[list[i].ID] = true
	}
	for i := range list {
		was, step := list[i], list[i]
		step.Action, step.Module, step.Pipeline, step.Source, step.Merge, step.Queue = "", "", "", "", "", ""
		step.Params, step.Config, step.Settings, step.Steps, step.ForEach, step.Idempotent = nil, nil, nil, nil, nil, nil
		step.Retry, step.TimeoutSeconds = &definition.Retry{MaxAttempts: 1}, 0
		if was.Source != "" && known[was.Source] && !slices.Contains(was.DependsOn, was.Source) {
			step.DependsOn = append(slices.Clone(was.DependsOn), was.Source)
		}
		if slices.ContainsFunc(step.DependsOn, func(id string) bool { return !known[id] }) {
			s.spawns = true
		}
		if was.ForEach != nil {
			step.ForEach = &definition.ForEach{Items: []any{int64(1)}, MaxFailures: was.ForEach.MaxFailures}
			if items, ok := was.ForEach.Items.([]any); ok && len(items) == 0 {
				step.ForEach.Items = []any{}
			}
		}
		key := prefix + was.ID
		s.ids[key] = was.ID
		switch inner := was.Steps; {
		case was.Pipeline != "" && s.pipelines[was.Pipeline] != nil:
			body, err := definition.Encode(&definition.Definition{Name: "inner", Steps: s.pipelines[was.Pipeline].Steps})
			if err != nil {
				s.spawns = true
				return
			}
			d, err := definition.Decode(body)
			if err != nil {
				s.spawns = true
				return
			}
			step.Steps = d.Steps
			s.steps(step.Steps, key+".", depth+1)
		case len(inner) > 0:
			step.Steps = inner
			s.steps(step.Steps, key+".", depth+1)
		default:
			step.Action = reachAction
			s.keys = append(s.keys, key)
		}
		list[i] = step
		if was.Condition != "" {
			s.conditions = append(s.conditions, &list[i])
		}
	}
}

// plans are the runs: nothing fails, one step does, two do; each with all conditions true, and with each one of them false.
func (s *skeleton) plans(yield func(reachRun) bool) {
	each := func(fails ...string) bool {
		if !yield(reachRun{fails: fails}) {
			return false
		}
		for i := range s.conditions {
			if !yield(reachRun{fails: fails, skips: []int{i}}) {
				return false
			}
		}
		return true
	}
	if !each() {
		return
	}
	for _, key := range s.keys {
		if !each(key) {
			return
		}
	}
	for i, key := range s.keys {
		for _, other := range s.keys[i+1:] {
			if !each(key, other) {
				return
			}
		}
	}
}

// run runs the skeleton once.
func (s *skeleton) run(ctx context.Context, r reachRun) error {
	for i, step := range s.conditions {
		if step.Condition = "{{ true }}"; slices.Contains(r.skips, i) {
			step.Condition = "{{ false }}"
		}
	}
	w, err := sim.New(ctx, sim.Options{Actions: s.actions, Mock: func(a *sim.Attempt) (*sim.Outcome, error) {
		key := plainKey(a.Key)
		if s.started[key] = true; slices.Contains(r.fails, key) {
			return &sim.Outcome{Err: action.Fail(errPlanned)}, nil
		}
		return &sim.Outcome{}, nil
	}})
	if err != nil {
		return err
	}
	if _, err := w.Begin(ctx, s.def, conductor.Request{}); err != nil {
		return err
	}
	return w.Run(ctx)
}
