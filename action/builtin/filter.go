package builtin

import (
	"context"
	"fmt"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

type filterParams struct {
	Items     []any `json:"items" required:"true" doc:"The elements."`
	Condition any   `json:"condition" required:"true" spec:"bare" names:"item,index" doc:"An expression over ´item´, with or without {{ }}."`
}

type filterOutputs struct {
	Items []any `json:"items" doc:"The elements that are kept, in their order."`
	Count int   `json:"count" doc:"How many elements were kept."`
}

func filter() action.Action {
	return action.Checked(action.Of(spec.Spec{
		Name:    "util.filter",
		Effect:  spec.NoEffect,
		Aliases: []string{"filter"},
		Summary: "Keeps the elements of a list for which a condition holds.",
		Doc: "The condition knows the element as `item` and its number, from 0, as `index`. The rules are those of a step's " +
			"condition: with or without {{ }}; a name or member that does not exist fails the step (`item.n | default(0) > 3`).",
		Examples: []spec.Example{{Title: "what is urgent", YAML: `
id: urgent
action: util.filter
params:
  items: "{{ params.tickets }}"
  condition: item.priority == 'high'`}},
	}, runFilter), func(p filterParams) []error { return conditionProblems(p.Condition) })
}

// conditionProblems says why the parameter condition is none.
func conditionProblems(condition any) []error {
	if err := action.CheckCondition(condition); err != nil {
		return []error{action.Invalid("", "condition: %v", err)}
	}
	return nil
}

func runFilter(ctx context.Context, call *action.Call, p filterParams) (*filterOutputs, error) {
	if err := checkSize("items", p.Items); err != nil {
		return nil, err
	}
	kept := make([]any, 0, len(p.Items))
	for i, item := range p.Items {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		holds, err := action.Holds(call.Host, p.Condition, map[string]any{"item": item, "index": int64(i)})
		if err != nil {
			return nil, action.Fail(fmt.Errorf("condition for element %d: %w", i, err))
		}
		if holds {
			kept = append(kept, item)
		}
	}
	return &filterOutputs{kept, len(kept)}, nil
}
