package stream

import (
	"context"
	"log/slog"
	"os"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/expr"
)

// Try checks the config of a registered module without changing anything (Module.Try), and returns the problems; none when the module has no Try. The config must have passed the Spec; templates in it are left as they
// are. dir is the directory of relative paths.
func Try(ctx context.Context, r *action.Registry, name, dir string, config map[string]any) ([]error, error) {
	a, ok := r.Lookup(name)
	if !ok {
		return nil, nil
	}
	h, ok := a.Handler.(moduleHandler)
	if !ok || h.module.Try == nil {
		return nil, nil
	}
	checker, _ := r.Params(name)
	data, err := os.MkdirTemp("", "stepwell-try-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(data)
	env := &Env{Step: "try", Workflow: "try", Run: "try", Dir: dir, Data: data, Scope: expr.Vars(nil),
		Log:    func(slog.Level, string, ...slog.Attr) {},
		Fail:   func(Failure) error { return nil },
		Refuse: func(*Item, error) error { return nil },
		Eval: func(template string, extra map[string]any) (any, error) {
			t, err := expr.Parse(template)
			if err != nil {
				return nil, err
			}
			return t.Eval(expr.Vars(extra), expr.Limits{})
		}}
	return h.module.Try(ctx, env, checker.Apply(config)), nil
}
