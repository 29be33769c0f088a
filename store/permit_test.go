package store_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell/store"
)

func TestShareLimit(t *testing.T) {
	for _, c := range []struct {
		limit, turn    int64
		demands, parts []int64
	}{
		{3, 0, []int64{9, 0, 0}, []int64{3, 0, 0}},
		{3, 0, []int64{0, 0, 0}, []int64{1, 1, 1}},
		{3, 0, []int64{1, 0, 0}, []int64{2, 1, 0}},
		{10, 0, []int64{2, 100, 100}, []int64{2, 4, 4}},
		{1, 0, []int64{5, 5}, []int64{1, 0}},
		{1, 1, []int64{5, 5}, []int64{0, 1}},
		{4, 1, []int64{5, 5, 5}, []int64{1, 2, 1}},
	} {
		if got := store.ShareLimit(c.limit, c.turn, c.demands); !slices.Equal(got, c.parts) {
			t.Errorf("%d over %v at turn %d: %v, want %v", c.limit, c.demands, c.turn, got, c.parts)
		}
	}
}

// The parts are the limit together, and nobody goes without what another one has beyond its fair part.
func TestShareLimitIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, turn := rapid.Int64Range(0, 100).Draw(t, "limit"), rapid.Int64Range(0, 9).Draw(t, "turn")
		demands := rapid.SliceOfN(rapid.Int64Range(0, 50), 1, 8).Draw(t, "demands")
		parts, sum := store.ShareLimit(limit, turn, demands), int64(0)
		for i, p := range parts {
			sum += p
			for j, q := range parts {
				if p < demands[i] && q > p+1 {
					t.Fatalf("%d over %v: %v: %d has too little beside %d", limit, demands, parts, i, j)
				}
			}
		}
		if sum != limit {
			t.Fatalf("%d over %v: %v is %d", limit, demands, parts, sum)
		}
	})
}
