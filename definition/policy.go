package definition

import (
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// Policy is the default of an action's Spec for its steps. A snapshot holds the policies of its actions, so that an
// execution goes on as it began when an action's Spec changes.
type Policy struct {
	Retry         *stepwell.Retry `json:"retry,omitempty"`
	Timeout       time.Duration   `json:"timeout,omitempty"`
	NotIdempotent bool            `json:"not_idempotent,omitempty"`
	Spawns        []string        `json:"spawns,omitempty"`
	DependsOn     []string        `json:"depends_on,omitempty"`
}

// policies are those of the actions that steps use or may spawn.
func policies(d *Definition, cat Specs) map[string]Policy {
	out := map[string]Policy{}
	var add func(action string)
	add = func(action string) {
		if _, known := out[action]; known || action == "" {
			return
		}
		about, ok := cat.Spec(action)
		if !ok {
			return
		}
		out[action] = Policy{Retry: about.Retry, Timeout: about.Timeout, NotIdempotent: about.NotIdempotent, Spawns: about.Spawns, DependsOn: about.DependsOn}
		for _, name := range about.Spawns {
			add(name) // a spawned step's action is its name, unless it says otherwise
		}
	}
	var walk func(list []Step)
	walk = func(list []Step) {
		for i := range list {
			add(list[i].Action)
			if spawn, ok := list[i].Params["spawn"].(map[string]any); ok {
				action, _ := spawn["action"].(string)
				add(action)
			}
			walk(list[i].Steps)
		}
	}
	lists := [][]Step{d.Steps, d.Finally, d.OnFailure}
	for _, sub := range d.Pipelines {
		if sub != nil {
			lists = append(lists, sub.Steps, sub.Finally, sub.OnFailure)
		}
	}
	for _, list := range lists { // not joined: a list may hold 100,000 steps
		walk(list)
	}
	return out
}

// Recorded is a catalog in which actions have the policies that an expanded definition holds.
func (d *Definition) Recorded(cat Specs) Specs {
	if d.Policies == nil {
		return cat
	}
	out := recordedSpecs{cat, make(map[string]*spec.Spec, len(d.Policies))}
	for name, p := range d.Policies {
		if about, ok := cat.Spec(name); ok {
			s := *about
			s.Retry, s.Timeout, s.NotIdempotent, s.Spawns, s.DependsOn = p.Retry, p.Timeout, p.NotIdempotent, p.Spawns, p.DependsOn
			out.specs[name] = &s
		}
	}
	return out
}

type recordedSpecs struct {
	Specs
	specs map[string]*spec.Spec
}

func (r recordedSpecs) Spec(name string) (*spec.Spec, bool) {
	if s, ok := r.specs[name]; ok {
		return s, true
	}
	return r.Specs.Spec(name)
}
