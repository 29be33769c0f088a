package plan

import (
	"cmp"
	"slices"

	"github.com/stepwell/stepwell/expr"
)

// Changes compares the steps of two plans by position: what of each step is different from the other's at its place. "": nothing, it
// does the same work on the same results (Fingerprint).
func (p *Plan) Changes(of *Plan) (why []string) {
	now, then := printer{made: map[*Step]string{}}, printer{made: map[*Step]string{}}
	why = make([]string, len(p.Graph.Steps))
	for i := range why {
		why[i] = differs(&now, &frame{graph: p.Graph}, &then, &frame{graph: of.Graph}, int32(i))
	}
	return why
}

// Unchanged is how many of the first steps need not run anew, by the reasons of those that must: the steps before the first reason,
// without those of a stream that has steps after it too, in one plan or the other. The steps after them get a reason where they have none.
func (p *Plan) Unchanged(of *Plan, why []string) (n int) {
	if n = slices.IndexFunc(why, func(one string) bool { return one != "" }); n < 0 {
		n = len(why)
	}
	for cut := n; cut >= 0; {
		if cut = max(split(p.Graph, n), split(of.Graph, n)); cut >= 0 {
			n, why[cut] = cut, "its stream has steps that run again"
		}
	}
	for i := n; i < len(why); i++ {
		why[i] = cmp.Or(why[i], "it is after step "+p.Graph.Steps[n].ID)
	}
	return n
}

// split is the step among the first n whose stream has steps after them; −1: none.
func split(g *Graph, n int) int {
	return slices.IndexFunc(g.Steps[:min(n, len(g.Steps))], func(s Step) bool {
		return slices.ContainsFunc(s.Members(), func(m Member) bool { return int(m.Step) >= n })
	})
}

// differs is what is different in a step at a position; "": nothing.
func differs(now *printer, at *frame, then *printer, was *frame, i int32) string {
	if int(i) >= len(was.graph.Steps) {
		return "the step is new"
	}
	a, known := now.parts(at, i)
	b, before := then.parts(was, i)
	if !known || !before {
		return "what it reads cannot be compared"
	}
	s := &at.graph.Steps[i]
	for _, part := range []struct{ key, why string }{{"does", "its action changed"}, {"params", "params changed"}, {"settings", "settings changed"}, {"condition", "its condition changed"},
		{"for_each", "for_each changed"}, {"steps", "the steps inside it changed"}, {"on_failure", "the steps inside it changed"}, {"finally", "the steps inside it changed"},
		{"parameters", "the pipeline that it runs changed"}, {"outputs", "the pipeline that it runs changed"}, {"policy", "its retry or timeout changed"}} {
		if !same(a[part.key], b[part.key]) {
			return part.why
		}
	}
	switch {
	case !same(sources(s, at), sources(&was.graph.Steps[i], was)):
		return "source changed"
	case now.step(at, i) != then.step(was, i):
		return "what it reads changed"
	}
	return ""
}

// sources are the positions that a step reads as its source.
func sources(s *Step, at *frame) any {
	list := []any{}
	for _, r := range s.Reads {
		if r.Source && r.Up == 0 && int(r.Step) < len(at.graph.Steps) || r.Up == ReadMedia {
			list = append(list, int64(r.Up), int64(r.Step))
		}
	}
	return list
}

func same(a, b any) bool {
	x, err := expr.Marshal(a)
	y, err2 := expr.Marshal(b)
	return err == nil && err2 == nil && string(x) == string(y)
}

// Seen are the paths below the roots params, project and lesson that the templates of a step at the top level read, in order, each once;
// those inside it are among them. A path of one name stands for all below it.
func (p *Plan) Seen(i int32) [][]string {
	var list [][]string
	p.Graph.Steps[i].each(true, func(path []string) { list = append(list, path) })
	slices.SortFunc(list, slices.Compare)
	return slices.CompactFunc(list, slices.Equal)
}

// each calls seen for the paths that the templates of a step read. Inside a sub-pipeline params are others.
func (s *Step) each(params bool, seen func(path []string)) {
	visit := func(t *expr.Template) {
		for _, ref := range t.Refs() {
			if root := ref.Path[0]; root == "project" || root == "lesson" || root == "params" && params {
				seen(ref.Path)
			}
		}
	}
	s.Params.Templates(visit)
	s.Settings.Templates(visit)
	if s.Condition != nil {
		visit(s.Condition)
	}
	if s.ForEach != nil {
		s.ForEach.Items.Templates(visit)
	}
	if s.Body == nil {
		return
	}
	params = params && s.Body.Pipeline == ""
	for _, g := range []*Graph{s.Body.Graph, s.Body.OnFailure, s.Body.Finally} {
		for i := range steps(g) {
			g.Steps[i].each(params, seen)
		}
	}
	if s.Body.Outputs != nil {
		for _, v := range s.Body.Outputs.Values {
			v.Templates(visit)
		}
	}
}

func steps(g *Graph) []Step {
	if g == nil {
		return nil
	}
	return g.Steps
}
