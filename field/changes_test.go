package field

import (
	"slices"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/columns"
	"github.com/stepwell/stepwell/store"
)

// TestChangesWithKeyframes: what a keyframe has is the fold of all changes before it, and long times between commits are exact.
func TestChangesWithKeyframes(t *testing.T) {
	const steps, month = 1000, 30 * 24 * 3600 * 1000
	c := &Changes{Version: KeyframeOf + 100, main: 10, steps: 10, began: 1000}
	want := map[int32]stepwell.StepStatus{}
	at := int64(1000)
	for e := range int32(KeyframeOf + 100) {
		s := store.StepState{Idx: e * 7 % steps, Version: int64(e) + 1, Status: stepwell.StepStatus(e % 8), Attempt: 1, Started: 2_000_000, Superseded: e%11 == 0}
		if at += 3; e == 5 {
			at += 3 * month // more than 32 bits of milliseconds
		}
		if c.add(&s, at); e >= KeyframeOf {
			continue
		}
		if want[s.Idx] = s.Status; s.Superseded {
			want[s.Idx] = stepwell.StepStatus(absent)
			if s.Idx < 10 {
				want[s.Idx] = stepwell.StepPending
			}
		}
	}
	raw, err := c.Encode(KeyframeOf, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	second, err := columns.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range second.Column("at_status") {
		if s != uint32(want[int32(i)]) {
			t.Fatalf("step %d is %d in the keyframe, want %d", i, s, want[int32(i)])
		}
	}
	if second.Rows != 100 || second.At != at-300 || len(second.Column("at_duration")) != steps {
		t.Errorf("the second part: %+v", second.Header)
	}
	if raw, err = c.Encode(0, 1<<30); err != nil {
		t.Fatal(err)
	}
	first, err := columns.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	now, gap := first.At, first.Column("gap")
	for _, dt := range first.Column("dt") {
		took := int64(dt)
		if dt == longDT {
			took = int64(gap[0]) | int64(gap[1])<<32
			gap = gap[2:]
		}
		now += took
	}
	if first.Rows != KeyframeOf || now != at-300 || len(gap) > 0 || slices.Max(first.Column("at_status")[:10]) != 0 || first.Column("at_status")[10] != uint32(absent) {
		t.Errorf("the first part: %+v ends at %d, want %d", first.Header, now, at-300)
	}
}
