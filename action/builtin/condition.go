package builtin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// maxBranches bounds the branches of one condition.
const maxBranches = 1000

type conditionParams struct {
	Condition   any      `json:"condition" spec:"bare" names:"" doc:"An expression, with or without {{ }}, or a literal."`
	TrueResult  any      `json:"true_result" spec:"raw" names:"" doc:"The result when the condition holds; true without it."`
	FalseResult any      `json:"false_result" spec:"raw" names:"" doc:"The result when it does not; false without it."`
	Branches    []branch `json:"branches" spec:"raw" names:"" minItems:"1" maxItems:"1000" doc:"The branches in the order in which they are tried."`
}

type branch struct {
	ID        string `json:"id" required:"true" minLength:"1" doc:"Name of the branch, unique."`
	Label     string `json:"label" doc:"Name for people; the id without it."`
	Condition any    `json:"condition" spec:"bare" doc:"An expression or a literal; without it the branch always holds."`
	Target    string `json:"target_step" doc:"Id of the step that runs only when this branch is taken; a template is only handed on."`
}

type conditionOutputs struct {
	Branch  string  `json:"branch" doc:"The id of the branch, ´none´ if there is none; ´true´ or ´false´ for a condition."`
	Matched *string `json:"matched_branch" doc:"The same, but null if there is none."`
	Label   string  `json:"matched_label" doc:"The label of the branch, else its id; ´none´ if there is none."`
	Target  *string `json:"target_step" doc:"The target of the branch, null if it has none."`
	Result  any     `json:"result" doc:"´true_result´ or ´false_result´ for a condition; for branches the label, null if there is none."`
}

func condition() action.Action {
	return action.Checked(action.Of(spec.Spec{
		Name:    "util.condition",
		Effect:  spec.NoEffect,
		Aliases: []string{"conditional"},
		Summary: "Decides which way a pipeline goes.",
		Doc: "Give either `condition`, which is true or false, or `branches`, of which the first whose condition holds " +
			"is taken; a branch without a condition always holds. The rules are those of a step's condition: with or " +
			"without {{ }}; a name that does not exist fails the step.\n\nThe id of a step beside this one as `target_step` makes that step wait for " +
			"this one, and skips it unless its branch is taken. Other steps ask for the outputs in their own `condition`.",
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
	}, runCondition), checkConditionParams)
}

func checkConditionParams(p conditionParams) (problems []error) {
	for _, beside := range []struct {
		name  string
		value any
	}{{"condition", p.Condition}, {"true_result", p.TrueResult}, {"false_result", p.FalseResult}} {
		if p.Branches != nil && beside.value != nil {
			problems = append(problems, action.Invalid("leave one of them out", "%s stands beside branches", beside.name))
		}
	}
	problems = append(problems, conditionProblems(p.Condition)...)
	seen := map[string]bool{}
	for i, b := range p.Branches {
		switch {
		case b.ID == "":
			problems = append(problems, action.Invalid("", "branches[%d]: has no id", i))
		case seen[b.ID]:
			problems = append(problems, action.Invalid("", "branches[%d]: the id %q is there twice", i, b.ID))
		}
		if err := action.CheckCondition(b.Condition); err != nil {
			problems = append(problems, action.Invalid("", "branches[%d].condition: %v", i, err))
		}
		seen[b.ID] = true
	}
	return problems
}

func runCondition(_ context.Context, call *action.Call, p conditionParams) (*conditionOutputs, error) {
	if p.Branches == nil {
		return decide(call, p)
	}
	for _, b := range p.Branches {
		holds, err := b.Condition == nil, error(nil)
		if !holds {
			holds, err = action.Holds(call.Host, b.Condition, nil)
		}
		if err != nil {
			return nil, action.Fail(fmt.Errorf("condition of branch %s: %w", b.ID, err))
		}
		if !holds {
			continue
		}
		for _, text := range []*string{&b.Label, &b.Target} {
			rendered, err := render(call.Host, *text, nil)
			if err != nil {
				return nil, action.Fail(fmt.Errorf("branch %s: %w", b.ID, err))
			}
			*text = textOf(rendered)
		}
		label := cmp.Or(b.Label, b.ID)
		out := &conditionOutputs{Branch: b.ID, Matched: &b.ID, Label: label, Result: label}
		if b.Target != "" {
			out.Target = &b.Target
		}
		return out, nil
	}
	return &conditionOutputs{Branch: "none", Label: "none"}, nil
}

// decide is the form with one condition.
func decide(call *action.Call, p conditionParams) (*conditionOutputs, error) {
	if p.Condition == nil {
		return nil, action.Invalid("give condition or branches", "there is nothing to decide")
	}
	holds, err := action.Holds(call.Host, p.Condition, nil)
	if err != nil {
		return nil, action.Fail(fmt.Errorf("condition: %w", err))
	}
	name, result := fmt.Sprint(holds), p.FalseResult
	if holds {
		result = p.TrueResult
	}
	if result == nil {
		result = holds
	} else if result, err = render(call.Host, result, nil); err != nil {
		return nil, action.Fail(fmt.Errorf("%s_result: %w", name, err))
	}
	return &conditionOutputs{Branch: name, Matched: &name, Label: name, Result: result}, nil
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
		for _, key := range slices.Sorted(maps.Keys(v)) {
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
