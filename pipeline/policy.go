package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
)

// unknownRole is the authority of definitions stored before roles were recorded: the lowest that could store one.
const unknownRole = "editor"

// use is an action or module that steps use on somebody's authority.
type use struct {
	author definition.Author
	action string
}

// uses lists the actions and modules of a definition, and of those inside it, each once.
func uses(d *definition.Definition) []use {
	var list []use
	known := map[use]bool{}
	eachUse(d, func(u use, _ *definition.Step, _ string) {
		if !known[u] {
			known[u] = true
			list = append(list, u)
		}
	})
	return list
}

// Uses are the actions and modules of a definition's steps and of those of the pipelines inside it, as they are written, each once.
func Uses(d *definition.Definition) (names []string) {
	eachUse(d, func(u use, _ *definition.Step, _ string) {
		if !slices.Contains(names, u.action) {
			names = append(names, u.action)
		}
	})
	return names
}

// eachUse calls f for every step of a definition, and of the pipelines inside it, that uses an action or module, with its
// path; for the action of a loop with a step of its own. Pipelines without an author of their own have the
// definition's.
func eachUse(d *definition.Definition, f func(u use, s *definition.Step, path string)) {
	var walk func(steps []definition.Step, author definition.Author, path string)
	walk = func(steps []definition.Step, author definition.Author, path string) {
		for i := range steps {
			s, at := &steps[i], fmt.Sprintf("%s[%d]", path, i)
			if name := cmp.Or(s.Action, s.Module); name != "" {
				f(use{author, name}, s, at)
			}
			if inner, ok := s.Params["action"].(string); ok && s.Action != "" && inner != "" { // of a loop
				params, _ := s.Params["action_params"].(map[string]any)
				f(use{author, inner}, &definition.Step{ID: s.ID, Action: inner, Params: params, Pos: s.Pos}, at+".params.action")
			}
			walk(s.Steps, author, at+".steps")
		}
	}
	part := func(d *definition.Definition, author definition.Author, base string) {
		walk(d.Steps, author, base+"steps")
		walk(d.OnFailure, author, base+"on_failure")
		walk(d.Finally, author, base+"finally")
	}
	own := definition.Author{Role: unknownRole, Name: d.Name}
	if d.Author != nil {
		own = *d.Author
	}
	part(d, own, "")
	for _, name := range slices.Sorted(maps.Keys(d.Pipelines)) {
		author := own
		if sub := d.Pipelines[name]; sub.Author != nil {
			author = *sub.Author
		}
		part(d.Pipelines[name], author, "pipelines."+name+".")
	}
}

// Denied are warnings for the steps that the policy denies to an author of a role, and for those of stored pipelines
// that they run.
func (l *Library) Denied(ctx context.Context, d *definition.Definition, role string) (definition.Problems, error) {
	if l.o.Allow == nil {
		return nil, nil
	}
	own := *d
	own.Author = &definition.Author{Role: cmp.Or(role, unknownRole), Name: d.Name}
	switch o, _, err := l.head(ctx, d.Name); { // rules may be for a pipeline's id
	case err == nil:
		own.Author.Pipeline = o.ID
	case stepwell.CodeOf(err) != stepwell.CodeNotFound:
		return nil, err
	}
	var list definition.Problems
	eachUse(&own, func(u use, s *definition.Step, path string) {
		err := l.o.Allow(&u.author, u.action)
		if err == nil || len(list) >= maxDenied {
			return
		}
		p := definition.Problem{Path: path, Line: s.Pos.Line, Column: s.Pos.Column, Message: err.Error(), Hint: stepwell.HintOf(err), Warning: true}
		if u.author != *own.Author { // of another document
			p.Line, p.Column = 0, 0
		}
		list = append(list, p)
	})
	return list, nil
}

// maxDenied bounds the warnings of one document.
const maxDenied = 100

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

// inner are the pipelines inside a document: stored ones have authors of their own.
func inner(d *definition.Definition) map[string]*definition.Definition {
	own := map[string]*definition.Definition{}
	for name, sub := range d.Pipelines {
		if sub.Author == nil {
			own[name] = sub
		}
	}
	return own
}
