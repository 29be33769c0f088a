package builtin

import (
	"context"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

func setOutput() action.Action {
	return action.Action{
		Spec: spec.Spec{
			Name:    "util.set_output",
			Effect:  spec.NoEffect,
			Aliases: []string{"set_output"},
			Summary: "Returns its parameters as outputs.",
			Doc: "The outputs are the members of `outputs`, or without it all parameters. They keep their types: " +
				"a template that is one expression gives its native value.",
			OpenParams: true,
			Params: []spec.Field{
				{Name: "outputs", Type: spec.Object, Doc: "The outputs by name. Alone: no other parameter may stand beside it."},
			},
			Examples: []spec.Example{{Title: "gather values under one step", YAML: `
id: summary
action: util.set_output
params:
  model: "{{ steps.onboard.outputs.model_id }}"
  replicas: 3`}},
		},
		Handler: setOutputHandler{},
	}
}

type setOutputHandler struct{}

// Validate implements action.Validator.
func (setOutputHandler) Validate(params map[string]any) []error {
	if _, err := outputsOf(params); err != nil {
		return []error{err}
	}
	return nil
}

// Run implements action.Handler.
func (setOutputHandler) Run(_ context.Context, call *action.Call) (any, error) {
	return outputsOf(call.Params)
}

func outputsOf(params map[string]any) (any, error) {
	value, ok := params["outputs"]
	if !ok {
		return params, nil
	}
	if len(params) > 1 {
		return nil, action.Invalid("move them into outputs, or leave outputs out", "outputs stands beside %d other parameters", len(params)-1)
	}
	outputs, ok := value.(map[string]any)
	if !ok {
		return nil, action.Invalid("", "outputs: is %s, not an object", typeName(value))
	}
	return outputs, nil
}
