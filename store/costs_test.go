package store

import (
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
)

func TestCostsArePutIntoGroups(t *testing.T) {
	ended := time.Date(2026, 3, 29, 23, 59, 59, 123456000, time.UTC)
	x := Execution{ID: "an id", Pipeline: `odd | "name"`, Ended: ended, Status: stepwell.ExecutionFailed}
	x.Workflow, x.Project = "w", "[p]"
	used := x.Charged(nil, []engine.Charge{{Step: "a", Attempts: 3, Cost: 9, Repeated: 2, RepeatedCost: 6}, {Step: "b.c", Attempts: 1, Cost: 1}}, 17)
	if len(used) != 2 || used[0].Kind != UsageOfCosts || used[0].Cost != 9 || used[0].InputTokens != 3 || used[0].OutputTokens != 6 || used[0].AudioMillis != 2 {
		t.Fatalf("%+v", used)
	}
	for i, step := range []string{"a", "b.c"} {
		id := used[i].ID
		g, err := ReadCosts(id)
		if want := (CostGroup{ended.Truncate(24 * time.Hour), "w", x.Pipeline, "[p]", step}); err != nil || g != want {
			t.Errorf("%+v %v, want %+v", g, err, want)
		}
		if id < DaysFrom(ended) || id >= DaysFrom(ended.Add(time.Second)) || id >= EndsFrom(ended.Add(time.Second)) {
			t.Errorf("%s is not of its day", id)
		}
	}
	if kept := x.Promised(nil, 5, 0, 3, 17); len(kept) != 1 || kept[0].InputTokens != 1 || kept[0].OutputTokens != 0 || kept[0].Cost != 3 {
		t.Errorf("%+v", kept)
	}
	x.Progress.Breached = engine.BreachedMaximum
	broken := x.Promised(nil, 5, 6, 7, 17)
	if len(broken) != 2 || broken[1].OutputTokens != 1 || broken[1].AudioMillis != 1 {
		t.Fatalf("%+v", broken)
	}
	b, err := ReadBreach(&broken[0])
	if want := (Breach{ended, "an id", "w", x.Pipeline, stepwell.ExecutionFailed, 5, 6, 7}); err != nil || b != want {
		t.Errorf("%+v %v, want %+v", b, err, want)
	}
	if id := broken[0].ID; id < MomentsFrom(ended) || id >= MomentsFrom(ended.Add(time.Microsecond)) {
		t.Errorf("%s is not of its time", id)
	}
	p, err := ReadPromises(broken[1].ID)
	if want := (PromiseGroup{ended.Truncate(24 * time.Hour), "w", x.Pipeline, 5, 6}); err != nil || p != want {
		t.Errorf("%+v %v, want %+v", p, err, want)
	}
	for _, bad := range []string{"", "2026-03-29", "2026-03-29{}", "2026-03-29[1]", "x[]"} {
		if g, err := ReadCosts(bad); err == nil && bad != "" && g.Step != "" {
			t.Errorf("%q is read as %+v", bad, g)
		}
		if _, err := ReadBreach(&Used{ID: bad}); err == nil {
			t.Errorf("%q is read as a breach", bad)
		}
	}
}
