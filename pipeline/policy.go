package pipeline

import (
	"cmp"

	"github.com/stepwell/stepwell/definition"
)

// unknownRole is the authority of what was stored or written before roles were kept with it: the least that could.
const unknownRole = "editor"

// use is an action or module that steps use on somebody's authority.
type use struct {
	author definition.Author
	action string
}

// uses lists what the steps of a definition, and of those inside it, use, each once. Pipelines in it without an author
// of their own have its.
func uses(d *definition.Definition) []use {
	var list []use
	known := map[use]bool{}
	var walk func(steps []definition.Step, author definition.Author)
	walk = func(steps []definition.Step, author definition.Author) {
		for i := range steps {
			s := &steps[i]
			walk(s.Steps, author)
			names := []string{cmp.Or(s.Action, s.Module)}
			if inner, ok := s.Params["action"].(string); ok && s.Action != "" { // of a loop
				names = append(names, inner)
			}
			for _, name := range names {
				if u := (use{author, name}); name != "" && !known[u] {
					known[u] = true
					list = append(list, u)
				}
			}
		}
	}
	part := func(d *definition.Definition, author definition.Author) {
		for _, steps := range [][]definition.Step{d.Steps, d.OnFailure, d.Finally} {
			walk(steps, author)
		}
	}
	own := definition.Author{Role: unknownRole, Name: d.Name}
	if d.Author != nil {
		own = *d.Author
	}
	part(d, own)
	for _, sub := range d.Pipelines {
		if sub.Author != nil {
			part(sub, *sub.Author)
		} else {
			part(sub, own)
		}
	}
	return list
}

// allowed is CodeDenied when one of the uses is not allowed.
func (l *Library) allowed(list []use) error {
	if l.o.Allow == nil {
		return nil
	}
	for i := range list {
		if err := l.o.Allow(&list[i].author, list[i].action); err != nil {
			return err
		}
	}
	return nil
}

// Allowed is CodeDenied when somebody of a role may not have a single action started.
func (l *Library) Allowed(role, action string) error {
	return l.allowed([]use{{definition.Author{Role: cmp.Or(role, unknownRole), Name: action}, action}})
}

// author is whose authority a definition that is not stored has.
func author(role, name string) *definition.Author {
	return &definition.Author{Role: cmp.Or(role, unknownRole), Name: name}
}

// inner are the pipelines that a document brings itself: those that are stored have authors.
func inner(d *definition.Definition) map[string]*definition.Definition {
	own := map[string]*definition.Definition{}
	for name, sub := range d.Pipelines {
		if sub.Author == nil {
			own[name] = sub
		}
	}
	return own
}
