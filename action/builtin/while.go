package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// Limits of a loop. The result of one run is stored until the next one.
const (
	maxIterations = 100_000
	maxPassed     = 1 << 20
)

func while(actions *action.Registry, now func() time.Time) action.Action {
	return action.Action{
		Spec: spec.Spec{
			Name:    "util.while",
			Aliases: []string{"while"},
			Summary: "Repeats an action as long as a condition on its result holds.",
			Doc: "The action runs once before the condition is looked at; the condition, and from the second time on the `action_params`, know " +
				"the outputs of the last run as `result` and the number of runs so far as `iteration`. A condition that still holds after " +
				"`max_iterations` runs, or when `timeout_seconds` have passed, fails the step permanently.\n\nWhat has been done is stored after every " +
				"run: between two runs the step holds no worker, and after a crash it continues with the run that was under way. A run that " +
				"fails fails the step; a retry starts over, a rate limit does not. The step's own `timeout_seconds` is for each run.\n\n" +
				"An action that waits, spawns steps or must not run twice after a crash cannot be repeated, nor can a loop.",
			Params: []spec.Field{
				{Name: "condition", Type: spec.Any, Required: true, Raw: true, Bare: true, Names: []string{"result", "iteration"}, Doc: "An expression over `result`, with or without {{ }}: the loop continues while it is true."},
				{Name: "action", Type: spec.String, Required: true, Min: ptr(1), Doc: "Name of the action to repeat."},
				{Name: "action_params", Type: spec.Object, Raw: true, Doc: "Its parameters, evaluated before every run."},
				{Name: "max_iterations", Type: spec.Integer, Default: 100, Min: ptr(1), Max: ptr(maxIterations), Doc: "How often it may run."},
				{Name: "delay_seconds", Type: spec.Number, Default: 0, Min: ptr(0), Max: ptr(maxWait.Seconds()), Doc: "Pause between two runs, in seconds."},
				{Name: "timeout_seconds", Type: spec.Number, Min: ptr(0), Max: ptr(maxWait.Seconds()), Doc: "Limit of the whole loop, in seconds; no run starts later."},
			},
			Outputs: []spec.Field{
				{Name: "result", Type: spec.Object, Doc: "The outputs of the last run."},
				{Name: "iterations", Type: spec.Integer, Doc: "How often the action ran."},
			},
			Examples: []spec.Example{{Title: "until it is ready", YAML: `
id: ready
action: util.while
params:
  condition: "{{ result.exit_code != 0 }}"
  action: util.exec
  action_params: {command: [test, -e, ready.flag], success_codes: [0, 1]}
  max_iterations: 60
  delay_seconds: 10`}},
		},
		Handler: whileHandler{actions, now},
	}
}

// waiter marks the actions of this package that wait.
type waiter interface{ waits() }

type whileHandler struct {
	actions *action.Registry
	now     func() time.Time
}

func (whileHandler) waits() {}

// lap is the state of a loop between two runs.
type lap struct {
	Iterations int64           `json:"iterations"`
	Result     json.RawMessage `json:"result"`
	Start      time.Time       `json:"start"`
}

// Validate implements action.Validator. Parameters that hold templates are not among params; whether
// action_params fit the inner action's Spec is for the caller to check, as with all parameters.
func (h whileHandler) Validate(params map[string]any) []error {
	var problems []error
	if err := action.CheckCondition(params["condition"]); err != nil {
		problems = append(problems, action.Invalid("", "condition: %v", err))
	}
	name, ok := params["action"].(string)
	if !ok {
		return problems
	}
	inner, err := h.inner(name)
	if err != nil {
		return append(problems, err)
	}
	values, given := params["action_params"].(map[string]any)
	if !given {
		return problems
	}
	if v, ok := inner.Handler.(action.Validator); ok {
		for _, err := range v.Validate(values) {
			problems = append(problems, action.Invalid(stepwell.HintOf(err), "action_params: %v", err))
		}
	}
	return problems
}

// inner finds the action to repeat, if it can be repeated.
func (h whileHandler) inner(name string) (*action.Action, error) {
	found, ok := h.actions.Lookup(name)
	if !ok {
		return nil, action.Fail(h.actions.Validate(name, nil)[0]) // names similar actions
	}
	_, waits := found.Handler.(waiter)
	switch {
	case waits:
		return nil, action.Invalid("write delay_seconds for a pause between runs", "action: %s waits, and a run of the loop cannot", name)
	case len(found.Spec.Spawns) > 0:
		return nil, action.Invalid("use for_each", "action: %s spawns steps, and a run of the loop cannot", name)
	case found.Spec.NotIdempotent:
		return nil, action.Invalid("", "action: %s must not run twice after a crash, which a loop cannot promise", name)
	}
	return found, nil
}

// Run implements action.Handler: one run of the inner action.
func (h whileHandler) Run(ctx context.Context, call *action.Call) (any, error) {
	loop := lap{Start: h.now().UTC().Round(0)}
	if call.State != nil {
		if err := json.Unmarshal(call.State, &loop); err != nil {
			return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeInternal, Message: "state of the loop", Err: err})
		}
	}
	names := map[string]any{"iteration": loop.Iterations}
	if loop.Iterations > 0 {
		result, err := expr.Decode(loop.Result)
		if err != nil {
			return nil, action.Fail(fmt.Errorf("result of run %d: %w", loop.Iterations, err))
		}
		names["result"] = result
	}
	raw, err := h.once(ctx, call, names)
	if err != nil {
		return nil, err
	}
	loop.Iterations, loop.Result = loop.Iterations+1, raw
	result, err := expr.Decode(raw)
	if err != nil {
		return nil, action.Fail(fmt.Errorf("result of run %d: %w", loop.Iterations, err))
	}
	goesOn, err := action.Holds(call.Host, call.Params["condition"], map[string]any{"iteration": loop.Iterations, "result": result})
	if err != nil {
		return nil, action.Fail(fmt.Errorf("condition: %w", err))
	}
	if !goesOn {
		return map[string]any{"result": raw, "iterations": loop.Iterations}, nil
	}
	return nil, h.again(call, loop)
}

// once is one run of the inner action with these names in its templates.
func (h whileHandler) once(ctx context.Context, call *action.Call, names map[string]any) (json.RawMessage, error) {
	name, _ := call.Params["action"].(string)
	inner, err := h.inner(name)
	if err != nil {
		return nil, err
	}
	params, err := h.params(call, inner, name, names)
	if err != nil {
		return nil, action.Fail(err)
	}
	run := *call
	run.StepKey = fmt.Sprintf("%s#%d", call.StepKey, names["iteration"])
	run.Action, run.Params, run.State = name, params, nil
	run.Host = &lapHost{Host: call.Host, names: names, prefix: fmt.Sprintf("while/%d/", names["iteration"])}
	if call.Allow != nil {
		if err := call.Allow(name); err != nil {
			return nil, action.Fail(err)
		}
	}
	value, err := inner.Handler.Run(ctx, &run)
	if _, waits := errors.AsType[*action.WaitError](err); waits {
		return nil, action.Invalid("write delay_seconds for a pause between runs", "action: %s wants to wait, and a run of the loop cannot", name)
	}
	if err != nil {
		return nil, fmt.Errorf("run %d: %w", names["iteration"].(int64)+1, err)
	}
	raw, err := action.Outputs(value)
	if err == nil && len(raw) > maxPassed {
		return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("%s: its outputs are %d bytes, the limit in a loop is %d", name, len(raw), maxPassed)})
	}
	return raw, err
}

// params are the inner action's parameters, rendered, checked and completed.
func (h whileHandler) params(call *action.Call, inner *action.Action, name string, names map[string]any) (map[string]any, error) {
	given, ok := call.Params["action_params"].(map[string]any)
	if !ok && call.Params["action_params"] != nil {
		return nil, action.Invalid("", "action_params: is %s, not an object", typeName(call.Params["action_params"]))
	}
	rendered, err := renderFields(call.Host, given, inner.Spec.Params, names)
	if err != nil {
		return nil, fmt.Errorf("action_params: %w", err)
	}
	checker, _ := h.actions.Params(name)
	if wrong := checker.Check(rendered); len(wrong) > 0 {
		lines := make([]string, len(wrong))
		for i, m := range wrong {
			lines[i] = m.String()
		}
		return nil, action.Invalid("", "action_params: %s", strings.Join(lines, "; "))
	}
	return checker.Apply(rendered), nil
}

// renderFields renders fields that an action does not render itself.
func renderFields(host action.Host, values map[string]any, fields []spec.Field, names map[string]any) (map[string]any, error) {
	out := make(map[string]any, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		f, _ := spec.FieldNamed(fields, key)
		rendered, err := renderField(host, values[key], f, names)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		out[key] = rendered
	}
	return out, nil
}

func renderField(host action.Host, value any, f *spec.Field, names map[string]any) (any, error) {
	if f == nil {
		return render(host, value, names)
	}
	if f.Raw {
		return value, nil
	}
	switch v := value.(type) {
	case map[string]any:
		return renderFields(host, v, f.Fields, names)
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			rendered, err := renderField(host, element, f.Items, names)
			if err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
			out[i] = rendered
		}
		return out, nil
	}
	return render(host, value, names)
}

// again asks for the next run, if there may be one.
func (h whileHandler) again(call *action.Call, loop lap) error {
	limit, delay := wholeOr(call.Params["max_iterations"], 100), secondsOf(call.Params["delay_seconds"])
	if loop.Iterations >= limit {
		return action.Fail(&stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("the condition still holds after %d runs", loop.Iterations),
			Hint: "raise max_iterations, or check the condition: the loop continues while it is true"})
	}
	at := h.now().Add(delay)
	if whole := secondsOf(call.Params["timeout_seconds"]); whole > 0 && at.Sub(loop.Start) > whole {
		return action.Fail(&stepwell.Error{Code: stepwell.CodeTimeout, Message: fmt.Sprintf("the condition still holds after %d runs and timeout_seconds: %v", loop.Iterations, whole),
			Hint: "raise timeout_seconds, or check the condition: the loop continues while it is true"})
	}
	call.Host.Progress(float64(loop.Iterations)/float64(limit), fmt.Sprintf("%d runs", loop.Iterations))
	return action.Poll(at, "", loop)
}

func wholeOr(value any, fallback int64) int64 {
	if n, ok := number(value).(int64); ok && n > 0 {
		return n
	}
	return fallback
}

func secondsOf(value any) time.Duration {
	length, err := spec.ParseDuration(value)
	if err != nil {
		return 0
	}
	return length
}

// lapHost is the host of one run: its records are its own, and its templates know the loop's names.
type lapHost struct {
	action.Host
	names  map[string]any
	prefix string
}

// Spawn implements action.Host.
func (h *lapHost) Spawn(context.Context, []action.NewStep) error {
	return action.Invalid("use for_each", "a run of a loop cannot spawn steps")
}

// Recall implements action.Host.
func (h *lapHost) Recall(ctx context.Context, key string) (json.RawMessage, bool, error) {
	return h.Host.Recall(ctx, h.prefix+key)
}

// Record implements action.Host.
func (h *lapHost) Record(ctx context.Context, key string, value json.RawMessage) error {
	return h.Host.Record(ctx, h.prefix+key, value)
}

// Own implements action.Host.
func (h *lapHost) Own(context.Context, json.RawMessage) error {
	return action.Invalid("use for_each", "a run of a loop cannot leave work outside")
}

// Eval implements action.Host.
func (h *lapHost) Eval(text string, extra map[string]any) (any, error) {
	names := make(map[string]any, len(h.names)+len(extra))
	for name, value := range h.names {
		names[name] = value
	}
	for name, value := range extra {
		names[name] = value
	}
	return h.Host.Eval(text, names)
}
