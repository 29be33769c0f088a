package builtin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// maxBranches bounds the branches of one condition.
const maxBranches = 1000

func condition() action.Action {
	return action.Action{
		Spec: spec.Spec{
			Name:    "util.condition",
			Summary: "Decides which way a pipeline goes.",
			Doc: "Give either `condition`, which is true or false, or `branches`, of which the first whose condition holds " +
				"is taken; a branch without a condition always holds. Steps that follow ask for the result in their own " +
				"`condition`. The rules are those of a step's condition: with or without {{ }}, and an undefined name is false.",
			Params: []spec.Field{
				{Name: "condition", Type: spec.Any, Raw: true, Doc: "An expression, with or without {{ }}, or a literal."},
				{Name: "branches", Type: spec.Array, Raw: true, Min: ptr(1), Max: ptr(maxBranches), Doc: "The branches in the order in which they are tried.",
					Items: &spec.Field{Name: "branch", Type: spec.Object, Fields: []spec.Field{
						{Name: "id", Type: spec.String, Required: true, Min: ptr(1), Doc: "Name of the branch, unique."},
						{Name: "label", Type: spec.String, Doc: "Name for people."},
						{Name: "condition", Type: spec.Any, Doc: "An expression or a literal; without it the branch always holds."},
						{Name: "target", Type: spec.String, Doc: "Any text, such as the id of a step, handed on in the outputs."},
					}}},
			},
			Outputs: []spec.Field{
				{Name: "result", Type: spec.Boolean, Doc: "Whether the condition, or one of the branches, holds."},
				{Name: "branch", Type: spec.String, Doc: "The id of the branch, `none` if there is none; `true` or `false` for a condition."},
				{Name: "label", Type: spec.String, Doc: "The label of the branch, empty if it has none."},
				{Name: "target", Type: spec.String, Doc: "The target of the branch, empty if it has none."},
			},
			Examples: []spec.Example{{Title: "three ways", YAML: `
id: size
action: util.condition
params:
  branches:
    - {id: large, condition: "{{ params.count > 1000 }}"}
    - {id: small, condition: "{{ params.count > 0 }}"}
    - {id: empty, label: Nothing to do}`}},
		},
		Handler: conditionHandler{},
	}
}

type branch struct {
	id, label, target string
	condition         any
	always            bool // it has no condition
}

type conditionHandler struct{}

// Validate implements action.Validator.
func (conditionHandler) Validate(params map[string]any) []error {
	var problems []error
	single, list := params["condition"] != nil, params["branches"] != nil
	if single && list {
		problems = append(problems, invalid("leave one of them out", "condition stands beside branches"))
	}
	if err := checkCondition(params["condition"]); err != nil {
		problems = append(problems, invalid("", "condition: %v", err))
	}
	if list {
		_, more := branchesOf(params["branches"])
		problems = append(problems, more...)
	}
	return problems
}

// Run implements action.Handler.
func (h conditionHandler) Run(_ context.Context, call *action.Call) (any, error) {
	if problems := h.Validate(call.Params); len(problems) > 0 {
		return nil, action.Fail(errors.Join(problems...))
	}
	if call.Params["branches"] == nil {
		if call.Params["condition"] == nil {
			return nil, invalid("give condition or branches", "there is nothing to decide")
		}
		holds, err := evalCondition(call.Host, call.Params["condition"])
		if err != nil {
			return nil, action.Fail(fmt.Errorf("condition: %w", err))
		}
		return decision(holds, branch{id: fmt.Sprint(holds)}), nil
	}
	branches, _ := branchesOf(call.Params["branches"])
	for _, b := range branches {
		holds, err := b.always, error(nil)
		if !holds {
			holds, err = evalCondition(call.Host, b.condition)
		}
		if err != nil {
			return nil, action.Fail(fmt.Errorf("condition of branch %s: %w", b.id, err))
		}
		if !holds {
			continue
		}
		for _, text := range []*string{&b.label, &b.target} {
			if *text, err = render(call.Host, *text); err != nil {
				return nil, action.Fail(fmt.Errorf("branch %s: %w", b.id, err))
			}
		}
		return decision(true, b), nil
	}
	return decision(false, branch{id: "none"}), nil
}

func decision(result bool, b branch) any {
	return map[string]any{"result": result, "branch": b.id, "label": b.label, "target": b.target}
}

// render renders a text that was left raw because it stands beside conditions.
func render(host action.Host, text string) (string, error) {
	if !strings.Contains(text, "{{") {
		return text, nil
	}
	value, err := host.Eval(text, nil)
	return textOf(value), err
}

// branchesOf reads the list of branches and finds everything that is wrong with it.
func branchesOf(value any) (branches []branch, problems []error) {
	list, ok := value.([]any)
	if !ok {
		return nil, []error{invalid("", "branches: is %s, not a list", typeName(value))}
	}
	if len(list) == 0 || len(list) > maxBranches {
		return nil, []error{invalid("", "branches: has %d elements, not 1 to %d", len(list), maxBranches)}
	}
	seen := map[string]bool{}
	for i, element := range list {
		members, _ := element.(map[string]any)
		b := branch{condition: members["condition"]}
		b.id, _ = members["id"].(string)
		b.label, _ = members["label"].(string)
		b.target, _ = members["target"].(string)
		b.always = b.condition == nil
		switch {
		case b.id == "":
			problems = append(problems, invalid("", "branches[%d]: has no id", i))
		case seen[b.id]:
			problems = append(problems, invalid("", "branches[%d]: the id %q is there twice", i, b.id))
		}
		if err := checkCondition(b.condition); err != nil {
			problems = append(problems, invalid("", "branches[%d].condition: %v", i, err))
		}
		seen[b.id] = true
		branches = append(branches, b)
	}
	return branches, problems
}

// checkCondition finds what is wrong with a condition before anything is known.
func checkCondition(value any) error {
	text, ok := value.(string)
	if !ok {
		return nil
	}
	_, err := expr.ParseCondition(text)
	return err
}

// evalCondition is the truth of a condition by the rules of a step's own condition: an undefined name is
// false.
func evalCondition(host action.Host, value any) (bool, error) {
	text, ok := value.(string)
	if !ok {
		return truth(value)
	}
	parsed, err := expr.ParseCondition(text)
	if err != nil {
		return false, err
	}
	if len(parsed.Refs()) == 0 {
		return parsed.EvalBool(expr.Vars{}, expr.Limits{})
	}
	if !strings.Contains(text, "{{") && !strings.Contains(text, "{%") {
		text = "{{ " + text + " }}" // a bare expression, which the host would take for text
	}
	result, err := host.Eval(text, nil)
	if e, is := errors.AsType[*expr.Error](err); is && e.Code == expr.CodeUndefined {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return truth(result)
}

// truth is the truth of a value in a condition.
func truth(value any) (bool, error) {
	name, err := expr.ParseExpression("value")
	if err != nil {
		return false, err
	}
	return name.EvalBool(expr.Vars{"value": value}, expr.Limits{})
}
