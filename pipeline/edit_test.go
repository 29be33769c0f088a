package pipeline

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A comparison leads from the one text to the other, and is no longer than it has to be.
func TestCompare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "d\n"})
		x, y := rapid.SliceOfN(line, 0, 30).Draw(t, "x"), rapid.SliceOfN(line, 0, 30).Draw(t, "y")
		var from, to []string
		changes := 0
		for _, e := range compare(x, y) {
			if e.a != len(from) || e.b != len(to) {
				t.Fatalf("%+v stands behind %d and %d lines", e, len(from), len(to))
			}
			if e.op != '+' {
				from = append(from, e.text)
			}
			if e.op != '-' {
				to = append(to, e.text)
			}
			if e.op != ' ' {
				changes++
			}
		}
		if !slices.Equal(from, x) || !slices.Equal(to, y) {
			t.Fatalf("%q and %q became %q and %q", x, y, from, to)
		}
		if best := len(x) + len(y) - 2*common(x, y); changes != best {
			t.Fatalf("%d changes, %d would do", changes, best)
		}
	})
}

// common is the length of the longest common subsequence, the slow way.
func common(x, y []string) int {
	row := make([]int, len(y)+1)
	for i := range x {
		before := 0
		for j := range y {
			above := row[j+1]
			if x[i] == y[j] {
				row[j+1] = before + 1
			} else {
				row[j+1] = max(row[j+1], row[j])
			}
			before = above
		}
	}
	return row[len(y)]
}

// What differs too much is replaced altogether, in little time.
func TestCompareLarge(t *testing.T) {
	x, y := make([]string, 20_000), make([]string, 20_000)
	for i := range x {
		x[i], y[i] = strings.Repeat("x", i%50)+"\n", strings.Repeat("y", i%70)+"\n"
	}
	if n := len(compare(x, y)); n < 20_000 {
		t.Errorf("%d edits", n)
	}
}
