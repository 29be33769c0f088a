package sqlite

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// TestStatesOfMany: so many rows that two connections read them once the execution is over, with indexes that have none and rows that have
// everything, are the same before and after it, for several callers at once, and read by their indexes.
func TestStatesOfMany(t *testing.T) {
	s := open(t, Options{})
	begin(t, s, 1, `{"steps":[]}`)
	var rows []engine.StepRow
	var want []store.StepState
	var indexes []int32
	add := func(row engine.StepRow) {
		one := store.StateOf(&row)
		one.Version = 2
		rows, want, indexes = append(rows, row), append(want, one), append(indexes, row.Idx)
	}
	for i := range int32(3 * manyStates / 2) {
		row := engine.StepRow{Idx: i, Seq: i, Status: stepwell.StepCompleted, Attempt: 1, Worker: "usual", Queued: 1_700_000_000_000_000 + int64(i), Started: 1_700_000_000_000_100, Ended: 1_700_000_000_000_200}
		switch i % 10 {
		case 1:
			row.Worker = fmt.Sprint("worker-", i%7)
		case 2:
			row.Worker = ""
		case 3:
			row.Key, row.Action = fmt.Sprintf("each[%d]", i), "util.noop"
		case 4:
			row.Key, row.Cost = fmt.Sprintf(`family:"%d"`, i), 5
		case 5:
			row.Key, row.Input = fmt.Sprintf("long[%d]", i), []byte(`"`+strings.Repeat("x", 600)+`"`)
		case 6:
			row.Status, row.Attempt, row.Ended = stepwell.StepRetrying, 300, 0
		case 7, 8:
			continue
		}
		if i > 100 && i < 2*manyStates/3 {
			continue
		}
		add(row)
	}
	add(engine.StepRow{Idx: 4 * manyStates, Seq: 4 * manyStates, Status: stepwell.StepFailed, Attempt: 100, Key: "last:x", Worker: "usual", Started: 1})
	commit := func(c store.Commit) {
		t.Helper()
		if err := s.Commit(t.Context(), []store.Commit{c}); err != nil {
			t.Fatal(err)
		}
	}
	is := func(when string, of []int32) {
		t.Helper()
		got, err := s.States(t.Context(), 1, of)
		if err != nil || len(got) != len(want) {
			t.Errorf("%s: %d states, want %d, error %v", when, len(got), len(want), err)
			return
		}
		for i := range got {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Errorf("%s: %+v, want %+v", when, got[i], want[i])
				return
			}
		}
	}
	commit(store.Commit{Execution: 1, Version: 2, Log: []byte(`{"t":2,"e":[]}`), Steps: rows})
	is("while it runs", nil)
	is("by their indexes", indexes)
	commit(store.Commit{Execution: 1, Version: 3, Log: []byte(`{"t":3,"e":[]}`), Update: &store.Update{Status: stepwell.ExecutionFailed, Ended: 5}})
	is("at its end", nil)
	s.halves.Lock()
	is("beside another caller", nil)
	s.halves.Unlock()
}
