package transform

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jmespath-community/go-jmespath"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/transform/convert"
)

const maxExpression = 16 << 10

// compile reads a JMESPath expression.
func compile(text string) (jmespath.JMESPath, error) {
	if len(text) > maxExpression {
		return nil, &stepwell.Error{Code: stepwell.CodeLimit, Message: "the JMESPath expression is longer than 16 KiB"}
	}
	expr, err := jmespath.Compile(text, functions...)
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "not a JMESPath expression", Err: err}
	}
	return expr, nil
}

// search evaluates an expression on a row, nil for null.
func search(expr jmespath.JMESPath, row *item.Value) (*item.Value, error) {
	data, err := row.Any()
	if err != nil {
		return nil, err
	}
	found, err := evaluate(expr, floats(data))
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "JMESPath", Hint: stepwell.HintOf(err), Err: err}
	}
	if found == nil {
		return nil, nil
	}
	return item.Of(wholes(found))
}

// evaluate is Search, in which a fault of the library on one row fails that row and not the process.
func evaluate(expr jmespath.JMESPath, data any) (found any, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("the expression cannot be evaluated: %v", fault)
		}
	}()
	return expr.Search(data)
}

// floats makes all numbers float64 in place, as JMESPath has them.
func floats(v any) any {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case json.Number:
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = floats(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = floats(v[key])
		}
	}
	return v
}

// wholes is the result of JMESPath with whole numbers written as such. It copies, because results share parts.
func wholes(v any) any {
	const exact = 1 << 53
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < exact {
			return int64(v)
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = wholes(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key := range v {
			out[key] = wholes(v[key])
		}
		return out
	}
	return v
}

// functions are those beyond JMESPath's own. Of null they all make null.
var functions = []jmespath.FunctionEntry{
	{Name: "datetime", Arguments: arguments(2), Handler: on(func(v *item.Value, more []string) (*item.Value, error) {
		clock := convert.Clock{}
		if len(more) > 0 {
			if err := convert.CheckFormat(more[0]); err != nil {
				return nil, err
			}
			clock.Format = more[0]
		}
		if len(more) > 1 {
			zone, err := time.LoadLocation(more[1])
			if err != nil {
				return nil, err
			}
			clock.Zone = zone
		}
		return clock.DateTime(v)
	})},
	{Name: "number", Arguments: arguments(1), Handler: on(func(v *item.Value, more []string) (*item.Value, error) {
		decimal := "."
		if len(more) > 0 {
			decimal = more[0]
		}
		if decimal != "." && decimal != "," {
			return nil, errors.New("the decimal separator is neither . nor a comma")
		}
		return convert.Number(v, decimal)
	})},
	{Name: "geometry", Arguments: arguments(0), Handler: on(func(v *item.Value, _ []string) (*item.Value, error) { return convert.Geometry(v) })},
	{Name: "bbox", Arguments: arguments(0), Handler: on(func(v *item.Value, _ []string) (*item.Value, error) { return convert.BBox(v) })},
	{Name: "null_if", Arguments: []jmespath.ArgSpec{{Types: []jmespath.JpType{jmespath.JpAny}}, {Types: []jmespath.JpType{jmespath.JpAny}, Variadic: true}}, Handler: nullIf},
}

func arguments(texts int) []jmespath.ArgSpec {
	out := []jmespath.ArgSpec{{Types: []jmespath.JpType{jmespath.JpAny}}}
	for range texts {
		out = append(out, jmespath.ArgSpec{Types: []jmespath.JpType{jmespath.JpString}, Optional: true})
	}
	return out
}

// on makes a function of JMESPath of one on values.
func on(f func(v *item.Value, more []string) (*item.Value, error)) jmespath.JpFunction {
	return func(args []any) (any, error) {
		if args[0] == nil {
			return nil, nil
		}
		v, err := item.Of(wholes(args[0]))
		if err != nil {
			return nil, err
		}
		var more []string
		for _, arg := range args[1:] {
			text, _ := arg.(string)
			more = append(more, text)
		}
		if v, err = f(v, more); err != nil {
			return nil, err
		}
		out, err := v.Any()
		return floats(out), err
	}
}

func nullIf(args []any) (any, error) {
	for _, none := range args[1:] {
		switch none.(type) {
		case string, float64, bool:
			if args[0] == none {
				return nil, nil
			}
		}
	}
	return args[0], nil
}
