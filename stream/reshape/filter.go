package reshape

import (
	"context"
	"fmt"

	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
)

const filterDoc = "An item is kept when `when` is true for it, which is read as the conditions of steps are: what is undefined is false, so that " +
	"`item.properties[\"eo:cloud_cover\"] < 10` drops the items that do not tell. An item for which it cannot be evaluated, because it compares a text with a number, " +
	"say, is recorded as a failure. Names are `item` and those that every template sees."

func filterModule() stream.Module {
	one := 1.0
	return stream.Module{
		Spec: spec.Spec{
			Name:    "stream.filter",
			Summary: "Keeps the items for which a condition is true.",
			Doc:     filterDoc,
			Stream:  &spec.Stream{Role: spec.Modifier, Parallel: true},
			Params:  []spec.Field{{Name: "when", Type: spec.String, Required: true, Raw: true, Min: &one, Doc: "The condition, with or without {{ }}, about `item`."}},
			Examples: []spec.Example{
				{Title: "clear scenes only", YAML: "id: clear\nmodule: stream.filter\ndepends_on: [scenes]\nconfig:\n  when: item.properties[\"eo:cloud_cover\"] < 10"},
			},
		},
		Open: func(_ context.Context, env *stream.Env, config map[string]any) (any, error) {
			f, problems := newFilter(config, func(t *expr.Template) error { return unseen(t, env.Scope) })
			if err := badConfig(problems); err != nil {
				return nil, err
			}
			f.under = env.Scope
			return f, nil
		},
		Check: func(config map[string]any) []error {
			source, _ := config["when"].(string)
			if _, err := expr.Parse(source); err != nil {
				return nil // the check of the definition tells what is wrong between {{ }}, with its line
			}
			_, problems := newFilter(config, misspelt)
			return problems
		},
	}
}

type filter struct {
	when  *expr.Template
	under expr.Scope
}

func newFilter(config map[string]any, look func(*expr.Template) error) (*filter, []error) {
	source, _ := config["when"].(string)
	when, err := expr.ParseCondition(source)
	if err == nil {
		err = look(when)
	}
	if err != nil {
		return nil, []error{fmt.Errorf("when: %w", syntax(err))}
	}
	return &filter{when: when}, nil
}

// Modify implements stream.Modifier.
func (f *filter) Modify(_ context.Context, it *stream.Item) (*stream.Item, error) {
	keep, err := f.when.EvalBool(&scope{it.Value, f.under}, expr.Limits{})
	switch {
	case err != nil:
		return nil, &stream.Error{Type: stream.DataProcessing, Context: stream.Context{Field: "when"}, Err: fmt.Errorf("when: %w", err)}
	case !keep:
		return nil, nil
	}
	return it, nil
}
