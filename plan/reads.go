package plan

import (
	"cmp"
	"slices"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
)

// ReadAll as Read.Up stands for every step that is visible: a template reads `steps` in a way that
// no list of names covers.
const ReadAll = -1

// ReadMedia as Read.Up stands for the file of the lesson, read as source.
const ReadMedia = -2

// reads lists the steps that a condition and values read, and marks them to be kept.
func (c *compiler) reads(l *level, cond *expr.Template, values ...*Value) []Read {
	var out []Read
	visit := func(t *expr.Template) {
		for _, ref := range t.Refs() {
			if ref.Path[0] == "params" && len(ref.Path) > 1 && definition.FromTriggers(ref.Path[1]) && !slices.Contains(c.triggered, ref.Path[1]) {
				c.triggered = append(c.triggered, ref.Path[1])
			}
			if root := ref.Path[0]; (root == "project" || root == "lesson") && !ref.Guarded {
				c.need(ref.Path)
			}
			if ref.Path[0] == "source" && !l.defines("source") {
				out = c.readSource(out, l, ref.Guarded)
			}
			if ref.Path[0] != "steps" {
				continue
			}
			if len(ref.Path) == 1 {
				c.readAll = true
				out = append(out, Read{Up: ReadAll})
				for at := l; at != nil && !at.all; at = at.outer {
					at.all = true
					for i := range at.graph.Steps {
						c.marks = append(c.marks, mark{at.graph, int32(i), nil})
					}
				}
				continue
			}
			if up, i, g, ok := l.find(ref.Path[1]); ok {
				out = append(out, Read{Up: up, Step: i})
				if i >= 0 {
					c.marks = append(c.marks, mark{g, i, ref.Path[2:]})
				} else if len(ref.Path) < 3 || ref.Path[2] == "outputs" {
					g.Families[^i].Keep = true
				}
			}
		}
	}
	for _, v := range values {
		v.Templates(visit)
	}
	if cond != nil {
		visit(cond)
	}
	slices.SortFunc(out, func(a, b Read) int {
		return cmp.Or(cmp.Compare(a.Up, b.Up), cmp.Compare(a.Step, b.Step), cmp.Compare(a.source(), b.source()))
	})
	return slices.Compact(out)
}

func (r Read) source() int {
	if r.Source {
		return 1
	}
	return 0
}

// mark is a read to be recorded once every body is compiled: templates may name later steps.
type mark struct {
	graph *Graph
	step  int32
	path  []string
}

// find looks a step, or a family of steps, up from the inside out.
func (l *level) find(id string) (up, index int32, g *Graph, ok bool) {
	for at := l; at != nil; at = at.outer {
		if !at.single {
			if i, found := at.graph.index[id]; found {
				return up, i, at.graph, true
			}
			if k := at.graph.Family(id); k >= 0 {
				return up, ^int32(k), at.graph, true
			}
		}
		up++
	}
	return 0, 0, nil, false
}

// counts are the members of a for_each's outputs that need no results.
var counts = []string{"count", "completed", "failed", "skipped"}

// markKept marks a step whose field path (outputs, results …) a template reads.
func markKept(g *Graph, i int32, path []string) {
	s := &g.Steps[i]
	if len(path) > 0 && path[0] != "outputs" {
		return // status, error and attempt are always at hand
	}
	known := s.Keep
	s.Keep = true
	if s.Body == nil || s.Body.Pipeline != "" {
		return
	}
	if s.ForEach != nil {
		if len(path) > 1 && slices.Contains(counts, path[1]) {
			return
		}
		known = s.ForEach.Collect
		s.ForEach.Collect = true
	}
	if known {
		return // and so are the steps inside
	}
	for j := range s.Body.Graph.Steps {
		markKept(s.Body.Graph, int32(j), nil)
	}
}
