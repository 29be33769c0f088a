package view

import (
	"testing"
	"time"

	"github.com/stepwell/stepwell/action"
)

// The numbers of a stream step: what came in, what differs from it, how fast, and how long still.
func TestItemsText(t *testing.T) {
	now := time.Unix(0, 0)
	var i items
	i.measure(&action.Counts{In: 1000}, now)
	if got := i.text(); got != "1,000 items" {
		t.Error(got)
	}
	i.measure(&action.Counts{In: 3000, Out: 2990, Failed: 10, Skipped: 500, Total: 13_500}, now.Add(time.Second))
	if got := i.text(); got != "3,000 items, 2,990 passed on, 10 failed, 500 done before, 2,000/s, 5.00s left" {
		t.Error(got)
	}
	i.measure(&action.Counts{In: 3100, Out: 3100}, now.Add(1100*time.Millisecond)) // too soon for another measurement
	if got := i.text(); got != "3,100 items, 2,000/s" {
		t.Error(got)
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
