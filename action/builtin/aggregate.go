package builtin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// maxText bounds the text that join makes, in bytes.
const maxText = 16 << 20

type aggregateParams struct {
	Inputs    []any  `json:"inputs" required:"true" doc:"The values."`
	Operation string `json:"operation" default:"list" enum:"list,sum,join,merge,first,last,min,max,average,count,flatten" doc:"What to do."`
	Separator string `json:"separator" default:", " doc:"Between the texts of ´join´."`
}

type aggregateOutputs struct {
	Result    any    `json:"result" doc:"The one value."`
	Count     int    `json:"count" doc:"Number of inputs."`
	Operation string `json:"operation" doc:"What was done."`
}

func aggregate() action.Action {
	return action.Of(spec.Spec{
		Name:    "util.aggregate",
		Effect:  spec.NoEffect,
		Aliases: []string{"aggregate"},
		Summary: "Aggregates values.",
		Doc:     aggregateDoc,
		Examples: []spec.Example{{Title: "add up", YAML: `
id: total
action: util.aggregate
params:
  inputs: ["{{ steps.a.outputs.count }}", "{{ steps.b.outputs.count }}"]
  operation: sum`}},
	}, runAggregate)
}

const aggregateDoc = `| operation | inputs | result |
|---|---|---|
| list | anything | the inputs |
| sum | numbers | exact for integers; a sum beyond 64 bits is an error; 0 without inputs |
| join | strings, numbers, booleans | one text, with the separator in between |
| merge | objects | one object; of equal keys the last value wins |
| first, last | anything | that input, null without inputs |
| min, max | numbers or strings, at least one | the smallest or largest |
| average | numbers, at least one | the arithmetic mean |
| count | anything | number of inputs |
| flatten | anything | lists among the inputs are replaced by their elements, one level deep |

Integers stay integers. Inputs that do not fit fail the step permanently.`

// aggregates are the operations of util.aggregate.
var aggregates = map[string]operation{
	"list":    onList(func(list []any) (any, error) { return list, nil }),
	"sum":     onList(sum),
	"join":    func(input any, p operands) (any, error) { return join(input.([]any), p.separator) },
	"merge":   onList(merge),
	"first":   onList(func(list []any) (any, error) { return at(list, 0), nil }),
	"last":    onList(func(list []any) (any, error) { return at(list, len(list)-1), nil }),
	"min":     onList(func(list []any) (any, error) { return extreme(list, -1) }),
	"max":     onList(func(list []any) (any, error) { return extreme(list, 1) }),
	"average": onList(average),
	"count":   onList(func(list []any) (any, error) { return int64(len(list)), nil }),
	"flatten": onList(flatten),
}

func runAggregate(_ context.Context, _ *action.Call, p aggregateParams) (*aggregateOutputs, error) {
	if err := checkSize("inputs", p.Inputs); err != nil {
		return nil, err
	}
	result, err := apply(aggregates, p.Operation, p.Inputs, operands{separator: p.Separator})
	if err != nil {
		return nil, action.Fail(fmt.Errorf("%s: %w", p.Operation, err))
	}
	return &aggregateOutputs{result, len(p.Inputs), p.Operation}, nil
}

func at(list []any, i int) any {
	if i < 0 || i >= len(list) {
		return nil
	}
	return list[i]
}

// sum adds integers exactly as long as there are only integers, and floats from the first float on.
func sum(list []any) (any, error) {
	var whole int64
	var float float64
	floats := false
	for i, element := range list {
		switch v := number(element).(type) {
		case int64:
			if next := whole + v; !floats && (next > whole) != (v > 0) && v != 0 {
				return nil, fmt.Errorf("the sum does not fit in a 64-bit integer")
			}
			whole += v
			float += float64(v)
		case float64:
			floats = true
			float += v
		default:
			return nil, fmt.Errorf("element %d is %s that cannot be added", i, describe(element))
		}
	}
	if !floats {
		return whole, nil
	}
	return finite(float)
}

func finite(f float64) (any, error) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, errors.New("the result is not a finite number")
	}
	return f, nil
}

func average(list []any) (any, error) {
	if len(list) == 0 {
		return nil, errors.New("there are no inputs")
	}
	total := 0.0
	for i, element := range list {
		switch v := number(element).(type) {
		case int64:
			total += float64(v)
		case float64:
			total += v
		default:
			return nil, fmt.Errorf("element %d is %s that cannot be added", i, describe(element))
		}
	}
	return finite(total / float64(len(list)))
}

func describe(value any) string {
	if _, ok := number(value).(tooLarge); ok {
		return "an integer beyond 64 bits"
	}
	return "a value of type " + typeName(value)
}

// extreme is the first of the smallest (sign -1) or largest (sign 1) elements.
func extreme(list []any, sign int) (any, error) {
	if len(list) == 0 {
		return nil, errors.New("there are no inputs")
	}
	best := list[0]
	for i, element := range list {
		order, err := compare(element, best)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		if order*sign > 0 {
			best = element
		}
	}
	return best, nil
}

func join(list []any, separator string) (any, error) {
	var b strings.Builder
	for i, element := range list {
		switch element.(type) {
		case nil, []any, map[string]any:
			return nil, fmt.Errorf("element %d is %s, which is not text", i, typeName(element))
		}
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(textOf(element))
		if b.Len() > maxText {
			return nil, fmt.Errorf("the text is longer than %d bytes", maxText)
		}
	}
	return b.String(), nil
}
