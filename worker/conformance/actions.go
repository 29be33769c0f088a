package conformance

import (
	"context"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// Actions describes what a worker must serve to be judged. Their handlers fail: the private node runs none.
func Actions() []action.Action {
	handler := action.HandlerFunc(func(context.Context, *action.Call) (any, error) {
		return nil, action.Fail(stepwell.Errorf(stepwell.CodeInternal, "", "a worker runs this action"))
	})
	var list []action.Action
	for _, s := range specs {
		list = append(list, action.Action{Spec: s, Handler: handler})
	}
	return list
}

func param(name string, t spec.Type, doc string) spec.Field {
	return spec.Field{Name: name, Type: t, Doc: doc}
}

var specs = []spec.Spec{
	{Name: "conformance.echo", Summary: `Completes with {"value": value}.`, Params: []spec.Field{param("value", spec.Any, "Any JSON value.")}},
	{Name: "conformance.fail", Summary: "Fails, or skips itself.", Params: []spec.Field{
		param("message", spec.String, "Of the failure, or why the step is skipped."), param("code", spec.String, "Of the failure. Defaults to failed."),
		param("permanent", spec.Boolean, "No retry will help."), param("skip", spec.Boolean, "Skip the step.")}},
	{Name: "conformance.sleep", Summary: "Sleeps, and completes with {}. When it is stopped, or out of time, it fails at once.", Params: []spec.Field{param("seconds", spec.Number, "How long.")}},
	{Name: "conformance.log", Summary: `Logs "line 1", "line 2", … at level info, each with metadata {"n": 1}, {"n": 2}, …, and completes with {}.`,
		Params: []spec.Field{param("lines", spec.Integer, "How many.")}},
	{Name: "conformance.progress", Summary: "Reports progress, and then sleeps until it is stopped.",
		Params: []spec.Field{param("fraction", spec.Number, "Done, 0 to 1."), param("note", spec.String, "A note.")}},
	{Name: "conformance.memo", Summary: `Recalls the memo "m". When there is one it completes with {"value": memo}; else it records value under "m" and fails, transiently.`,
		Params: []spec.Field{param("value", spec.Any, "Any JSON value.")}},
	{Name: "conformance.spawn", Summary: `Spawns steps named "leaf" with the keys "0", "1", …, of conformance.echo with {value: 0}, {value: 1}, …, and completes with {}.`,
		Spawns: []string{"leaf"}, Params: []spec.Field{param("count", spec.Integer, "How many.")}},
	{Name: "conformance.wait", Summary: `Waits without a worker, then completes with {"value": value}.`,
		Params: []spec.Field{param("seconds", spec.Number, "How long."), param("value", spec.Any, "Any JSON value.")}},
	{Name: "conformance.poll", Summary: `Waits 10 ms without a worker and is called again, times times, counting in its state {"n": …}; then completes with {"polls": times}. Its cancel, if there is one, logs "stopped" with the metadata of the state.`,
		Params: []spec.Field{param("times", spec.Integer, "How often.")}},
	{Name: "conformance.outputs", Summary: `Asks the node for the outputs of a step, and completes with {"outputs": those}.`,
		Params: []spec.Field{param("step", spec.String, "The step's key.")}},
	{Name: "conformance.large", Summary: `Completes with {"text": "xxx…"}.`, Params: []spec.Field{param("bytes", spec.Integer, "Length of the text.")}},
}
