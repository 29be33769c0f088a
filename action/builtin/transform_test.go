package builtin

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stepwell/stepwell/action/actiontest"
)

func TestTransform(t *testing.T) {
	object := params{"b": 2, "a": []any{1}, "c": nil}
	tests := []struct {
		operation     string
		input, result any
		types         string
	}{
		{"", "x", "x", "string string"},
		{"passthrough", nil, nil, "null null"},
		{"passthrough", int64(math.MaxInt64), int64(math.MaxInt64), "integer integer"},
		{"passthrough", 0.1, 0.1, "number number"},
		{"passthrough", json.Number("12345678901234567890123"), json.Number("12345678901234567890123"), "integer integer"},
		{"uppercase", "straße", "STRAßE", "string string"}, // letter by letter, as Go maps them
		{"lowercase", []any{"ÄB", ""}, []any{"äb", ""}, "array array"},
		{"keys", object, []any{"a", "b", "c"}, "object array"},
		{"values", object, []any{[]any{int64(1)}, int64(2), nil}, "object array"},
		{"count", object, int64(3), "object integer"},
		{"count", "añb", int64(3), "string integer"},
		{"count", nil, int64(0), "null integer"},
		{"flatten", []any{1, []any{2, []any{3}}, []any{}}, []any{int64(1), int64(2), []any{int64(3)}}, "array array"},
		{"unique", []any{"b", 1, 1.0, "1", params{"x": 1, "y": 2}, params{"y": 2, "x": 1}, nil, nil}, []any{"b", int64(1), "1", params{"x": int64(1), "y": int64(2)}, nil}, "array array"},
		{"sort", []any{3, 1.5, 2, int64(-1)}, []any{int64(-1), 1.5, int64(2), int64(3)}, "array array"},
		{"sort", []any{"b", "a", "B"}, []any{"B", "a", "b"}, "array array"},
		{"sort", []any{}, []any{}, "array array"},
		{"reverse", []any{1, "x"}, []any{"x", int64(1)}, "array array"},
		{"reverse", "añb", "bña", "string string"},
		{"merge", []any{params{"a": 1, "b": 1}, params{"b": 2}}, params{"a": int64(1), "b": int64(2)}, "array object"},
	}
	for _, test := range tests {
		p := params{"input": test.input}
		if test.operation != "" {
			p["operation"] = test.operation
		} else {
			test.operation = "passthrough"
		}
		from, to, _ := strings.Cut(test.types, " ")
		want(t, run(t, "util.transform", actiontest.Call{Params: p}),
			params{"result": test.result, "operation": test.operation, "input_type": from, "output_type": to})
	}
}

func TestTransformKeys(t *testing.T) {
	input := []any{params{"id": 1, "name": "a", "size": 5}, params{"id": 2}}
	at := func(operation string, input any) any {
		got := run(t, "util.transform", actiontest.Call{Params: params{"input": input, "operation": operation, "keys": []any{"id", "name"}}})
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		return got.Outputs["result"]
	}
	if diff := cmp.Diff([]any{params{"id": int64(1), "name": "a"}, params{"id": int64(2)}}, at("pick", input)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(params{"size": int64(5)}, at("omit", input[0])); diff != "" {
		t.Error(diff)
	}
}

func TestTransformExpression(t *testing.T) {
	got := run(t, "util.transform", actiontest.Call{Params: params{"input": []any{1, 2, 3}, "expression": "{{ input | sum + offset }}"},
		Scope: params{"offset": 10}})
	want(t, got, params{"result": int64(16), "operation": "expression", "input_type": "array", "output_type": "integer"})
	wantFail(t, run(t, "util.transform", actiontest.Call{Params: params{"input": 1, "expression": "{{ input.x }}"}}), "input.x is undefined")
}

func TestTransformRefuses(t *testing.T) {
	tests := []struct {
		params params
		text   string
	}{
		{params{"input": 1, "operation": "explode"}, "operation"},
		{params{"input": 1, "operation": "count", "expression": "{{ 1 }}"}, "beside expression"},
		{params{"input": 1, "operation": "count", "keys": []any{"a"}}, "keys: has no meaning for count"},
		{params{"input": 1, "operation": "uppercase"}, "the input is integer"},
		{params{"input": []any{"a", 1}, "operation": "uppercase"}, "element 1 is integer"},
		{params{"input": "a", "operation": "keys"}, "not an object"},
		{params{"input": params{}, "operation": "flatten"}, "not a list"},
		{params{"input": []any{1, "a"}, "operation": "sort"}, "element 1: string cannot be ordered with integer"},
		{params{"input": []any{true, false}, "operation": "sort"}, "is boolean"},
		{params{"input": true, "operation": "reverse"}, "neither a list nor a string"},
		{params{"input": []any{1}, "operation": "merge"}, "element 0 is integer"},
		{params{"input": params{}, "operation": "pick"}, "keys is missing"},
		{params{"input": []any{math.NaN()}, "operation": "unique"}, "element 0"},
		{params{"input": make([]any, maxElements+1), "operation": "count"}, "more than 1000000"},
		{params{"input": []any{make([]any, maxElements), 1}, "operation": "flatten"}, "more than 1000000"},
	}
	for _, test := range tests {
		wantFail(t, run(t, "util.transform", actiontest.Call{Params: test.params}), test.text)
	}
}

// TestCompareIsOrder: numbers are ordered by their exact values, whatever their Go types.
func TestCompareIsOrder(t *testing.T) {
	number := rapid.OneOf(
		rapid.Map(rapid.Int64(), func(n int64) any { return n }),
		rapid.Map(rapid.Int64(), func(n int64) any { return float64(n) }),
		rapid.Map(rapid.Float64(), func(f float64) any { return f }),
		rapid.SampledFrom([]any{int64(1 << 53), int64(1<<53 + 1), float64(1 << 53), int64(math.MaxInt64), float64(1 << 63), int64(math.MinInt64), float64(-1 << 63), 0.5, -0.5, int64(0)}),
	)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := number.Draw(t, "a"), number.Draw(t, "b"), number.Draw(t, "c")
		ab, err := compare(a, b)
		if err != nil {
			t.Fatal(err)
		}
		if ba, _ := compare(b, a); ab != -ba {
			t.Fatalf("a,b %d but b,a %d", ab, ba)
		}
		if exact := asBig(a).Cmp(asBig(b)); exact != ab {
			t.Fatalf("order %d, exactly %d", ab, exact)
		}
		bc, _ := compare(b, c)
		if ac, _ := compare(a, c); ab <= 0 && bc <= 0 && ac > 0 {
			t.Fatal("not transitive")
		}
	})
}
