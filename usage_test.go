package stepwell_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
)

// Usage survives being stored as a list and is summed; of memory the maximum counts.
func TestSpending(t *testing.T) {
	used := &stepwell.Resources{CPUSeconds: 1.25, MaxRSS: 300, BytesIn: 7, BytesOut: 9}
	for _, s := range []stepwell.Spending{
		{},
		{Cost: 3},
		{Usage: stepwell.Usage{InputTokens: 1, OutputTokens: 2, AudioMillis: 3}},
		{Cost: 4, Usage: stepwell.Usage{Resources: used}},
	} {
		raw := append(s.AppendList([]byte("[0")), ']')
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		var got stepwell.Spending
		if err := got.ReadList(list[1:]); err != nil || !cmp.Equal(got, s) {
			t.Errorf("%s is read as %+v, %v", raw, got, err)
		}
		if s.None() != (s == stepwell.Spending{}) {
			t.Errorf("%+v is nothing: %t", s, s.None())
		}
	}
	var sum stepwell.Spending
	for _, more := range []*stepwell.Resources{nil, used, {MaxRSS: 200, BytesIn: math.MaxInt64}, {MaxRSS: 400, BytesOut: -5}, nil} {
		sum = sum.Plus(stepwell.Spending{Usage: stepwell.Usage{Resources: more}})
	}
	if want := (&stepwell.Resources{CPUSeconds: 1.25, MaxRSS: 400, BytesIn: math.MaxInt64, BytesOut: 9}); !cmp.Equal(sum.Resources, want) {
		t.Errorf("the sum is %+v", sum.Resources)
	}
	if *used != (stepwell.Resources{CPUSeconds: 1.25, MaxRSS: 300, BytesIn: 7, BytesOut: 9}) {
		t.Errorf("a summand has changed: %+v", used)
	}
	var bad stepwell.Spending
	if bad.ReadList([]json.RawMessage{[]byte("1"), []byte("2")}) == nil || bad.ReadList([]json.RawMessage{[]byte("1"), []byte("2"), []byte("3"), []byte("4"), []byte("5")}) == nil {
		t.Error("a list of two numbers, or of five, is read")
	}
}
