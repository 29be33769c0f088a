package pipeline

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
)

// action makes a pipeline of one step. Values of a request reach the step by reference: nothing in them is evaluated as
// a template, which could read secrets. Trigger data reaches it only where the definition refers to it.
func (l *Library) action(ctx context.Context, in *Launch) error {
	about, ok := l.o.Catalog.Spec(in.Action)
	if !ok || about.Internal || about.Stream != nil {
		hint := "stepwell actions lists them"
		if near := spec.Closest(in.Action, l.o.Catalog.Names()); near != "" {
			hint = "did you mean " + near + "?"
		}
		return stepwell.Invalid(hint, "there is no action %q", in.Action)
	}
	step := definition.Step{ID: stepID(about.Name), Action: in.Action, Params: map[string]any{}}
	maps.Copy(step.Params, in.Written)
	params := in.Params
	if in.Outside != nil {
		step.Params, _ = withEvent(step.Params).(map[string]any)
		params = in.Outside.params()
	}
	for name := range in.Params {
		step.Params[name] = "{{ params[" + quoted(name) + "] }}"
	}
	def := &definition.Definition{Name: in.Action, Parameters: parameters(about, in), Steps: []definition.Step{step}, Author: author(in.Role, about.Name)}
	if err := l.allowed(uses(def)); err != nil {
		return err
	}
	problems := definition.Check(def, l.o.Catalog, "")
	for i := range problems { // of the request, not of a document
		problems[i].Path = strings.TrimPrefix(problems[i].Path, "steps[0].")
		problems[i].Line, problems[i].Column = 0, 0
	}
	if err := problems.Err(); err != nil {
		failed := &stepwell.Error{Code: stepwell.CodeInvalid, Message: "parameters of " + in.Action, Err: err}
		if in.Outside != nil {
			failed.Hint = "write all of them into the trigger; there, {{ event }} is the data from outside"
		}
		return failed
	}
	var err error
	in.Params = params
	in.Pipeline, err = l.o.Runner.Register(ctx, l.o.Defaults.apply(def, l.o.Catalog))
	return err
}

// parameters declares the given values with the action's types, so that they are checked as data.
func parameters(about *spec.Spec, in *Launch) []definition.Parameter {
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
