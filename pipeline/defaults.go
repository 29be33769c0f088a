package pipeline

import (
	"slices"

	"github.com/stepwell/stepwell/definition"
)

// apply fills in a pipeline's defaults. The definition is not changed; it is returned itself when there is nothing to
// do.
func (d Defaults) apply(def *definition.Definition, catalog definition.Catalog) *definition.Definition {
	if d == (Defaults{}) {
		return def
	}
	out := *def
	if out.Settings.TimeoutSeconds == 0 {
		out.Settings.TimeoutSeconds = d.Timeout.Seconds()
	}
	if out.Settings.MaxParallelSteps == 0 {
		out.Settings.MaxParallelSteps = d.MaxParallelSteps
	}
	if d.RetryAttempts > 0 {
		d.retries(&out, catalog)
		if len(out.Pipelines) > 0 {
			subs := make(map[string]*definition.Definition, len(out.Pipelines))
			for name, sub := range out.Pipelines {
				part := *sub
				d.retries(&part, catalog)
				subs[name] = &part
			}
			out.Pipelines = subs
		}
	}
	return &out
}

// retries gives a policy to the steps that have none, nor their pipeline, nor their action.
func (d Defaults) retries(def *definition.Definition, catalog definition.Catalog) {
	if def.Settings.RetryPolicy != nil {
		return
	}
	for _, list := range []*[]definition.Step{&def.Steps, &def.Finally, &def.OnFailure} {
		*list = d.steps(*list, catalog)
	}
}

func (d Defaults) steps(steps []definition.Step, catalog definition.Catalog) []definition.Step {
	steps = slices.Clone(steps)
	for i := range steps {
		s := &steps[i]
		if len(s.Steps) > 0 {
			s.Steps = d.steps(s.Steps, catalog)
		}
		if s.Action == "" || s.Retry != nil {
			continue
		}
		if about, ok := catalog.Spec(s.Action); !ok || about.Retry == nil && !about.NotIdempotent {
			s.Retry = &definition.Retry{MaxAttempts: d.RetryAttempts, BackoffSeconds: d.RetryBackoff.Seconds()}
		}
	}
	return steps
}
