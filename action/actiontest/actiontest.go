// Package actiontest runs one attempt of an action without a store, a queue or a worker, for the tests
// of people who write actions.
//
// Run treats the handler as a worker does: parameters are checked against the Spec and completed
// with its defaults, spawned steps get what their own Spec says, outputs must be a JSON object. What
// the handler did to its surroundings is in the Result. Nothing is retried and nothing waits: a
// test that wants the next attempt calls Run again with the same Memory. A panic of the handler is not
// caught, so that it shows in the test.
//
// Markdown writes the reference page of actions, for a test that keeps it current. Stable.
package actiontest

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/expr"
)

// Call is the input of the attempt. The zero value is a first attempt with no parameters in an execution without
// history.
type Call struct {
	Params map[string]any // as after rendering; defaults are filled in

	Execution string // Defaults to "execution"
	Pipeline  string // Defaults to "pipeline"
	StepName  string // Defaults to the action's name
	StepKey   string // Defaults to StepName
	Attempt   int    // Defaults to 1
	Dir       string // Defaults to the working directory of the test

	State    any                        // the state given to action.Poll. Defaults to none
	Data     map[string]any             // accumulated data of the execution. Defaults to none
	Outputs  map[string]any             // outputs of other steps by key. Defaults to none
	Memory   map[string]json.RawMessage // values of Once and Record across attempts; Run adds to it. Defaults to a new one
	Scope    map[string]any             // names that templates see which the action renders itself. Defaults to none
	Registry *action.Registry           // actions that the handler may spawn. Defaults to the tested action alone
	// CallbackURL is the address for a key. Defaults to there being none.
	CallbackURL func(key string) string
	Traceparent string        // W3C trace context of the attempt. Defaults to none
	Timeout     time.Duration // limit of the attempt. Defaults to the action's, else 5 minutes
}

// Result is the outcome of the attempt.
type Result struct {
	Outputs  map[string]any    // of a success, or of the end of a Wait, as templates see them: numbers are int64 or float64
	Err      error             // why the attempt did not succeed; see action.Fail, Retry, Skip. Nil while it waits
	Wait     *action.WaitError // the attempt waits (action.WaitUntil, action.Poll)
	Logs     []Line
	Progress []Progress
	Spawned  []action.NewStep // each step once, as completed by its Spec
	Owned    json.RawMessage  // the work outside that the attempt has made known (Host.Own); nil: none
	Memory   map[string]json.RawMessage
}

// Line is one line of the step's log.
type Line struct {
	Level   slog.Level
	Message string
	Attrs   []slog.Attr
}

// Progress is one report of progress.
type Progress struct {
	Fraction float64
	Note     string
}

// Skipped reports whether the attempt ended the step as skipped, and why.
func (r *Result) Skipped() (reason string, ok bool) {
	if skip, ok := errors.AsType[*action.SkipError](r.Err); ok {
		return skip.Reason, true
	}
	return "", false
}

// Run runs one attempt; ctx ends it as a cancel does. Parameters that do not fit the Spec are a Result
// whose Err has CodeInvalid.
func Run(ctx context.Context, a action.Action, c Call) Result {
	if c.Memory == nil {
		c.Memory = map[string]json.RawMessage{}
	}
	call, err := prepare(a, &c)
	if err != nil {
		return Result{Err: err, Memory: c.Memory}
	}
	limit := c.Timeout
	if limit <= 0 {
		limit = a.Spec.Timeout
	}
	if limit <= 0 {
		limit = 5 * time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	call.Deadline, _ = ctx.Deadline()

	h := &host{call: &c}
	call.Host = h
	value, err := a.Attempt(ctx, call)
	r := Result{Err: err, Logs: h.logs, Progress: h.progress, Spawned: h.spawned, Owned: h.owned, Memory: c.Memory}
	if wait, ok := errors.AsType[*action.WaitError](err); ok {
		r.Wait, r.Err, value = wait, nil, wait.Outputs
	}
	if r.Err != nil {
		return r
	}
	r.Outputs, r.Err = outputsOf(value)
	return r
}

// Cancel has the action stop the work that a wait left (c.State), as a cancelled step does. The action must be
// an action.Canceler.
func Cancel(ctx context.Context, a action.Action, c Call) error {
	if c.Memory == nil {
		c.Memory = map[string]json.RawMessage{}
	}
	call, err := prepare(a, &c)
	if err != nil {
		return err
	}
	call.Host = &host{call: &c}
	return a.Handler.(action.Canceler).Cancel(ctx, call)
}

// prepare makes the handler's call.
func prepare(a action.Action, c *Call) (*action.Call, error) {
	own := new(action.Registry)
	if err := own.Add(a); err != nil {
		return nil, err
	}
	if c.Registry == nil {
		c.Registry = own
	}
	params, _ := own.Params(a.Spec.Name)
	var problems []error
	for _, m := range params.Check(c.Params) {
		problems = append(problems, &stepwell.Error{Code: stepwell.CodeInvalid, Message: m.Message, Hint: m.Hint})
	}
	if len(problems) == 0 {
		problems = own.Validate(a.Spec.Name, c.Params)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	call := &action.Call{Execution: or(c.Execution, "execution"), Pipeline: or(c.Pipeline, "pipeline"),
		StepName: or(c.StepName, a.Spec.Name), Action: a.Spec.Name, Attempt: max(c.Attempt, 1), Dir: c.Dir,
		Params: params.Apply(c.Params)}
	call.StepKey = or(c.StepKey, call.StepName)
	if c.Traceparent != "" {
		call.Trace = func() string { return c.Traceparent }
	}
	if c.CallbackURL != nil {
		call.Callbacks = func(context.Context) (string, string, error) {
			key := "callback:" + call.Execution + "/" + call.StepKey + "#1"
			return key, c.CallbackURL(key), nil
		}
	}
	if c.State != nil {
		raw, err := json.Marshal(c.State)
		if err != nil {
			return nil, err
		}
		call.State = raw
	}
	return call, nil
}

func or(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

func outputsOf(value any) (map[string]any, error) {
	raw, err := action.Outputs(value)
	if err != nil {
		return nil, err
	}
	decoded, err := expr.Decode(raw)
	outputs, _ := decoded.(map[string]any) // Outputs lets nothing else through
	return outputs, err
}
