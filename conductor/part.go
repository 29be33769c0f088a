package conductor

import (
	"context"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/spec"
)

// notAskedFor is why a step outside of Request.Until is skipped.
const notAskedFor = "not asked for"

// part fills in what an execution that runs only a part, or has results of another one given, begins with.
func (c *Conductor) part(ctx context.Context, req *Request) error {
	if req.Until == "" && req.Given == "" {
		return nil
	}
	now := req.Pipeline.plan
	wanted, until, err := upTo(now, req.Until)
	if err != nil {
		return err
	}
	if req.Given != "" {
		if err := c.given(ctx, req, wanted, until); err != nil {
			return err
		}
	}
	for i := range now.Graph.Steps {
		if !wanted[i] {
			req.seeds = append(req.seeds, engine.Seed{Key: now.Graph.Steps[i].ID, Status: stepwell.StepSkipped, Why: &engine.Failure{Code: stepwell.CodeSkipped, Message: notAskedFor}})
		}
	}
	return nil
}

// upTo finds the steps that run when an execution ends with a step: this, those before it, and the other steps of their streams. All
// steps for "", with an index of −1.
func upTo(p *plan.Plan, id string) (wanted []bool, until int32, err error) {
	g := p.Graph
	wanted = make([]bool, len(g.Steps))
	if id == "" {
		for i := range wanted {
			wanted[i] = true
		}
		return wanted, -1, nil
	}
	until, ok := g.Index(id)
	if !ok {
		ids := make([]string, 0, len(g.Steps))
		for i := range g.Steps {
			ids = append(ids, g.Steps[i].ID)
		}
		hint := spec.DidYouMean(id, ids)
		if hint == "" {
			hint = "a step inside a group or for_each runs with the step around it: name that"
		}
		return nil, 0, stepwell.Errorf(stepwell.CodeInvalid, hint, "until: no step %q at the pipeline's top level", stepwell.Clip(id, 100))
	}
	todo := []int32{until}
	add := func(i int32) {
		if !wanted[i] {
			wanted[i] = true
			todo = append(todo, i)
		}
	}
	wanted[until] = true
	for len(todo) > 0 {
		s := &g.Steps[todo[0]]
		todo = todo[1:]
		for _, i := range s.Deps {
			add(i)
		}
		for _, i := range s.Inputs() {
			add(i)
		}
		for _, name := range s.Names {
			for _, spawner := range g.Spawners {
				if spawner.Name == name {
					for _, i := range spawner.Steps {
						add(i)
					}
				}
			}
		}
		if lead, ok := s.Lead(); ok {
			add(lead)
		}
		for _, m := range s.Members() {
			add(m.Step)
		}
	}
	return wanted, until, nil
}

// given takes over what completed in another execution, by key: of the wanted steps but the last one. Those of a stream are taken
// over together.
func (c *Conductor) given(ctx context.Context, req *Request, wanted []bool, until int32) error {
	row, err := c.o.Store.Execution(ctx, req.Given)
	if err != nil {
		return err
	}
	if !row.Status.Terminal() {
		return stepwell.Errorf(stepwell.CodeConflict, "wait for its end, or name another one", "the execution %s, whose results are to be taken over, is %s", row.ID, row.Status)
	}
	run, err := c.rebuild(ctx, row, 0)
	if err != nil {
		return err
	}
	g := req.Pipeline.plan.Graph
	there := map[string]engine.Seed{}
	for _, seed := range run.run.Completed() {
		there[seed.Key] = seed
	}
	fits := func(i int32) bool {
		before, known := run.run.Plan().Graph.Index(g.Steps[i].ID)
		if _, completed := there[g.Steps[i].ID]; !completed || !known || !wanted[i] || i == until {
			return false
		}
		old := &run.run.Plan().Graph.Steps[before]
		return (old.Body == nil) == (g.Steps[i].Body == nil) && (old.Stream == nil) == (g.Steps[i].Stream == nil)
	}
	var seeds []engine.Seed
	for i := range g.Steps {
		lead := int32(i)
		if of, ok := g.Steps[i].Lead(); ok {
			lead = of
		}
		whole := fits(int32(i)) && fits(lead)
		for _, m := range g.Steps[lead].Members() {
			whole = whole && fits(m.Step)
		}
		if whole {
			seed := there[g.Steps[i].ID]
			seed.Read = g.Steps[i].Keep
			seeds = append(seeds, seed)
		}
	}
	if err := c.seedOutputs(ctx, row, run, seeds); err != nil {
		return err
	}
	again, err := c.o.Store.Execution(ctx, row.ID)
	if err != nil {
		return err
	}
	if again.Version != row.Version {
		return stepwell.Errorf(stepwell.CodeConflict, "try again", "the execution %s has changed while its results were read", row.ID)
	}
	req.seeds, req.reused = seeds, row.ID
	return nil
}
