package builtin

import (
	"context"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

type failParams struct {
	Message any    `json:"message" default:"\"the step failed on purpose\"" doc:"Why; anything but a string is written as JSON."`
	Code    string `json:"error_code" default:"INTENTIONAL_FAILURE" doc:"A code by which programs recognise the failure."`
}

func fail() action.Action {
	return action.Of(spec.Spec{
		Name:    "util.fail",
		Effect:  spec.NoEffect,
		Aliases: []string{"fail"},
		Summary: "Fails the step on purpose.",
		Doc: "The step fails without further attempts; its error message is `error_code: message`. Together " +
			"with a condition it is an assertion.",
		Examples: []spec.Example{{Title: "refuse an empty result", YAML: `
id: check
action: util.fail
depends_on: [fetch]
condition: "{{ steps.fetch.outputs.count == 0 }}"
params:
  message: nothing was fetched
  error_code: EMPTY`}},
	}, func(_ context.Context, _ *action.Call, p failParams) (*struct{}, error) {
		return nil, action.Fail(stepwell.Errorf(stepwell.CodeFailed, "", "%s: %s", p.Code, textOf(p.Message)))
	})
}
