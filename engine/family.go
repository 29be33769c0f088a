package engine

import (
	"fmt"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/plan"
)

// family is the templates' view of the spawned steps of a name: lists in the order of spawning. It is immutable.
type family struct {
	outputs, failures []byte // JSON lists: null for a step that gave none, or did not fail
	count             int64
}

// Keys are the family's members.
func (f *family) Keys() []string { return []string{"count", "failures", "outputs"} }

// Attr implements expr.Object.
func (f *family) Attr(name string) (any, bool) {
	switch name {
	case "outputs":
		return expr.Raw(f.outputs), true
	case "failures":
		return expr.Raw(f.failures), true
	case "count":
		return f.count, true
	}
	return nil, false
}

// family returns a cached view of the name's steps; a change of any of them drops it.
func (s *scope) family(name string) view {
	g := s.group(name)
	if g.seen == nil {
		g.seen = s.familyNow(name)
	}
	return view{id: name, family: g.seen}
}

func (s *scope) familyNow(name string) *family {
	f := &family{outputs: []byte{'['}, failures: []byte{'['}}
	for i := range s.extra {
		n := &s.nodes[len(s.graph.Steps)+i]
		if s.extra[i].spec.Name != name || n.flags&dormant != 0 {
			continue
		}
		output, failure := []byte("null"), []byte("null")
		if in := n.info; in != nil && n.status == stepwell.StepCompleted && len(in.output) > 0 {
			output = in.output
		} else if in != nil && in.err != nil && n.status != stepwell.StepSkipped {
			failure = canonical(map[string]any{"step": s.extra[i].spec.Key, "code": in.err.Code, "message": in.err.Message})
		}
		if f.count++; f.count > 1 {
			f.outputs, f.failures = append(f.outputs, ','), append(f.failures, ',')
		}
		f.outputs, f.failures = append(f.outputs, output...), append(f.failures, failure...)
	}
	f.outputs, f.failures = append(f.outputs, ']'), append(f.failures, ']')
	return f
}

// gather counts the output of a spawned step that is kept for readers of its family. It reports false when that
// exceeds the limit.
func (r *Run) gather(p place, output []byte) bool {
	x := p.s.spawnedAt(p.i)
	if x == nil || !x.step.Keep {
		return true
	}
	g := p.s.group(x.spec.Name)
	if g.bytes+len(output) > maxCollected {
		g.over = true
		return false
	}
	g.bytes += len(output)
	return true
}

// tooLarge is the failure of a step that reads a family which gave more than is kept, nil for all others.
func (s *scope) tooLarge(reads []plan.Read) *Failure {
	for _, read := range reads {
		if read.Up < 0 || read.Step >= 0 {
			continue
		}
		at := s
		for up := read.Up; up > 0 && at != nil; up-- {
			at = at.outer()
		}
		if at == nil {
			continue
		}
		if name := at.graph.Families[^read.Step].Name; at.group(name).over {
			return &Failure{Code: stepwell.CodeLimit, Message: fmt.Sprintf("the outputs of the steps %s exceed %d MiB", name, maxCollected>>20),
				Hint: "let the steps return less, or write to files and return their names"}
		}
	}
	return nil
}
