package plan

import (
	"cmp"
	"math"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
)

// Defaults of a retry block that leaves them out (budpipeline §11).
const (
	defaultAttempts = 3
	defaultBackoff  = 60
)

func (c *compiler) intern(p Policy) *Policy {
	if known, ok := c.policies[p]; ok {
		return known
	}
	kept := p // taking a parameter's address would put it on the heap in every call
	c.policies[p] = &kept
	return &kept
}

func (c *compiler) policy(s *definition.Step, d *definition.Definition, about *spec.Spec) *Policy {
	p := Policy{
		Retry:    retry(s, d.Settings.RetryPolicy, about),
		Timeout:  seconds(s.TimeoutSeconds),
		Continue: s.OnFailure == "continue",
		Rule:     ruleNames[s.TriggerRule],
		Priority: s.Priority,
		Queue:    cmp.Or(s.Queue, c.queue),
		Weight:   weight(s.Weight),
		LogLevel: cmp.Or(s.LogLevel, d.Settings.LogLevel),
		Author:   cmp.Or(d.Author, c.root.Author),
	}
	c.weighted = c.weighted || p.Weight > 0
	if about != nil {
		p.Within = p.Timeout
		p.Timeout = cmp.Or(p.Timeout, about.Timeout, DefaultTimeout)
		p.NotIdempotent = about.NotIdempotent
	}
	if s.Idempotent != nil {
		p.NotIdempotent = !*s.Idempotent
	}
	return c.intern(p)
}

func weight(w float64) int64 {
	if w <= 0 {
		return 0
	}
	return max(1, int64(math.Round(w*WeightUnit)))
}

// weigh adds the weights of a graph's steps up.
func (g *Graph) weigh() {
	for i := range g.Steps {
		g.Weight += cmp.Or(g.Steps[i].Policy.Weight, WeightUnit)
	}
}

// retry is the effective policy: the step's, else the pipeline's, else the action's; `on_failure: retry` alone means
// the defaults (semantics §3). A group or sub-pipeline is retried as a whole only by a policy of its own: the
// pipeline's is for the steps inside.
func retry(s *definition.Step, settings *definition.Retry, about *spec.Spec) stepwell.Retry {
	if s.Action == "" && s.Module == "" && s.Retry == nil && s.OnFailure != "retry" {
		return stepwell.Retry{MaxAttempts: 1}
	}
	if s.Retry == nil && settings == nil {
		if about != nil && about.Retry != nil {
			return *about.Retry
		}
		if s.OnFailure != "retry" {
			return stepwell.Retry{MaxAttempts: 1}
		}
	}
	var own, shared definition.Retry
	if s.Retry != nil {
		own = *s.Retry
	}
	if settings != nil {
		shared = *settings
	}
	return stepwell.Retry{
		MaxAttempts: cmp.Or(own.MaxAttempts, shared.MaxAttempts, defaultAttempts),
		Backoff:     seconds(cmp.Or(own.BackoffSeconds, shared.BackoffSeconds, defaultBackoff)),
		Multiplier:  cmp.Or(own.BackoffMultiplier, shared.BackoffMultiplier),
		MaxBackoff:  seconds(cmp.Or(own.MaxBackoffSeconds, shared.MaxBackoffSeconds)),
		Jitter:      cmp.Or(own.Jitter, shared.Jitter),
	}
}
