package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

func switchAction() action.Action {
	return action.Action{
		Spec: spec.Spec{
			Name:    "util.switch",
			Effect:  spec.NoEffect,
			Aliases: []string{"switch"},
			Summary: "Chooses by a value.",
			Doc: "`cases` is an object from values to results, or a list of cases of which the first that fits is taken. A case in a " +
				"list has a `value`, which must be equal (numbers by their size: 1 is 1.0, but not \"1\"), or a `condition`, which knows " +
				"the value as `value`; and it may have a `result` and a `target_step`. The keys of an object are compared with the value as text.\n\n" +
				"`default` is the result when nothing fits; an object with no other members than `result` and `target_step` is read as a case. The " +
				"id of a step beside this one as `target_step` makes that step wait for this one, and skips it unless its case is taken. " +
				"Only the result of the case that is taken is evaluated.",
			Params: []spec.Field{
				{Name: "value", Type: spec.Any, Doc: "The value to switch on; null when absent."},
				{Name: "cases", Type: spec.Any, Required: true, Raw: true, Bare: true, Doc: "A list of {value or condition, result, target_step}, or an object from values to results."},
				{Name: "default", Type: spec.Any, Raw: true, Names: []string{"value"}, Doc: "The result when nothing fits, or {result, target_step}."},
			},
			Outputs: []spec.Field{
				{Name: "matched", Type: spec.Boolean, Doc: "Whether a case matched."},
				{Name: "case", Type: spec.Any, Doc: "The value or condition of that case as written; `default` or `none` if no case fits."},
				{Name: "result", Type: spec.Any, Doc: "Its result, null if it has none."},
				{Name: "target_step", Type: spec.String, Doc: "Its target, null if it has none."},
			},
			Examples: []spec.Example{{Title: "values to results", YAML: `
id: size
action: util.switch
params:
  value: "{{ params.tier }}"
  cases: {free: 1, team: 4, "enterprise": "{{ params.replicas }}"}
  default: 1`}, {Title: "conditions", YAML: `
id: grade
action: util.switch
params:
  value: "{{ steps.scan.outputs.count }}"
  cases:
    - {value: 0, result: empty}
    - {condition: "{{ value > 1000 }}", result: large}
  default: normal`}},
		},
		Handler: switchHandler{},
	}
}

// choice is one case of a switch.
type choice struct {
	name      any // for the outputs
	value     any
	condition any
	asText    bool // the value is the key of an object
	result    any
	target    any
}

type switchHandler struct{}

// Validate implements action.Validator.
func (switchHandler) Validate(params map[string]any) []error {
	var problems []error
	if cases := params["cases"]; cases != nil {
		_, problems = casesOf(cases)
	}
	return problems
}

// Run implements action.Handler.
func (switchHandler) Run(_ context.Context, call *action.Call) (any, error) {
	cases, problems := casesOf(call.Params["cases"])
	if len(problems) > 0 {
		return nil, action.Fail(errors.Join(problems...))
	}
	extra := map[string]any{"value": call.Params["value"]}
	for i := range cases {
		fits, err := cases[i].fits(call, extra)
		if err != nil {
			return nil, action.Fail(fmt.Errorf("cases[%d]: %w", i, err))
		}
		if fits {
			return chosen(call, true, &cases[i], extra)
		}
	}
	fallback, given := call.Params["default"]
	if !given || fallback == nil {
		return map[string]any{"matched": false, "case": "none", "result": nil, "target_step": nil}, nil
	}
	c := choice{name: "default", result: fallback}
	if members, ok := fallback.(map[string]any); ok && isCase(members) {
		c.result, c.target = members["result"], members["target_step"]
	}
	return chosen(call, false, &c, extra)
}

// isCase reports whether a default is written like a case.
func isCase(members map[string]any) bool {
	for key := range members {
		if key != "result" && key != "target_step" {
			return false
		}
	}
	return len(members) > 0
}

func (c *choice) fits(call *action.Call, extra map[string]any) (bool, error) {
	if c.condition != nil {
		return action.Holds(call.Host, c.condition, extra)
	}
	wanted, err := render(call.Host, c.value, extra)
	if err != nil {
		return false, err
	}
	if c.asText {
		return textOf(extra["value"]) == textOf(wanted), nil
	}
	return equal(extra["value"], wanted), nil
}

func chosen(call *action.Call, matched bool, c *choice, extra map[string]any) (any, error) {
	out := map[string]any{"matched": matched, "case": c.name}
	for name, value := range map[string]any{"result": c.result, "target_step": c.target} {
		rendered, err := render(call.Host, value, extra)
		if err != nil {
			return nil, action.Fail(fmt.Errorf("%s of case %s: %w", name, textOf(c.name), err))
		}
		out[name] = rendered
	}
	return out, nil
}

// casesOf reads the cases and finds everything that is wrong with them.
func casesOf(value any) (cases []choice, problems []error) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			cases = append(cases, choice{name: key, value: key, asText: true, result: v[key]})
		}
	case []any:
		for i, element := range v {
			c, err := caseOf(element)
			if err != nil {
				problems = append(problems, action.Invalid("a case is {value: …, result: …} or {condition: …, result: …}", "cases[%d]: %v", i, err))
			}
			cases = append(cases, c)
		}
	default:
		return nil, []error{action.Invalid("", "cases: is %s, not a list or an object", typeName(value))}
	}
	if len(cases) == 0 || len(cases) > maxBranches {
		problems = append(problems, action.Invalid("", "cases: has %d elements, not 1 to %d", len(cases), maxBranches))
	}
	return cases, problems
}

func caseOf(element any) (choice, error) {
	members, ok := element.(map[string]any)
	if !ok {
		return choice{}, fmt.Errorf("is %s, not an object", typeName(element))
	}
	value, has := members["value"]
	c := choice{name: value, value: value, condition: members["condition"], result: members["result"], target: members["target_step"]}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		switch key {
		case "value", "condition", "result", "target_step":
		default:
			return c, fmt.Errorf("unknown key %q", key)
		}
	}
	switch {
	case has == (c.condition != nil):
		return c, errors.New("needs exactly one of value and condition")
	case !has:
		c.name = c.condition
		return c, action.CheckCondition(c.condition)
	}
	if _, text := c.target.(string); !text && c.target != nil {
		return c, fmt.Errorf("target_step is %s, not the id of a step", typeName(c.target))
	}
	return c, nil
}

// equal compares numbers by their size and everything else by its JSON.
func equal(a, b any) bool {
	if order, err := compare(a, b); err == nil {
		return order == 0
	}
	left, err := json.Marshal(a)
	if err != nil {
		return false
	}
	right, err := json.Marshal(b)
	return err == nil && bytes.Equal(left, right)
}
