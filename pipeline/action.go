package pipeline

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
)

// action makes a pipeline of one step. Values reach the step by reference, so that nothing in them is taken for a
// template: a webhook's payload could otherwise read secrets.
func (l *Library) action(ctx context.Context, in Launch, req *conductor.Request) error {
	about, ok := l.o.Catalog.Spec(in.Action)
	if !ok || about.Internal || about.Stream != nil {
		hint := "stepwell actions lists them"
		if near := spec.Closest(in.Action, l.o.Catalog.Names()); near != "" {
			hint = "did you mean " + near + "?"
		}
		return invalid(hint, "there is no action %q", in.Action)
	}
	step := definition.Step{ID: stepID(about.Name), Action: in.Action, Params: map[string]any{}}
	maps.Copy(step.Params, in.Written)
	for name := range in.Params {
		if strings.HasPrefix(name, "_") || in.Loose && !takes(about, name) {
			continue // _trigger is for templates alone
		}
		step.Params[name] = "{{ params[" + quoted(name) + "] }}"
	}
	def := &definition.Definition{Name: in.Action, Parameters: parameters(about, in), Steps: []definition.Step{step}}
	problems := definition.Check(def, l.o.Catalog, "")
	for i := range problems { // of the request, not of a document
		problems[i].Path = strings.TrimPrefix(problems[i].Path, "steps[0].")
		problems[i].Line, problems[i].Column = 0, 0
	}
	if err := problems.Err(); err != nil {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "parameters of " + in.Action, Err: err}
	}
	var err error
	req.Params = in.Params
	req.Pipeline, err = l.o.Runner.Register(ctx, l.o.Defaults.apply(def, l.o.Catalog))
	return err
}

// takes reports whether an action has a parameter.
func takes(about *spec.Spec, name string) bool {
	_, ok := spec.FieldNamed(about.Params, name)
	return ok || about.OpenParams
}

// parameters declares the given values with the action's types, so that they are checked as data.
func parameters(about *spec.Spec, in Launch) []definition.Parameter {
	var list []definition.Parameter
	for _, name := range slices.Sorted(maps.Keys(in.Params)) {
		p := definition.Parameter{Name: name, Type: spec.Any}
		if f, ok := spec.FieldNamed(about.Params, name); ok {
			p.Type, p.Enum, p.Secret = f.Type, f.Enum, f.Secret
		}
		list = append(list, p)
	}
	return list
}

// stepID is the action's last word, as an id.
func stepID(name string) string {
	name = name[strings.LastIndexByte(name, '.')+1:]
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, name)
}

// quoted is a name as a text in a template, without anything that could end the template.
func quoted(name string) string {
	return strings.NewReplacer("{", `\x7b`, "}", `\x7d`, "%", `\x25`, "#", `\x23`).Replace(strconv.QuoteToASCII(name))
}
