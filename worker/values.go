package worker

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
)

// Values are what the templates read that a task's handler renders itself: an object of the root names that they mention, as JSON,
// with execution. An error says that they do not fit into JSON: secrets, values that are known to be absent, large ones, and the
// templates of revision 1. Such a task stays in this process.
func (r *Runner) Values(ctx context.Context, p Prepared) (raw []byte, err error) {
	var a attempt
	a.begin(ctx, r, p.Task)
	defer a.end()
	err = a.recovered(func() error {
		values, err := a.values()
		if err == nil {
			raw, err = expr.Marshal(values)
		}
		return err
	})
	return raw, err
}

func (a *attempt) values() (map[string]any, error) {
	t, scope := a.Task, a.templateScope()
	if t.Limits.Revision == 1 {
		return nil, stepwell.Invalid("", "the execution's templates are of revision 1")
	}
	paths := [][]string{{"execution"}}
	t.Step.Params.Unrendered(func(t *expr.Template) {
		for _, ref := range t.Refs() {
			paths = append(paths, ref.Path[:1], ref.Path)
		}
	})
	values := map[string]any{}
	for _, path := range paths {
		root := path[0]
		if _, ok := scope.Lookup(root); !ok {
			continue // the handler's own, such as item
		}
		if _, done := values[root]; done && len(path) == 1 {
			continue
		}
		v, err := a.valueAt(scope, path)
		if root == "secrets" || root == "credentials" || a.scopeError() != nil {
			return nil, stepwell.Invalid("", "a template of the action's own reads secrets")
		}
		if len(path) == 1 && err == nil {
			values[root] = v
		}
		if wrong, ok := errors.AsType[*expr.Error](err); err != nil && (len(path) == 1 || !ok || wrong.Absent) {
			return nil, err
		}
	}
	return values, nil
}

// valueAt is the value of a path of names.
func (a *attempt) valueAt(scope expr.Scope, path []string) (any, error) {
	var b strings.Builder
	b.WriteString(path[0])
	for _, key := range path[1:] {
		b.WriteString("[" + strconv.Quote(key) + "]")
	}
	t, err := expr.Parse("{{ " + b.String() + " }}")
	if err != nil {
		return nil, err
	}
	return t.Eval(scope, a.Task.Limits)
}
