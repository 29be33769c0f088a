package builtin

import (
	"context"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

func fail() action.Action {
	return action.Action{
		Spec: spec.Spec{
			Name:    "util.fail",
			Aliases: []string{"fail"},
			Summary: "Fails the step on purpose.",
			Doc: "The step fails without further attempts; its error message is `error_code: message`. Together " +
				"with a condition it is an assertion.",
			Params: []spec.Field{
				{Name: "message", Type: spec.Any, Default: "the step failed on purpose", Doc: "Why; anything but a string is written as JSON."},
				{Name: "error_code", Type: spec.String, Default: "INTENTIONAL_FAILURE", Doc: "A word for programs to recognise the failure by."},
			},
			Examples: []spec.Example{{Title: "refuse an empty result", YAML: `
id: check
action: util.fail
depends_on: [fetch]
condition: "{{ steps.fetch.outputs.count == 0 }}"
params:
  message: nothing was fetched
  error_code: EMPTY`}},
		},
		Handler: action.HandlerFunc(runFail),
	}
}

func runFail(_ context.Context, call *action.Call) (any, error) {
	message, code := textOf(call.Params["message"]), textOf(call.Params["error_code"])
	if code == "" {
		code = "INTENTIONAL_FAILURE"
	}
	return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeFailed, Message: code + ": " + message})
}
