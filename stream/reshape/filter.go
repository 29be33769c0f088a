package reshape

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
)

const filterDoc = "An item is kept when `when` is true for it, which is read as the conditions of steps are. Names are `item` and those that every template sees, " +
	"among them `steps` and `secrets`. An item for which it cannot be evaluated, because it compares a text with a number, say, is recorded as a failure.\n\n" +
	"`missing` says what becomes of an item that lacks a member that `when` asks for: it is recorded as a failure (`fail`), dropped (`drop`) or kept (`keep`); their number is in " +
	"the output `missing`. A condition that copes with it itself needs no `missing`: `item.properties.gsd | default(0) < 10`, or `item.properties.gsd is defined and …`."

func filterModule() stream.Module {
	return stream.Typed[filterConfig]{
		Spec: spec.Spec{
			Name:    "stream.filter",
			Summary: "Keeps the items for which a condition is true.",
			Doc:     filterDoc,
			Effect:  spec.NoEffect,
			Stream:  &spec.Stream{Role: spec.Modifier, Parallel: true},
			Outputs: []spec.Field{{Name: "missing", Type: spec.Integer, Doc: "How many items of this run lacked a member that the condition asks for."}},
			Examples: []spec.Example{
				{Title: "clear scenes only", YAML: "id: clear\nmodule: stream.filter\ndepends_on: [scenes]\nconfig:\n  when: item.properties[\"eo:cloud_cover\"] < 10\n  missing: drop"},
			},
		},
		Open: func(_ context.Context, env *stream.Env, c *filterConfig) (any, error) {
			f, problems := newFilter(c, func(t *expr.Template) error { return unseen(t, env.Scope) })
			if err := badConfig(problems); err != nil {
				return nil, err
			}
			f.under = env.Scope
			return f, nil
		},
		Check: func(c *filterConfig, _ stream.Config) []error {
			if _, err := expr.Parse(c.When); err != nil {
				return nil // the check of the definition reports errors between {{ }}, with their line
			}
			_, problems := newFilter(c, nil)
			return problems
		},
	}.Module()
}

type filterConfig struct {
	When    string `json:"when" required:"true" minLength:"1" spec:"bare" names:"item" doc:"The condition, with or without {{ }}, about \x60item\x60."`
	Missing string `json:"missing" enum:"fail,drop,keep" default:"fail" doc:"What happens to items that lack a member used by the condition."`
}

// Values of missing that are not the default.
const (
	missingDrops = "drop"
	missingKeeps = "keep"
)

type filter struct {
	when    *expr.Template
	under   expr.Scope
	missing string
	others  []string // the roots that the condition names besides item
	lacked  atomic.Int64
}

func newFilter(c *filterConfig, look func(*expr.Template) error) (*filter, []error) {
	when, err := expr.ParseCondition(c.When)
	if err == nil && look != nil {
		err = look(when)
	}
	if err != nil {
		return nil, []error{fmt.Errorf("when: %w", syntax(err))}
	}
	f := &filter{when: when, missing: c.Missing}
	for _, ref := range when.Refs() {
		if ref.Path[0] != "item" {
			f.others = append(f.others, ref.Path[0])
		}
	}
	return f, nil
}

// Modify implements stream.Modifier.
func (f *filter) Modify(_ context.Context, it *stream.Item) (*stream.Item, error) {
	keep, absent, err := f.when.Decide(&scope{it.Value, f.under}, expr.Limits{})
	if err == nil {
		err = absent
	}
	switch {
	case err == nil && keep:
		return it, nil
	case err == nil:
		return nil, nil
	case f.lacks(err):
		f.lacked.Add(1)
		switch f.missing {
		case missingDrops:
			return nil, nil
		case missingKeeps:
			return it, nil
		}
	}
	return nil, &stream.Error{Type: stream.DataProcessing, Context: stream.Context{Field: "when"}, Err: fmt.Errorf("when: %w", err)}
}

// lacks reports whether the condition could not be decided because of something that the item has not.
func (f *filter) lacks(err error) bool {
	e, ok := errors.AsType[*expr.Error](err)
	if !ok || e.Code != expr.CodeUndefined {
		return false
	}
	root := e.Name
	if end := strings.IndexAny(root, ".["); end > 0 {
		root = root[:end]
	}
	return !slices.Contains(f.others, root)
}

// Finish implements stream.Finisher.
func (f *filter) Finish(error) (any, error) { return map[string]any{"missing": f.lacked.Load()}, nil }
