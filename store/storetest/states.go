package storetest

import (
	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// stateOf is the states of steps by index.
func (f *fixture) stateOf(no int64, of []int32) map[int32]store.StepState {
	f.Helper()
	list, err := f.States(f.Context(), no, of)
	if err != nil {
		f.Fatal(err)
	}
	out := map[int32]store.StepState{}
	last := int32(-1)
	for _, s := range list {
		if s.Idx <= last {
			f.Errorf("step %d comes after step %d", s.Idx, last)
		}
		last, out[s.Idx] = s.Idx, s
	}
	return out
}

var stateTables = []promise{
	{"the states of all steps are those of their rows, and queued where the log says so", func(f *fixture) {
		f.begin(1)
		got := f.stateOf(1, nil)
		equal(f, "steps", len(got), 1)
		equal(f, "queued without a row", got[0], store.StepState{Version: 1, Status: stepwell.StepQueued, Queued: at(1)})
		row := engine.StepRow{Idx: 9, Seq: 3, Status: stepwell.StepFailed, Attempt: 2, Key: "s:x", Worker: "w2", Queued: at(1), Started: at(2), Ended: at(3), Cost: 1_250_000}
		f.commit(f.next(1, 2, engine.StepRow{Idx: 0, Status: stepwell.StepRetrying, Attempt: 1, Queued: at(1)}, row))
		got = f.stateOf(1, nil)
		equal(f, "a newer row", got[0].Status, stepwell.StepRetrying)
		want := store.StepState{Idx: 9, Version: 2, Status: stepwell.StepFailed, Attempt: 2, Key: "s:x", Worker: "w2", Queued: at(1), Started: at(2), Ended: at(3), Cost: 1_250_000}
		equal(f, "a row", got[9], want)
		equal(f, "only some", f.stateOf(1, []int32{1, 9}), map[int32]store.StepState{9: want})
		equal(f, "none", len(f.stateOf(1, []int32{})), 0)
		equal(f, "of no execution", len(f.stateOf(7, nil)), 0)
	}}, {"the rows of some steps are read by their indexes", func(f *fixture) {
		f.begin(1)
		row := engine.StepRow{Idx: 9, Seq: 3, Status: stepwell.StepFailed, Attempt: 2, Key: "s:x", Action: "util.fail", Worker: "w2", Queued: at(1), Started: at(2), Ended: at(3), Cost: 1_250_000}
		f.commit(f.next(1, 2, engine.StepRow{Idx: 0, Status: stepwell.StepRetrying, Attempt: 1, Queued: at(1)}, row))
		got, err := f.StepsAt(f.Context(), 1, []int32{9, 4, 0})
		f.must(err)
		equal(f, "steps", len(got), 2)
		equal(f, "of the top level", got[0].Key+" "+got[0].Status.String(), " retrying")
		equal(f, "another", got[1].StepRow, row)
		none, err := f.StepsAt(f.Context(), 1, []int32{3})
		f.must(err)
		equal(f, "without a row", len(none), 0)
	}},
}
