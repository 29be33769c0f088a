package builtin

import (
	"context"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

func noop() action.Action {
	return action.Action{
		Spec: spec.Spec{
			Name:    "util.noop",
			Effect:  spec.NoEffect,
			Summary: "Does nothing.",
			Doc: "Completes at once with no outputs, whatever its parameters are. It joins branches of a graph, and " +
				"the benchmark uses it to measure what a step costs without its work.",
			OpenParams: true,
			Examples: []spec.Example{{Title: "wait for two branches", YAML: `
id: both
action: util.noop
depends_on: [left, right]`}},
		},
		Handler: action.HandlerFunc(func(context.Context, *action.Call) (any, error) { return nil, nil }),
	}
}
