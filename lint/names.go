package lint

import (
	"strconv"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// Types answers what an editor asks about names in templates. It is not safe for concurrent use.
type Types struct{ s *scene }

// TypesOf infers the types of a definition that Parse has made, whether it has errors or not. Its cost is that of Check.
func TypesOf(d *definition.Definition, cat definition.Catalog) *Types {
	if len(d.Matrix) > 0 && d.Pipelines[d.Matrix[0]] != nil {
		entry := *d.Pipelines[d.Matrix[0]]
		entry.Pipelines = d.Pipelines
		d = &entry
	}
	s := newScene(d, cat, &spec.Report{}, Facts{})
	for i := range s.texts {
		s.types(&s.texts[i]) // learns the elements of loops
	}
	return &Types{s}
}

// Of is the type of a name with members, as templates of a step read it: steps, a, outputs. It is nil where nothing is known.
// An unknown step is like a template outside of steps.
func (t *Types) Of(step string, path []string) *expr.Type {
	if len(path) == 0 {
		return nil
	}
	at, ok := t.s.byID[step]
	if !ok {
		at = spot{-1, -1}
	}
	of := t.s.roots(&text{Template: &definition.Template{}, refs: []expr.Ref{{Path: path}}, at: at})(path[0])
	for _, name := range path[1:] {
		switch {
		case of == nil:
			return nil
		case of.Members[name] != nil:
			of = of.Members[name]
		case of.Kinds&expr.ListKind != 0 && numeric(name):
			of = of.Element
		default:
			return nil
		}
	}
	return of
}

func numeric(name string) bool {
	_, err := strconv.Atoi(name)
	return err == nil
}

// Loops are the names that the loops around a step define, with their types.
func (t *Types) Loops(step string) map[string]*expr.Type {
	at, ok := t.s.byID[step]
	if !ok {
		return nil
	}
	return t.s.loopsAround(&text{Template: &definition.Template{}, at: at})
}
