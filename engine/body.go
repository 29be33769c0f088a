package engine

import (
	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/plan"
)

// openScope makes an instance of a graph. Its first steps are started by first.
func (r *Run) openScope(g *plan.Graph, owner place, body *plan.Body, iter int32) *scope {
	s := &scope{graph: g, owner: owner, body: body, iter: iter, base: r.next, nodes: make([]node, len(g.Steps)), open: int32(len(g.Steps))}
	r.next += int32(len(g.Steps))
	for i := range g.Steps {
		step := &g.Steps[i]
		s.nodes[i].waiting = int32(len(step.Deps) + len(step.Names))
		if r.main != nil {
			r.where[s.base+int32(i)] = place{s, int32(i)}
		}
		for _, name := range step.Names {
			s.group(name).await(int32(i))
		}
	}
	for i := range g.Spawners {
		for _, j := range g.Spawners[i].Steps {
			s.maySpawn(j, g.Spawners[i].Name)
		}
		s.group(g.Spawners[i].Name).declared = !g.Spawners[i].Exact
	}
	if owner.s == nil && r.main == nil || owner.s != nil && !body.Single {
		r.expect(owner, len(g.Steps), g.Weight)
	}
	return s
}

// first starts the steps that depend on nothing.
func (r *Run) first(s *scope) {
	for i := range s.nodes {
		if s.nodes[i].waiting == 0 && s.nodes[i].status == stepwell.StepPending {
			r.todo(place{s, int32(i)}, judgeStep)
		}
	}
	if s.open == 0 {
		r.todo(place{s: s}, endScope)
	}
}

// openBody starts a group, a sub-pipeline or a for_each. These need no worker.
func (r *Run) openBody(p place, step *plan.Step) {
	n := p.node()
	if n.attempt > 0 {
		r.supersede(p, "", false) // a group that is tried again
	}
	n.flags &^= partly
	n.status = stepwell.StepRunning
	n.epoch++
	n.attempt++
	n.queued = r.now
	in := n.ensure()
	in.started = r.now
	if step.ForEach != nil {
		if err := r.openEach(p, step, in); err != nil {
			r.end(p, stepwell.StepFailed, evalFailure("for_each", err))
			return
		}
		r.todo(p, moreItems)
	} else {
		s, err := r.inside(p, step)
		if err != nil {
			r.end(p, stepwell.StepFailed, evalFailure("params", err))
			return
		}
		in.body = s
		r.first(s)
	}
	r.row(p)
	if step.Policy.Timeout > 0 {
		r.timer(r.now+step.Policy.Timeout.Microseconds(), p.idx(), n.epoch)
	}
}

// inside opens the body once, with the params of a sub-pipeline rendered.
func (r *Run) inside(p place, step *plan.Step) (*scope, error) {
	if int(r.next)+len(step.Body.Graph.Steps) > MaxSteps {
		return nil, tooMany()
	}
	var params map[string]any
	if step.Body.Pipeline != "" {
		v, err := step.Params.Render(r.scope(p, step.Reads), r.limits())
		if err != nil {
			return nil, err
		}
		given, _ := v.(map[string]any)
		if params, err = subParams(step.Body, given); err != nil {
			return nil, err
		}
	}
	s := r.openScope(step.Body.Graph, p, step.Body, -1)
	s.given = r.withAbsent(params, step.Body.Optional)
	r.seed(s)
	return s, nil
}

func tooMany() error {
	return stepwell.Errorf(stepwell.CodeLimit, "", "the execution would have more than %d steps", MaxSteps)
}

func subParams(b *plan.Body, given map[string]any) (map[string]any, error) {
	d := definition.Definition{Name: b.Pipeline, Parameters: b.Def}
	out, problems := definition.CheckParams(&d, given)
	return out, problems.Err()
}
