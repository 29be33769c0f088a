package builtin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// maxBranches bounds the branches of one condition.
const maxBranches = 1000

func condition() action.Action {
	return action.Action{
		Spec: spec.Spec{
			Name:    "util.condition",
			Aliases: []string{"conditional"},
			Summary: "Decides which way a pipeline goes.",
			Doc: "Give either `condition`, which is true or false, or `branches`, of which the first whose condition holds " +
				"is taken; a branch without a condition always holds. The rules are those of a step's condition: with or " +
				"without {{ }}; a name that does not exist fails the step.\n\nThe id of a step beside this one as `target_step` makes that step wait for " +
				"this one, and skips it unless its branch is taken. Other steps ask for the outputs in their own `condition`.",
			Params: []spec.Field{
				{Name: "condition", Type: spec.Any, Raw: true, Bare: true, Names: []string{}, Doc: "An expression, with or without {{ }}, or a literal."},
				{Name: "true_result", Type: spec.Any, Raw: true, Names: []string{}, Doc: "The result when the condition holds; true without it."},
				{Name: "false_result", Type: spec.Any, Raw: true, Names: []string{}, Doc: "The result when it does not; false without it."},
				{Name: "branches", Type: spec.Array, Raw: true, Names: []string{}, Min: ptr(1), Max: ptr(maxBranches), Doc: "The branches in the order in which they are tried.",
					Items: &spec.Field{Name: "branch", Type: spec.Object, Fields: []spec.Field{
						{Name: "id", Type: spec.String, Required: true, Min: ptr(1), Doc: "Name of the branch, unique."},
						{Name: "label", Type: spec.String, Doc: "Name for people; the id without it."},
						{Name: "condition", Type: spec.Any, Bare: true, Doc: "An expression or a literal; without it the branch always holds."},
						{Name: "target_step", Type: spec.String, Doc: "Id of the step that runs only when this branch is taken; a template is only handed on."},
					}}},
			},
			Outputs: []spec.Field{
				{Name: "branch", Type: spec.String, Doc: "The id of the branch, `none` if there is none; `true` or `false` for a condition."},
				{Name: "matched_branch", Type: spec.String, Doc: "The same, but null if there is none."},
				{Name: "matched_label", Type: spec.String, Doc: "The label of the branch, else its id; `none` if there is none."},
				{Name: "target_step", Type: spec.String, Doc: "The target of the branch, null if it has none."},
				{Name: "result", Type: spec.Any, Doc: "`true_result` or `false_result` for a condition; for branches the label, null if there is none."},
			},
			Examples: []spec.Example{{Title: "three ways", YAML: `
id: size
action: util.condition
params:
  branches:
    - {id: large, condition: "{{ params.count > 1000 }}"}
    - {id: small, condition: "{{ params.count > 0 }}"}
    - {id: empty, label: Nothing to do}`}, {Title: "yes or no", YAML: `
id: healthy
action: util.condition
params:
  condition: "{{ steps.check.outputs.errors == 0 }}"
  true_result: deploy
  false_result: roll back`}},
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
	list := params["branches"] != nil
	for _, name := range []string{"condition", "true_result", "false_result"} {
		if list && params[name] != nil {
			problems = append(problems, action.Invalid("leave one of them out", "%s stands beside branches", name))
		}
	}
	if err := action.CheckCondition(params["condition"]); err != nil {
		problems = append(problems, action.Invalid("", "condition: %v", err))
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
		return decide(call)
	}
	branches, _ := branchesOf(call.Params["branches"])
	for _, b := range branches {
		holds, err := b.always, error(nil)
		if !holds {
			holds, err = action.Holds(call.Host, b.condition, nil)
		}
		if err != nil {
			return nil, action.Fail(fmt.Errorf("condition of branch %s: %w", b.id, err))
		}
		if !holds {
			continue
		}
		for _, text := range []*string{&b.label, &b.target} {
			rendered, err := render(call.Host, *text, nil)
			if err != nil {
				return nil, action.Fail(fmt.Errorf("branch %s: %w", b.id, err))
			}
			*text = textOf(rendered)
		}
		label := cmp.Or(b.label, b.id)
		return decision(b.id, b.id, label, b.target, label), nil
	}
	return decision("none", nil, "none", "", nil), nil
}

// decide is the form with one condition.
func decide(call *action.Call) (any, error) {
	if call.Params["condition"] == nil {
		return nil, action.Invalid("give condition or branches", "there is nothing to decide")
	}
	holds, err := action.Holds(call.Host, call.Params["condition"], nil)
	if err != nil {
		return nil, action.Fail(fmt.Errorf("condition: %w", err))
	}
	name := fmt.Sprint(holds)
	result, given := call.Params[name+"_result"]
	if !given || result == nil {
		return decision(name, name, name, "", holds), nil
	}
	if result, err = render(call.Host, result, nil); err != nil {
		return nil, action.Fail(fmt.Errorf("%s_result: %w", name, err))
	}
	return decision(name, name, name, "", result), nil
}

func decision(branch string, matched any, label, target string, result any) any {
	return map[string]any{"branch": branch, "matched_branch": matched, "matched_label": label, "target_step": orNull(target), "result": result}
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// render renders a value that was left raw because conditions are next to it.
func render(host action.Host, value any, extra map[string]any) (any, error) {
	switch v := value.(type) {
	case string:
		if !strings.Contains(v, "{{") && !strings.Contains(v, "{%") && !strings.Contains(v, "{#") {
			return v, nil
		}
		return host.Eval(v, extra)
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			rendered, err := render(host, element, extra)
			if err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
			out[i] = rendered
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, key := range sortedKeys(v) {
			rendered, err := render(host, v[key], extra)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			out[key] = rendered
		}
		return out, nil
	}
	return value, nil
}

// branchesOf reads the list of branches and finds everything that is wrong with it.
func branchesOf(value any) (branches []branch, problems []error) {
	list, ok := value.([]any)
	if !ok {
		return nil, []error{action.Invalid("", "branches: is %s, not a list", typeName(value))}
	}
	if len(list) == 0 || len(list) > maxBranches {
		return nil, []error{action.Invalid("", "branches: has %d elements, not 1 to %d", len(list), maxBranches)}
	}
	seen := map[string]bool{}
	for i, element := range list {
		members, _ := element.(map[string]any)
		b := branch{condition: members["condition"]}
		b.id, _ = members["id"].(string)
		b.label, _ = members["label"].(string)
		b.target, _ = members["target_step"].(string)
		b.always = b.condition == nil
		switch {
		case b.id == "":
			problems = append(problems, action.Invalid("", "branches[%d]: has no id", i))
		case seen[b.id]:
			problems = append(problems, action.Invalid("", "branches[%d]: the id %q is there twice", i, b.id))
		}
		if err := action.CheckCondition(b.condition); err != nil {
			problems = append(problems, action.Invalid("", "branches[%d].condition: %v", i, err))
		}
		seen[b.id] = true
		branches = append(branches, b)
	}
	return branches, problems
}
