package builtin

import (
	"cmp"
	"context"
	"fmt"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

type transformParams struct {
	Input      any      `json:"input" doc:"The value; null when absent."`
	Operation  string   `json:"operation" enum:"passthrough,uppercase,lowercase,keys,values,count,flatten,unique,sort,reverse,pick,omit,merge" doc:"What to do, ´passthrough´ when neither this nor an expression is given."`
	Keys       []string `json:"keys" doc:"The keys for ´pick´ and ´omit´."`
	Expression *string  `json:"expression" spec:"raw" names:"input" doc:"A template that has the value as ´input´, instead of an operation."`
}

type transformOutputs struct {
	Result     any    `json:"result" doc:"The new value."`
	Operation  string `json:"operation" doc:"What was done; ´expression´ for an expression."`
	InputType  string `json:"input_type" doc:"Type of the input: string, integer, number, boolean, array, object or null."`
	OutputType string `json:"output_type" doc:"Type of the result."`
}

func transform() action.Action {
	return action.Checked(action.Of(spec.Spec{
		Name:    "util.transform",
		Effect:  spec.NoEffect,
		Aliases: []string{"transform"},
		Summary: "Makes one value of another.",
		Doc:     transformDoc,
		Examples: []spec.Example{
			{Title: "an operation", YAML: "id: tags\naction: util.transform\nparams:\n  input: [b, a, b]\n  operation: unique"},
			{Title: "an expression", YAML: "id: names\naction: util.transform\nparams:\n  input: \"{{ steps.list.outputs.files }}\"\n" +
				"  expression: \"{{ input | map(attribute='name') | join(', ') }}\""},
		},
	}, runTransform), checkTransform)
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

Integers stay integers. An input that does not fit fails the step permanently.`

// operation is one way to make a value; its error is about the input.
type operation func(input any, p operands) (any, error)

// operands are what some operations need besides the input.
type operands struct {
	keys      []string
	separator string
}

// apply runs the operation of a name.
func apply(of map[string]operation, name string, input any, o operands) (any, error) {
	f, known := of[name]
	if !known {
		return nil, stepwell.Invalid("", "there is no such operation")
	}
	return f(input, o)
}

func checkTransform(p transformParams) (problems []error) {
	if p.Operation != "" && p.Expression != nil {
		problems = append(problems, action.Invalid("leave one of them out", "operation stands beside expression"))
	}
	if p.Keys != nil && p.Operation != "" && p.Operation != "pick" && p.Operation != "omit" {
		problems = append(problems, action.Invalid("keys belong to the operations pick and omit", "keys: has no meaning for %s", p.Operation))
	}
	return problems
}

func runTransform(_ context.Context, call *action.Call, p transformParams) (*transformOutputs, error) {
	if err := checkSize("input", p.Input); err != nil {
		return nil, err
	}
	name := cmp.Or(p.Operation, "passthrough")
	var result any
	var err error
	if p.Expression != nil {
		name = "expression"
		result, err = call.Host.Eval(*p.Expression, map[string]any{"input": p.Input})
	} else {
		result, err = apply(transforms, name, p.Input, operands{keys: p.Keys})
	}
	if err != nil {
		return nil, action.Fail(fmt.Errorf("%s: %w", name, err))
	}
	return &transformOutputs{result, name, typeName(p.Input), typeName(result)}, nil
}
