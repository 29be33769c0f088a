package storetest

import (
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

func outsideWork(execution int64, step int32) store.OutsideWork {
	return store.OutsideWork{Execution: execution, Step: step, Epoch: 3, Attempt: 2, StepKey: "render", Action: "internal.video.render", State: []byte(`{"workflow_id":"w"}`),
		Since: time.UnixMicro(at(1)).UTC(), Next: time.UnixMicro(at(2)).UTC()}
}

var outside = []promise{
	{"work that a commit gives up is there with it, until it is deleted", func(f *fixture) {
		f.begin(1, 2)
		one, two := f.next(1, 2), f.next(2, 2)
		one.Outside = []store.OutsideWork{outsideWork(1, 4), outsideWork(1, 7)}
		two.Outside = []store.OutsideWork{outsideWork(2, 1)}
		f.commit(one, two)
		all, err := f.OutsideWork(f.Context(), 0, store.OutsideWork{}, 2)
		f.must(err)
		want := outsideWork(1, 4)
		want.ExecutionID = id(1)
		equal(f, "first", all[0], want)
		rest, err := f.OutsideWork(f.Context(), 0, all[1], 2)
		f.must(err)
		equal(f, "pages", []any{len(all), all[1].Step, len(rest), rest[0].Execution}, []any{2, int32(7), 1, int64(2)})
		f.must(f.DeleteOutsideWork(f.Context(), 1, 4, 3))
		f.must(f.DeleteOutsideWork(f.Context(), 1, 4, 3))
		left, err := f.OutsideWork(f.Context(), 1, store.OutsideWork{}, 0)
		f.must(err)
		equal(f, "left of one execution", []any{len(left), left[0].Step}, []any{1, int32(7)})
	}},
	{"a commit that is refused gives nothing up", func(f *fixture) {
		f.begin(1, 2)
		good, bad := f.next(1, 2), f.next(2, 1)
		good.Outside, bad.Create = []store.OutsideWork{outsideWork(1, 4)}, execution(2)
		if err := f.Commit(f.Context(), []store.Commit{good, bad}); err == nil {
			f.Error("both were stored")
		}
		all, err := f.OutsideWork(f.Context(), 0, store.OutsideWork{}, 0)
		f.must(err)
		equal(f, "rows", len(all), 0)
	}},
	{"a row is replaced, and read with how its step has ended", func(f *fixture) {
		f.begin(1)
		w := outsideWork(1, 4)
		w.Held, w.Next = true, time.Time{}
		f.must(f.PutOutsideWork(f.Context(), w))
		w.Held, w.Tries, w.Error, w.Next = false, 2, "refused", time.UnixMicro(at(9)).UTC()
		f.must(f.PutOutsideWork(f.Context(), w))
		read := func() store.OutsideWork {
			all, err := f.again().OutsideWork(f.Context(), 0, store.OutsideWork{}, 0)
			f.must(err)
			equal(f, "rows", len(all), 1)
			return all[0]
		}
		w.ExecutionID = id(1)
		equal(f, "row", read(), w)
		c := f.next(1, 2)
		c.Steps = []engine.StepRow{{Idx: 4, Status: stepwell.StepCompleted, Attempt: 1, Ended: at(3)}}
		f.commit(c)
		w.Ended, w.Completed = true, true
		equal(f, "row of a step that has completed", read(), w)
	}},
	{"retention leaves executions whose work is still to be stopped", func(f *fixture) {
		f.begin(1)
		c := f.next(1, 2)
		c.Update = &store.Update{Status: stepwell.ExecutionCancelled, Ended: at(2)}
		c.Outside = []store.OutsideWork{outsideWork(1, 4)}
		f.commit(c)
		prune := func() int64 {
			removed, _, err := f.Prune(f.Context(), store.Retention{Executions: time.UnixMicro(at(100))})
			f.must(err)
			return removed.Executions
		}
		equal(f, "removed while there is work", prune(), int64(0))
		f.must(f.DeleteOutsideWork(f.Context(), 1, 4, 3))
		equal(f, "removed after that", prune(), int64(1))
	}},
}
