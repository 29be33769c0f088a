package builtin

import (
	"context"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// eventKey is the signal of an event, and approvalKey that of a decision.
func eventKey(name string) string { return "event:" + name }

func approvalKey(call *action.Call) string { return "approval:" + call.Execution + "/" + call.StepKey }

func waitFor(now func() time.Time) action.Action {
	return action.Action{
		Spec: spec.Spec{
			Name:    "util.wait_for",
			Effect:  spec.NoEffect,
			Summary: "Waits for an event from outside.",
			Doc: "The step ends with the data of the first event that has its key, also of one that came before the step began to wait and that no " +
				"step has taken since. All steps that wait for a key when its event comes end with it. The wait holds no worker and survives restarts " +
				"of Stepwell. Without `timeout_seconds` only the step's own timeout ends it.",
			Params: []spec.Field{
				{Name: "event", Type: spec.String, Required: true, Min: ptr(1), Max: ptr(1000), Doc: "The key of the event, such as `order-{{ params.id }}`."},
				{Name: "timeout_seconds", Type: spec.Number, Min: ptr(0.001), Max: ptr(maxWait.Seconds()), Doc: "How long to wait at most."},
				{Name: "default", Type: spec.Object, Doc: "The outputs when no event came in time; without it the step fails then."},
			},
			Examples: []spec.Example{{Title: "until a file has arrived", YAML: "id: arrived\naction: util.wait_for\nparams:\n" +
				"  event: \"upload-{{ params.id }}\"\n  timeout_seconds: 86400\n  default: {path: \"\"}"}},
		},
		Handler: waitForHandler{now},
	}
}

type waitForHandler struct{ now func() time.Time }

func (waitForHandler) waits() {}

// Run implements action.Handler.
func (h waitForHandler) Run(_ context.Context, call *action.Call) (any, error) {
	name, _ := call.Params["event"].(string)
	var outputs any // nil: fail
	if m, ok := call.Params["default"].(map[string]any); ok {
		outputs = m
	}
	return nil, action.Await(eventKey(name), within(h.now(), call.Params["timeout_seconds"]), outputs)
}

// within is when a number of seconds, which the Spec has checked, is over; zero for none.
func within(now time.Time, seconds any) time.Time {
	if d, err := spec.ParseDuration(seconds); err == nil && d > 0 {
		return now.Round(0).Add(d)
	}
	return time.Time{}
}
