package compare_test

import (
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/compare"
)

func TestJoin(t *testing.T) {
	a := []compare.Step{{"same", 0, stepwell.StepCompleted, 1, 100}, {"slower", 1, stepwell.StepCompleted, 1, 100}, {"status", 2, stepwell.StepCompleted, 1, 30}, {"attempts", 3, stepwell.StepCompleted, 1, 10}, {"gone", 4, stepwell.StepFailed, 3, 70}}
	b := []compare.Step{{"new", 0, stepwell.StepCompleted, 1, 5}, {"slower", 1, stepwell.StepCompleted, 1, 900}, {"status", 2, stepwell.StepFailed, 1, 10}, {"attempts", 3, stepwell.StepCompleted, 2, 10}, {"same", 7, stepwell.StepCompleted, 1, 100}}
	for order, want := range map[compare.Order]string{
		compare.ByKey:    " attempts gone new same slower status",
		compare.ByMoved:  " slower gone status new attempts same",
		compare.ByChange: " gone new status attempts same slower",
	} {
		rows, totals := compare.Join(a, b, order)
		got := ""
		for i := range rows {
			got += " " + rows[i].Key
			if differs := rows[i].Key != "same" && rows[i].Key != "slower"; rows[i].Differs() != differs {
				t.Errorf("%s differs: %t", rows[i].Key, !differs)
			}
		}
		if got != want {
			t.Errorf("by %s:%s, want%s", order, got, want)
		}
		if want := (compare.Totals{Steps: 6, OnlyA: 1, OnlyB: 1, Status: 1, Attempts: 1, Slower: 1, Faster: 1, MoreMS: 800 - 20 - 70 + 5}); totals != want {
			t.Errorf("totals %+v, want %+v", totals, want)
		}
	}
	if rows, totals := compare.Join(nil, nil, compare.ByKey); len(rows) != 0 || totals != (compare.Totals{}) {
		t.Errorf("of nothing: %v %+v", rows, totals)
	}
}
