package scenario

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/spec"
)

// Coverage says which decisions of a pipeline the tests have seen.
type Coverage struct {
	Pipeline string   `json:"pipeline"`
	Covered  int      `json:"covered"`
	Total    int      `json:"total"`
	Missing  []string `json:"missing" nullable:"false"` // in the order of the pipeline
}

// Percent is the share of the decisions that were seen, 100 where there are none.
func (c *Coverage) Percent() float64 {
	if c.Total == 0 {
		return 100
	}
	return 100 * float64(c.Covered) / float64(c.Total)
}

// The decisions about a step.
const (
	decisionRuns  = "runs"
	decisionFalse = "is skipped: its condition is false"
	decisionRule  = "is skipped by its trigger rule"
	decisionFails = "fails"
)

// decision is one that can be made about a step.
type decision struct{ step, what string }

// coverage are the decisions of one pipeline.
type coverage struct {
	order []decision
	seen  map[decision]bool
	rules map[string]bool // steps with a trigger rule of their own
}

// eachStep calls f with every step of a plan and its key without iterations.
func eachStep(p *plan.Plan, f func(key string, s *plan.Step)) {
	var walk func(prefix string, g *plan.Graph)
	walk = func(prefix string, g *plan.Graph) {
		if g == nil {
			return
		}
		for i := range g.Steps {
			s := &g.Steps[i]
			key := prefix + s.ID
			f(key, s)
			body := s.Body
			if body != nil && body.Single { // its only step is the iteration itself
				body = body.Graph.Steps[0].Body
			}
			if body == nil {
				continue
			}
			walk(key+".", body.Graph)
			walk(key+".on_failure.", body.OnFailure)
			walk(key+".finally.", body.Finally)
		}
	}
	walk("", p.Graph)
	walk("on_failure.", p.OnFailure)
	walk("finally.", p.Finally)
}

// stepNames are the names by which a plan's steps can be called: keys without iterations, ids and families.
func stepNames(p *plan.Plan) (names []string) {
	eachStep(p, func(key string, s *plan.Step) {
		names = append(names, key, s.ID)
		for body := s.Body; body != nil; body = body.Graph.Steps[0].Body {
			for _, f := range body.Graph.Families {
				names = append(names, f.Name)
			}
			if !body.Single {
				break
			}
		}
	})
	for _, f := range p.Graph.Families {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// asks are actions that run in tests and may fail all the same: an answer from outside, or its time.
var asks = []string{"util.approval", "util.wait_for", "util.fail"}

func (r *run) newCoverage() *coverage {
	c := &coverage{seen: map[decision]bool{}, rules: map[string]bool{}}
	eachStep(r.pipe.Plan(), func(key string, s *plan.Step) {
		if s.Action == reportAction {
			return
		}
		c.order = append(c.order, decision{key, decisionRuns})
		if s.Condition != nil {
			c.order = append(c.order, decision{key, decisionFalse})
		}
		if s.Policy.Rule != plan.AllSuccess && s.Policy.Rule != plan.AllDone {
			c.rules[key] = true
			c.order = append(c.order, decision{key, decisionRule})
		}
		act := r.canonical(s.Action)
		if s.Body != nil && s.Body.Single {
			act = r.canonical(s.Body.Graph.Steps[0].Action)
		}
		if act != "" && (r.effect(act) != spec.NoEffect || slices.Contains(asks, act)) {
			c.order = append(c.order, decision{key, decisionFails})
		}
	})
	return c
}

// cover notes the decisions that this test has seen.
func (r *run) cover(ctx context.Context) error {
	c := r.covered[r.t.Pipeline]
	if c == nil {
		c = r.newCoverage()
		r.covered[r.t.Pipeline] = c
	}
	for _, call := range r.calls {
		c.seen[decision{plainKey(call.Key), decisionRuns}] = true
	}
	for _, key := range r.keys {
		s, at := r.steps[key], plainKey(key)
		switch s.Status {
		case stepwell.StepCompleted:
			c.seen[decision{at, decisionRuns}] = true
		case stepwell.StepFailed, stepwell.StepTimedOut:
			c.seen[decision{at, decisionRuns}] = true
			c.seen[decision{at, decisionFails}] = true
		case stepwell.StepSkipped:
			if err := r.coverSkipped(ctx, c, key, at); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) coverSkipped(ctx context.Context, c *coverage, key, at string) error {
	falseSeen, ruleSeen := c.seen[decision{at, decisionFalse}], !c.rules[at] || c.seen[decision{at, decisionRule}]
	if falseSeen && ruleSeen {
		return nil
	}
	why, err := r.world.Why(ctx, r.id, key)
	if err != nil {
		return err
	}
	for _, reason := range why {
		switch reason.Code {
		case engine.WhyCondition:
			c.seen[decision{at, decisionFalse}] = true
		case engine.WhyRule:
			c.seen[decision{at, decisionRule}] = true
		}
	}
	return nil
}

// Merge adds what the tests of another runner have covered.
func (o *Runner) Merge(other *Runner) {
	for file, c := range other.covered {
		if mine := o.covered[file]; mine != nil {
			maps.Copy(mine.seen, c.seen)
		} else {
			o.covered[file] = c
		}
	}
}

// Coverage is what all tests until now have covered, by pipeline.
func (o *Runner) Coverage() (out []Coverage) {
	for _, file := range slices.Sorted(maps.Keys(o.covered)) {
		c := o.covered[file]
		one := Coverage{Pipeline: file, Total: len(c.order), Missing: []string{}}
		for _, d := range c.order {
			if c.seen[d] {
				one.Covered++
			} else {
				one.Missing = append(one.Missing, fmt.Sprintf("%s never %s", d.step, never[d.what]))
			}
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Coverage) int { return cmp.Compare(a.Pipeline, b.Pipeline) })
	return out
}

var never = map[string]string{decisionRuns: "ran", decisionFalse: "had a false condition", decisionRule: "was kept from running by its trigger rule", decisionFails: "failed"}
