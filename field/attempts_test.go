package field

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stepwell/stepwell/api/columns"
	"github.com/stepwell/stepwell/engine"
)

// TestAttemptsOfAHistory: attempts that are lost, queued twice, wait and go on.
func TestAttemptsOfAHistory(t *testing.T) {
	at := func(s int64) time.Time { return time.UnixMicro(s).UTC() }
	var list []Attempt
	a := attempting{list: &list, last: map[int32]int{}}
	for _, e := range []engine.HistoryEvent{
		{Step: -1, Type: "start", At: at(1)},
		{Step: 3, StepKey: "x", Type: "queued", At: at(2)},
		{Step: 3, StepKey: "x", Type: "queued", At: at(4)}, // nobody has seen it begin
		{Step: 3, StepKey: "x", Type: "started", At: at(5), Worker: "w1"},
		{Step: 3, StepKey: "x", Type: "lost", At: at(6), Worker: "w1", Detail: "gone"},
		{Step: 3, StepKey: "x", Type: "queued", At: at(7)},
		{Step: 3, StepKey: "x", Type: "started", At: at(8), Worker: "w2"},
		{Step: -1, Type: "recovered", At: at(9)},
		{Step: 3, StepKey: "x", Type: "queued", At: at(10)}, // the server was gone
		{Step: 3, StepKey: "x", Type: "started", At: at(11), Worker: "w3"},
		{Step: 3, StepKey: "x", Type: "waiting", At: at(12), Wake: at(20)},
		{Step: 4, StepKey: "y", Type: "skipped", At: at(13)}, // it never ran
		{Step: 3, StepKey: "x", Type: "started", At: at(21), Worker: "w4"},
		{Step: 3, StepKey: "x", Type: "failed", At: at(22), Again: true, Wake: at(30), Detail: "no"},
		{Step: 3, StepKey: "x", Type: "queued", At: at(30)},
		{Step: 3, StepKey: "x", Type: "started", At: at(31), Worker: "w1"},
		{Step: 3, StepKey: "x", Type: "failed", At: at(32), Again: true, Wake: at(90)},
	} {
		a.add(&e)
	}
	want := []Attempt{
		{Step: 3, Key: "x", Number: 1, Queued: 2, Started: 5, Ended: 6, Worker: "w1", Outcome: "lost", Detail: "gone"},
		{Step: 3, Key: "x", Number: 2, Queued: 7, Started: 8, Ended: 10, Worker: "w2", Outcome: "lost"},
		{Step: 3, Key: "x", Number: 3, Queued: 10, Started: 11, Ended: 12, Worker: "w3", Outcome: "waiting"},
		{Step: 3, Key: "x", Number: 3, Started: 21, Ended: 22, Worker: "w4", Outcome: "failed", Detail: "no"},
		{Step: 3, Key: "x", Number: 4, Queued: 30, Started: 31, Ended: 32, Worker: "w1", Outcome: "failed", Until: 90},
	}
	if len(list) != len(want) {
		t.Fatalf("%+v", list)
	}
	for i := range want {
		if list[i] != want[i] {
			t.Errorf("%d is %+v\nwant %+v", i, list[i], want[i])
		}
	}
}

// TestWaits: how long a step waited is told by its next attempt, or by its end.
func TestWaits(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
	a := &Attempts{fold: attempting{last: map[int32]int{}}}
	a.fold.list = &a.List
	for _, e := range []engine.HistoryEvent{
		{Step: 1, StepKey: "ok", Type: "queued", At: at(1)},
		{Step: 1, StepKey: "ok", Type: "started", At: at(2)},
		{Step: 1, StepKey: "ok", Type: "waiting", At: at(3), Wake: at(1000)},
		{Step: 2, StepKey: "open", Type: "started", At: at(2)},
		{Step: 2, StepKey: "open", Type: "waiting", At: at(4)},
		{Step: 1, StepKey: "ok", Type: "completed", At: at(43)}, // it was approved
	} {
		a.fold.add(&e)
	}
	raw, err := a.Encode(0, 10)
	if err != nil {
		t.Fatal(err)
	}
	table, err := columns.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	if backoff := table.Column("backoff"); !slices.Equal(backoff, []uint32{40, 0}) || a.List[0].Until != 0 {
		t.Errorf("%v, %+v", backoff, a.List)
	}
}

// TestAttemptsThatTheExecutionEnded: the ends of attempts that a cancellation ended were in rows that a restart has overwritten.
func TestAttemptsThatTheExecutionEnded(t *testing.T) {
	at := func(s int64) time.Time { return time.UnixMicro(s).UTC() }
	var list []Attempt
	a := attempting{list: &list, last: map[int32]int{}}
	for _, e := range []engine.HistoryEvent{
		{Step: 3, StepKey: "x", Type: "queued", At: at(2)},
		{Step: 4, StepKey: "y", Type: "queued", At: at(2)},
		{Step: 5, StepKey: "z", Type: "queued", At: at(2)},
		{Step: 3, StepKey: "x", Type: "started", At: at(3), Worker: "w1"},
		{Step: 5, StepKey: "z", Type: "started", At: at(3), Worker: "w1"},
		{Step: -1, Type: "cancel", At: at(4), Detail: "enough"},
		{Step: 5, StepKey: "z", Type: "completed", At: at(5)},
		{Step: -1, Type: "restart", At: at(6)},
		{Step: 3, StepKey: "x", Type: "queued", At: at(7)},
		{Step: 4, StepKey: "y", Type: "skipped", At: at(8)},
		{Step: 3, StepKey: "x", Type: "started", At: at(8), Worker: "w2"},
		{Step: -1, Type: "restart", At: at(9)}, // while it runs
		{Step: 3, StepKey: "x", Type: "queued", At: at(10)},
		{Step: -1, Type: "recovered", At: at(11)},
		{Step: 3, StepKey: "x", Type: "queued", At: at(12)},
		{Step: 3, StepKey: "x", Type: "started", At: at(13)},
		{Step: -1, Type: "timer", At: at(14)},
		{Step: -1, Type: "restart", At: at(20)},
		{Step: 3, StepKey: "x", Type: "started", At: at(21)},
		{Step: 3, StepKey: "x", Type: "queued", At: at(30)},
	} {
		a.add(&e)
	}
	var got []string
	for _, x := range list {
		got = append(got, fmt.Sprint(x.Key, x.Number, " ", x.Queued, "-", x.Started, "-", x.Ended, " ", x.Outcome))
	}
	want := []string{"x1 2-3-4 cancelled", "y1 2-0-4 cancelled", "z1 2-3-5 completed", "x2 7-8-9 cancelled", "x3 10-13-14 timed_out", "x4 0-21-30 lost", "x5 30-0-0 "}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
