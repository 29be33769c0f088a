package builtin

import (
	"context"
	"fmt"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

func filter() action.Action {
	return action.Action{
		Spec: spec.Spec{
			Name:    "util.filter",
			Aliases: []string{"filter"},
			Summary: "Keeps the elements of a list for which a condition holds.",
			Doc: "The condition knows the element as `item` and its number, from 0, as `index`. The rules are those of a step's " +
				"condition: with or without {{ }}; a name or member that does not exist fails the step (`item.n | default(0) > 3`).",
			Params: []spec.Field{
				{Name: "items", Type: spec.Array, Required: true, Doc: "The elements."},
				{Name: "condition", Type: spec.Any, Required: true, Raw: true, Bare: true, Names: []string{"item", "index"}, Doc: "An expression over `item`, with or without {{ }}."},
			},
			Outputs: []spec.Field{
				{Name: "items", Type: spec.Array, Doc: "The elements that are kept, in their order."},
				{Name: "count", Type: spec.Integer, Doc: "How many they are."},
			},
			Examples: []spec.Example{{Title: "what is urgent", YAML: `
id: urgent
action: util.filter
params:
  items: "{{ params.tickets }}"
  condition: item.priority == 'high'`}},
		},
		Handler: filterHandler{},
	}
}

type filterHandler struct{}

// Validate implements action.Validator.
func (filterHandler) Validate(params map[string]any) []error {
	if err := action.CheckCondition(params["condition"]); err != nil {
		return []error{action.Invalid("", "condition: %v", err)}
	}
	return nil
}

// Run implements action.Handler.
func (filterHandler) Run(ctx context.Context, call *action.Call) (any, error) {
	list, ok := call.Params["items"].([]any)
	if !ok {
		return nil, action.Invalid("", "items: is %s, not a list", typeName(call.Params["items"]))
	}
	if err := checkSize("items", list); err != nil {
		return nil, err
	}
	kept := make([]any, 0, len(list))
	for i, item := range list {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		holds, err := action.Holds(call.Host, call.Params["condition"], map[string]any{"item": item, "index": int64(i)})
		if err != nil {
			return nil, action.Fail(fmt.Errorf("condition for element %d: %w", i, err))
		}
		if holds {
			kept = append(kept, item)
		}
	}
	return map[string]any{"items": kept, "count": int64(len(kept))}, nil
}
