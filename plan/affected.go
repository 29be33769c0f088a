package plan

import (
	"slices"

	"github.com/stepwell/stepwell/expr"
)

// Affected are the ids of the top-level steps, finally and on_failure left out, on whose work the values of some params bear: those of which
// a template reads one of them, and those that read the results of such steps.
func (p *Plan) Affected(params []string) map[string]bool {
	g := p.Graph
	out := map[string]bool{}
	from := make([][]int32, len(g.Steps)) // steps that each reads
	for i := range g.Steps {
		a := affects{params: params}
		a.step(&g.Steps[i], 0)
		if from[i] = a.reads; a.found || a.all && len(params) > 0 {
			out[g.Steps[i].ID] = true
		}
	}
	for more := true; more; {
		more = false
		for i := range g.Steps {
			if id := g.Steps[i].ID; !out[id] && slices.ContainsFunc(from[i], func(r int32) bool { return out[g.Steps[r].ID] }) {
				out[id], more = true, true
			}
		}
	}
	return out
}

// affects walks a step with all that is inside of it.
type affects struct {
	params []string
	found  bool    // a template reads one of them
	all    bool    // a template reads steps that cannot be told
	reads  []int32 // steps of the top level
}

func (a *affects) step(s *Step, depth int) {
	if lead, ok := s.Lead(); ok && depth == 0 {
		a.reads = append(a.reads, lead)
	}
	for _, r := range s.Reads {
		switch {
		case r.Up == ReadAll:
			a.all = true
		case int(r.Up) == depth && r.Step >= 0:
			a.reads = append(a.reads, r.Step)
		}
	}
	for _, v := range []*Value{s.Params, s.Settings} {
		v.Templates(a.template)
	}
	if s.Condition != nil {
		a.template(s.Condition)
	}
	if s.ForEach != nil {
		s.ForEach.Items.Templates(a.template)
	}
	if s.Body == nil {
		return
	}
	if len(s.Body.Def) > 0 { // another pipeline, which has params of its own
		defer func(outer []string) { a.params = outer }(a.params)
		a.params = nil
	}
	for _, g := range []*Graph{s.Body.Graph, s.Body.OnFailure, s.Body.Finally} {
		if g != nil {
			for i := range g.Steps {
				a.step(&g.Steps[i], depth+1)
			}
		}
	}
}

func (a *affects) template(t *expr.Template) {
	for _, ref := range t.Refs() {
		if ref.Path[0] == "params" && len(a.params) > 0 && (len(ref.Path) == 1 || slices.Contains(a.params, ref.Path[1])) {
			a.found = true
		}
	}
}
