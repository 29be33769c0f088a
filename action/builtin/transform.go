package builtin

import (
	"context"
	"errors"
	"fmt"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

func transform() action.Action {
	return action.Action{
		Spec: spec.Spec{
			Name:    "util.transform",
			Aliases: []string{"transform"},
			Summary: "Makes one value of another.",
			Doc:     transformDoc,
			Params: []spec.Field{
				{Name: "input", Type: spec.Any, Doc: "The value; null when absent."},
				{Name: "operation", Type: spec.String, Enum: operationNames(transforms), Doc: "What to do, `passthrough` when neither this nor an expression is given."},
				{Name: "keys", Type: spec.Array, Items: &spec.Field{Name: "key", Type: spec.String}, Doc: "The keys for `pick` and `omit`."},
				{Name: "expression", Type: spec.String, Raw: true, Names: []string{"input"}, Doc: "A template that has the value as `input`, instead of an operation."},
			},
			Outputs: []spec.Field{
				{Name: "result", Type: spec.Any, Doc: "The new value."},
				{Name: "operation", Type: spec.String, Doc: "What was done; `expression` for an expression."},
				{Name: "input_type", Type: spec.String, Doc: "Type of the input: string, integer, number, boolean, array, object or null."},
				{Name: "output_type", Type: spec.String, Doc: "Type of the result."},
			},
			Examples: []spec.Example{
				{Title: "an operation", YAML: "id: tags\naction: util.transform\nparams:\n  input: [b, a, b]\n  operation: unique"},
				{Title: "an expression", YAML: "id: names\naction: util.transform\nparams:\n  input: \"{{ steps.list.outputs.files }}\"\n" +
					"  expression: \"{{ input | map(attribute='name') | join(', ') }}\""},
			},
		},
		Handler: transformHandler{},
	}
}

const transformDoc = `| operation | input | result |
|---|---|---|
| passthrough | anything | the input |
| uppercase, lowercase | a string, or a list of strings | the same in that case |
| keys | an object | its keys, sorted |
| values | an object | its values, in the order of the sorted keys |
| count | a list, an object, a string or null | number of elements or characters, 0 for null |
| flatten | a list | lists in it are replaced by their elements, one level deep |
| unique | a list | without repetitions, the first of each kept; 1 and 1.0 are equal |
| sort | a list of numbers or of strings | ascending; strings by code point |
| reverse | a list or a string | back to front |
| pick, omit | an object, or a list of objects | with only, or without, the members in ` + "`keys`" + ` |
| merge | a list of objects | one object; of equal keys the last value wins |

Integers stay integers. An input that does not fit fails the step for good.`

// operation is one way to make a value; its error is about the input.
type operation struct {
	name  string
	apply func(input any, params map[string]any) (any, error)
}

// find is the operation of that name.
func find(operations []operation, name string) (operation, bool) {
	for _, o := range operations {
		if o.name == name {
			return o, true
		}
	}
	return operation{}, false
}

func operationNames(operations []operation) []string {
	names := make([]string, len(operations))
	for i, o := range operations {
		names[i] = o.name
	}
	return names
}

type transformHandler struct{}

// Validate implements action.Validator.
func (transformHandler) Validate(params map[string]any) []error {
	var problems []error
	name, _ := params["operation"].(string)
	if name != "" && params["expression"] != nil {
		problems = append(problems, action.Invalid("leave one of them out", "operation stands beside expression"))
	}
	if params["keys"] != nil && name != "" && name != "pick" && name != "omit" {
		problems = append(problems, action.Invalid("keys belong to the operations pick and omit", "keys: has no meaning for %s", name))
	}
	return problems
}

// Run implements action.Handler.
func (h transformHandler) Run(_ context.Context, call *action.Call) (any, error) {
	if problems := h.Validate(call.Params); len(problems) > 0 {
		return nil, action.Fail(errors.Join(problems...))
	}
	input := call.Params["input"]
	if err := checkSize("input", input); err != nil {
		return nil, err
	}
	name, _ := call.Params["operation"].(string)
	var result any
	var err error
	if template, ok := call.Params["expression"].(string); ok {
		name = "expression"
		result, err = call.Host.Eval(template, map[string]any{"input": input})
	} else {
		if name == "" {
			name = "passthrough"
		}
		o, known := find(transforms, name)
		if !known {
			return nil, action.Invalid("", "operation: unknown operation %q", name)
		}
		result, err = o.apply(input, call.Params)
	}
	if err != nil {
		return nil, action.Fail(fmt.Errorf("%s: %w", name, err))
	}
	return map[string]any{"result": result, "operation": name, "input_type": typeName(input), "output_type": typeName(result)}, nil
}
