package builtin

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell/action/actiontest"
)

func asBig(v any) *big.Float {
	switch v := v.(type) {
	case int64:
		return new(big.Float).SetInt64(v)
	case float64:
		return big.NewFloat(v)
	}
	return nil
}

func TestAggregate(t *testing.T) {
	tests := []struct {
		operation string
		inputs    []any
		result    any
	}{
		{"list", []any{1, "x", nil}, []any{int64(1), "x", nil}},
		{"list", []any{}, []any{}},
		{"sum", []any{1, int64(2), uint64(3)}, int64(6)},
		{"sum", []any{int64(math.MaxInt64), -1, 1}, int64(math.MaxInt64)},
		{"sum", []any{int64(math.MinInt64), 0}, int64(math.MinInt64)},
		{"sum", []any{1, 0.5}, 1.5},
		{"sum", []any{}, int64(0)},
		{"join", []any{"a", 1, true, 2.5}, "a, 1, true, 2.5"},
		{"join", []any{}, ""},
		{"merge", []any{params{"a": 1}, params{"a": 2, "b": 3}}, params{"a": int64(2), "b": int64(3)}},
		{"merge", []any{}, params{}},
		{"first", []any{"a", "b"}, "a"},
		{"last", []any{"a", "b"}, "b"},
		{"first", []any{}, nil},
		{"last", []any{}, nil},
		{"min", []any{3, 1, 2}, int64(1)},
		{"max", []any{3, 4.5, 2}, 4.5},
		{"max", []any{int64(1<<53 + 1), float64(1 << 53)}, int64(1<<53 + 1)},
		{"min", []any{"b", "a"}, "a"},
		{"average", []any{1, 2}, 1.5},
		{"count", []any{nil, nil}, int64(2)},
		{"flatten", []any{[]any{1}, 2}, []any{int64(1), int64(2)}},
	}
	for _, test := range tests {
		t.Logf("%s %v", test.operation, test.inputs)
		want(t, run(t, "util.aggregate", actiontest.Call{Params: params{"inputs": test.inputs, "operation": test.operation}}),
			params{"result": test.result, "count": int64(len(test.inputs)), "operation": test.operation})
	}
	want(t, run(t, "util.aggregate", actiontest.Call{Params: params{"inputs": []any{"a", "b"}, "operation": "join", "separator": ""}}),
		params{"result": "ab", "count": int64(2), "operation": "join"})
	want(t, run(t, "aggregate", actiontest.Call{Params: params{"inputs": []any{1}}}),
		params{"result": []any{int64(1)}, "count": int64(1), "operation": "list"})
}

func TestAggregateRefuses(t *testing.T) {
	long := make([]any, 20)
	for i := range long {
		long[i] = strings.Repeat("x", 1<<20)
	}
	tests := []struct {
		params params
		text   string
	}{
		{params{}, "inputs is missing"},
		{params{"inputs": "x"}, "inputs must be a list"},
		{params{"inputs": []any{}, "operation": "median"}, "operation"},
		{params{"inputs": []any{int64(math.MaxInt64), 1}, "operation": "sum"}, "does not fit in a 64-bit integer"},
		{params{"inputs": []any{int64(math.MinInt64), -1}, "operation": "sum"}, "does not fit in a 64-bit integer"},
		{params{"inputs": []any{uint64(math.MaxUint64)}, "operation": "sum"}, "an integer beyond 64 bits"},
		{params{"inputs": []any{1, "2"}, "operation": "sum"}, "element 1 is a value of type string"},
		{params{"inputs": []any{math.MaxFloat64, math.MaxFloat64}, "operation": "sum"}, "not a finite number"},
		{params{"inputs": []any{}, "operation": "average"}, "no inputs"},
		{params{"inputs": []any{}, "operation": "min"}, "no inputs"},
		{params{"inputs": []any{1, "a"}, "operation": "max"}, "element 1"},
		{params{"inputs": []any{"a", nil}, "operation": "join"}, "element 1 is null"},
		{params{"inputs": long, "operation": "join"}, "longer than 16777216 bytes"},
		{params{"inputs": []any{params{}, 1}, "operation": "merge"}, "element 1 is integer"},
		{params{"inputs": make([]any, maxElements+1)}, "more than 1000000"},
	}
	for _, test := range tests {
		wantFail(t, run(t, "util.aggregate", actiontest.Call{Params: test.params}), test.text)
	}
}

// TestSumExact compares with arithmetic that cannot overflow.
func TestSumExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfN(rapid.Int64(), 0, 8).Draw(t, "numbers")
		exact, list, fits := new(big.Int), make([]any, len(numbers)), true
		for i, n := range numbers {
			exact.Add(exact, big.NewInt(n))
			fits, list[i] = fits && exact.IsInt64(), n
		}
		got, err := sum(list)
		if fits != (err == nil) || fits && got != exact.Int64() {
			t.Fatalf("sum = %v, %v; exactly %v", got, err, exact)
		}
	})
}
