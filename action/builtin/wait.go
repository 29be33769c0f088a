package builtin

import (
	"context"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// maxWait is the longest wait, one year.
const maxWait = 365 * 24 * time.Hour

const stamp = "2006-01-02T15:04:05.000Z07:00"

func wait(now func() time.Time) action.Action {
	return action.Action{
		Spec: spec.Spec{
			Name:    "util.wait",
			Effect:  spec.NoEffect,
			Aliases: []string{"delay"},
			Summary: "Waits for a time to pass or to come.",
			Doc: "Exactly one of `seconds`, `duration` and `until` says how long, at most one year. The wait is stored: " +
				"it holds no worker and survives restarts of Stepwell. A time of zero, or in the past, ends it at once.",
			Params: []spec.Field{
				{Name: "seconds", Type: spec.Number, Min: ptr(0), Max: ptr(maxWait.Seconds()), Doc: "How long, in seconds."},
				{Name: "duration", Type: spec.Duration, Doc: "How long, such as `1h30m`, or a number of seconds."},
				{Name: "until", Type: spec.Time, Doc: "Until when, in RFC 3339."},
			},
			Outputs: []spec.Field{
				{Name: "waited_seconds", Type: spec.Number, Doc: "The length of the wait, counted from the start of the step."},
				{Name: "until", Type: spec.Time, Doc: "When the wait ended, in UTC."},
			},
			Examples: []spec.Example{
				{Title: "a pause", YAML: "id: pause\naction: util.wait\nparams: {duration: 1h30m}"},
				{Title: "until a time", YAML: "id: embargo\naction: util.wait\nparams: {until: \"2027-01-01T00:00:00+01:00\"}"},
			},
		},
		Handler: waitHandler{now},
	}
}

type waitHandler struct{ now func() time.Time }

func (waitHandler) waits() {}

// Run implements action.Handler.
func (h waitHandler) Run(_ context.Context, call *action.Call) (any, error) {
	start := h.now().Round(0) // the stored time outlives this process and its monotonic clock
	var given []string
	for _, name := range waitParams {
		if call.Params[name] != nil {
			given = append(given, name)
		}
	}
	if len(given) != 1 {
		return nil, action.Invalid("give exactly one of seconds, duration and until", "%d of them are given", len(given))
	}
	length, err := waitLength(given[0], call.Params[given[0]], start)
	if err != nil {
		return nil, err
	}
	length = max(length, 0)
	if length > maxWait {
		return nil, tooLong(given[0])
	}
	until := start.Add(length)
	outputs := map[string]any{"waited_seconds": length.Seconds(), "until": until.UTC().Format(stamp)}
	if length == 0 {
		return outputs, nil
	}
	return nil, action.WaitUntil(until, outputs)
}

var waitParams = []string{"seconds", "duration", "until"}

// Validate implements action.Validator. Parameters that hold templates are not among params, so that
// none being there proves nothing.
func (h waitHandler) Validate(params map[string]any) []error {
	var problems []error
	given := 0
	for _, name := range waitParams {
		value := params[name]
		if value == nil {
			continue
		}
		given++
		// A time can only be judged when the step runs; here it must only be readable.
		length, err := waitLength(name, value, time.Time{})
		switch {
		case err != nil:
			problems = append(problems, err)
		case name != "until" && length > maxWait:
			problems = append(problems, tooLong(name))
		}
	}
	if given > 1 {
		problems = append(problems, action.Invalid("give exactly one of seconds, duration and until", "%d of them are given", given))
	}
	return problems
}

// waitLength is how long the parameter asks to wait from start on; a past time gives less than zero.
func waitLength(name string, value any, start time.Time) (time.Duration, error) {
	if name == "until" {
		return untilLength(value, start)
	}
	length, err := spec.ParseDuration(value)
	if err != nil {
		return 0, action.Invalid("write a number of seconds, or for duration 1h30m", "%s: %v", name, err)
	}
	return length, nil
}

func untilLength(value any, start time.Time) (time.Duration, error) {
	text, ok := value.(string)
	if !ok {
		return 0, action.Invalid(untilHint, "until: is %s, not a time", typeName(value))
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, action.Invalid(untilHint, "until: %q is no RFC 3339 time", text)
	}
	return t.Sub(start), nil
}

const untilHint = "write it like 2027-01-31T18:00:00Z or 2027-01-31T18:00:00+01:00"

func tooLong(name string) error {
	return action.Fail(stepwell.Errorf(stepwell.CodeLimit, "for later times use a schedule", "%s: is more than one year away", name))
}
