package store

import (
	"testing"
	"time"

	"github.com/stepwell/stepwell"
)

func TestEndsAreReadBack(t *testing.T) {
	ended := time.Date(2026, 11, 28, 13, 59, 59, 0, time.UTC)
	x := Execution{Origin: Origin{Workflow: "a|b"}, Status: stepwell.ExecutionFailed, Started: ended.Add(-90 * time.Second), Ended: ended}
	x.Progress.Cost = 7
	used := x.Ends(x.Progress.Cost, -3)
	got, err := ReadEnds(used.ID)
	if want := (EndGroup{ended.Truncate(time.Hour), "a|b", stepwell.ExecutionFailed, DurationBin(90 * time.Second)}); err != nil || got != want {
		t.Errorf("%s is %+v, want %+v: %v", used.ID, got, want, err)
	}
	if used.Cost != 7 || used.InputTokens != 1 || used.ID < EndsFrom(ended) || used.ID >= EndsFrom(ended.Add(time.Hour)) {
		t.Errorf("used %+v", used)
	}
	for _, id := range []string{"", "2026-11-28T13||1", "x||1|2|3", "2026-11-28T13||x|2|3", "2026-11-28T13||1|x|3"} {
		if _, err := ReadEnds(id); stepwell.CodeOf(err) != stepwell.CodeInternal {
			t.Errorf("%q: %v", id, err)
		}
	}
	for d := time.Duration(-1); d < 1<<61; d = d*3/2 + 1 {
		bin := DurationBin(d)
		if bin < 0 || bin > maxBin || bin < maxBin && d > BinEnd(bin)+1 || bin > 0 && bin < maxBin && d < BinEnd(bin-1)-1 {
			t.Fatalf("%v is in bin %d, which ends at %v", d, bin, BinEnd(bin))
		}
	}
}
