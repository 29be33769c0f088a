package worker

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell/store"
)

// The tail against its description: the last lines in order, within the limit and the bytes, and a count of the
// dropped ones.
func TestTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tl tail
		var all []string
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		for i := range rapid.IntRange(0, 100).Draw(t, "lines") {
			size := rapid.SampledFrom([]int{0, 10, maxTail / 3}).Draw(t, "size")
			all = append(all, fmt.Sprint(i)+strings.Repeat(" ", size))
			if first := tl.add(store.LogLine{Message: all[i]}, limit); first != (i == 0) {
				t.Fatalf("line %d is the first: %v", i, first)
			}
		}
		want := 0
		for bytes := 0; want < min(limit, len(all)); want++ {
			if bytes += len(all[len(all)-1-want]); bytes > maxTail && want > 0 {
				break
			}
		}
		left, last := tl.empty()
		if left+len(last) != len(all) || len(last) != want {
			t.Fatalf("%d lines and %d left out of %d, want %d", len(last), left, len(all), want)
		}
		for i, line := range last {
			if line.Message != all[left+i] {
				t.Fatalf("line %d is %.10q", i, line.Message)
			}
		}
	})
}
