package storetest

import (
	"fmt"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

func waiting(idx int32, external string) engine.StepRow {
	return engine.StepRow{Idx: idx, Status: stepwell.StepWaiting, Attempt: 1, Queued: at(1), Started: at(2), External: external}
}

// waiters are the steps that wait for a signal, page by page.
func (f *fixture) waiters(prefix string, limit int) (out []string) {
	f.Helper()
	var after *store.WaitingStep
	for {
		page, err := f.WaitingSteps(f.Context(), prefix, after, limit)
		f.must(err)
		if len(page) == 0 {
			return out
		}
		for i := range page {
			w := &page[i]
			out = append(out, fmt.Sprintf("%s %s %s %s", w.Execution[35:], w.Key, w.Action, w.External))
			after = w
		}
	}
}

var waits = []promise{
	{"steps that wait for a signal are listed by the beginning of its key, in pages", func(f *fixture) {
		f.begin(1, 2, 3)
		inner := waiting(5, "event:x")
		inner.Key, inner.Action = "loop[0]", "do.l"
		f.commit(f.next(2, 2, waiting(1, "approval:b"), waiting(2, "approval:c"), inner), f.next(1, 2, waiting(0, "approval:a"), waiting(1, "")), f.next(3, 2, waiting(0, "approval")))
		equal(f, "all", f.waiters("", 2), []string{"1 a do.a approval:a", "2 b do.b approval:b", "2 c do.c approval:c", "2 loop[0] do.l event:x", "3 a do.a approval"})
		equal(f, "approvals", f.waiters("approval:", 1), []string{"1 a do.a approval:a", "2 b do.b approval:b", "2 c do.c approval:c"})
		equal(f, "nobody's", len(f.waiters("%", 9)), 0)
		list, err := f.WaitingSteps(f.Context(), "approval:b", nil, 9)
		f.must(err)
		want := waiting(1, "approval:b")
		want.Key, want.Action = "b", "do.b"
		equal(f, "step", []any{list[0].Pipeline, list[0].Name, list[0].StepRow}, []any{"three", "The second", want})
	}},
	{"who has gone on, was replaced or whose execution has ended waits no longer", func(f *fixture) {
		f.begin(1, 2, 3)
		f.commit(f.next(1, 2, waiting(0, "a"), waiting(1, "b")), f.next(2, 2, waiting(0, "c")), f.next(3, 2, waiting(0, "d")))
		ended := f.next(2, 3)
		ended.Update = &store.Update{Status: stepwell.ExecutionCancelled, Ended: at(9)}
		f.commit(f.next(1, 3, done(0, 1, "{}")), ended, f.next(3, 3, waiting(0, "e")))
		equal(f, "waiting", f.waiters("", 9), []string{"1 b do.b b", "3 a do.a e"})
	}},
}

var totals = []promise{
	{"executions are counted by status, and those that ended since", func(f *fixture) {
		f.begin(1, 2, 3, 4, 5, 6)
		for no, status := range map[int64]stepwell.ExecutionStatus{2: stepwell.ExecutionCompleted, 3: stepwell.ExecutionCompleted, 4: stepwell.ExecutionFailed, 5: stepwell.ExecutionCompleted} {
			c := f.next(no, 2)
			c.Update = &store.Update{Status: status, Ended: at(no * 1000)}
			f.commit(c)
		}
		paused := f.next(6, 2)
		paused.Update = &store.Update{Status: stepwell.ExecutionPaused}
		f.commit(paused)
		got, err := f.Totals(f.Context(), time.UnixMicro(at(3000)))
		f.must(err)
		equal(f, "totals", *got, store.Totals{Executions: map[string]int64{"running": 1, "paused": 1, "completed": 3, "failed": 1},
			Since: map[string]int64{"completed": 2, "failed": 1}, Completed: 2, Durations: (2999 + 4999) * time.Millisecond})
		got, err = f.Totals(f.Context(), time.Time{})
		f.must(err)
		equal(f, "completed of all times", got.Completed, 3)
	}},
	{"ends of executions are listed by their times: the last ones of a range", func(f *fixture) {
		f.begin(1, 2, 3, 4)
		for no, status := range map[int64]stepwell.ExecutionStatus{2: stepwell.ExecutionCompleted, 3: stepwell.ExecutionFailed, 4: stepwell.ExecutionCompleted} {
			c := f.next(no, 2)
			c.Update = &store.Update{Status: status, Ended: at(no * 1000), Progress: engine.Progress{Total: 1, Cost: no}}
			f.commit(c)
		}
		in := func(from, before int64, limit int) (out []string) {
			f.Helper()
			ends, err := f.EndedIn(f.Context(), time.UnixMicro(at(from)), time.UnixMicro(at(before)), limit)
			f.must(err)
			for _, e := range ends {
				out = append(out, fmt.Sprintf("%s %d %s cost %d", e.Status, (e.At.UnixMicro()-at(0))/1000, e.Took, e.Cost))
			}
			return out
		}
		equal(f, "all", in(0, 5000, 9), []string{"completed 2000 1.999s cost 2", "failed 3000 2.999s cost 3", "completed 4000 3.999s cost 4"})
		equal(f, "the last", in(0, 5000, 1), []string{"completed 4000 3.999s cost 4"})
		equal(f, "a range", in(2000, 3000, 9), []string{"completed 2000 1.999s cost 2"})
		equal(f, "nothing", len(in(5000, 9000, 9)), 0)
	}},
	{"an empty store has none", func(f *fixture) {
		got, err := f.Totals(f.Context(), time.Time{})
		f.must(err)
		equal(f, "totals", *got, store.Totals{Executions: map[string]int64{}, Since: map[string]int64{}})
	}},
}
