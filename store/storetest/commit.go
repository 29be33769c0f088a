package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

var commits = []promise{
	{"an execution reads back as it was created", func(f *fixture) {
		f.begin(1)
		want := execution(1)
		want.Version = 1
		equal(f, "execution", *f.execution(1), *want)
	}},
	{"an update changes status, times, outcome and progress", func(f *fixture) {
		f.begin(1)
		c := f.next(1, 2)
		c.Update = &store.Update{Status: stepwell.ExecutionFailed, Ended: at(9), Outputs: []byte(`{"o":[1]}`),
			Failure: &engine.Failure{Code: stepwell.CodeTimeout, Message: "late", Hint: "hurry", Step: "b"}, Progress: engine.Progress{Total: 3, Failed: 1, Percent: 33.5}}
		f.commit(c)
		x := f.execution(1)
		want := execution(1)
		want.Version, want.Status, want.Ended, want.Outputs, want.Progress = 2, stepwell.ExecutionFailed, time.UnixMicro(at(9)).UTC(), c.Update.Outputs, c.Update.Progress
		equal(f, "failure", *x.Failure, *c.Update.Failure)
		x.Failure = nil
		equal(f, "execution", *x, *want)
	}},
	{"an update without a start keeps it, one without an end clears it", func(f *fixture) {
		f.begin(1)
		c := f.next(1, 2)
		c.Update = &store.Update{Status: stepwell.ExecutionCompleted, Ended: at(9)}
		f.commit(c)
		c = f.next(1, 3)
		c.Update = &store.Update{Status: stepwell.ExecutionRunning}
		f.commit(c)
		x := f.execution(1)
		if !x.Started.Equal(time.UnixMicro(at(1))) || !x.Ended.IsZero() || x.Status != stepwell.ExecutionRunning {
			f.Errorf("after the restart: %+v", x)
		}
		c = f.next(1, 4)
		c.Update = &store.Update{Status: stepwell.ExecutionRunning, Started: at(5)}
		f.commit(c)
		equal(f, "start", f.execution(1).Started, time.UnixMicro(at(5)).UTC())
	}},
	{"a commit without an update leaves the execution's row alone", func(f *fixture) {
		f.begin(1)
		f.commit(f.next(1, 2, done(0, 1, "{}")))
		want := execution(1)
		want.Version = 2
		equal(f, "execution", *f.execution(1), *want)
	}},
	{"many executions are stored together", func(f *fixture) {
		f.begin(1, 2, 3)
		f.commit(f.next(2, 2, done(0, 1, "{}")), f.next(3, 2), f.next(2, 3))
		for no, version := range map[int64]int64{1: 1, 2: 3, 3: 2} {
			equal(f, "version", f.execution(no).Version, version)
		}
	}},
	{"a version that exists is a conflict, and nothing of the call is stored", func(f *fixture) {
		f.begin(1, 2)
		f.commit(f.next(1, 2))
		err := f.Commit(f.Context(), []store.Commit{f.next(2, 2, done(0, 1, `{"lost":true}`)), f.next(1, 2, done(0, 1, "{}")), f.first(3)})
		f.wantRefused(err, store.VersionTaken, 1)
		equal(f, "version of 2", f.execution(2).Version, int64(1))
		equal(f, "status of its step", f.steps(2, store.StepFilter{})[0].Status, stepwell.StepQueued)
		_, err = f.Execution(f.Context(), id(3))
		f.wantCode(err, stepwell.CodeNotFound)
		f.commit(f.next(2, 2), f.next(1, 3)) // and the store goes on
	}},
	{"a conflict names every execution concerned, once", func(f *fixture) {
		f.begin(1, 2, 3)
		f.commit(f.next(1, 2), f.next(3, 2))
		f.wantRefused(f.Commit(f.Context(), []store.Commit{f.next(1, 2), f.next(2, 2), f.next(3, 1+1), f.next(1, 3)}), store.VersionTaken, 1, 3)
	}},
	{"creating a number that exists is a conflict", func(f *fixture) {
		f.begin(1)
		f.wantRefused(f.Commit(f.Context(), []store.Commit{f.first(1)}), store.VersionTaken, 1)
	}},
	{"creating an id that exists is refused", func(f *fixture) {
		f.begin(1)
		c := f.first(2)
		c.Create.ID = id(1)
		f.wantRefused(f.Commit(f.Context(), []store.Commit{f.next(1, 2), c}), store.IDTaken, 2)
		equal(f, "version", f.execution(1).Version, int64(1))
		equal(f, "entries", len(all(f, f.StepLog(f.Context(), 2, 0))), 0)
	}},
	{"creating the id of an execution that has ended is refused, and so is its number", func(f *fixture) {
		f.begin(1)
		end := f.next(1, 2)
		end.Update = &store.Update{Status: stepwell.ExecutionCompleted, Ended: at(9)}
		f.commit(end)
		c := f.first(2)
		c.Create.ID = id(1)
		f.wantRefused(f.Commit(f.Context(), []store.Commit{c}), store.IDTaken, 2)
		f.wantRefused(f.Commit(f.Context(), []store.Commit{f.first(1)}), store.VersionTaken, 1)
	}},
	{"of several updates in one call the last counts, with the last start", func(f *fixture) {
		f.begin(1)
		one, two, three := f.next(1, 2), f.next(1, 3), f.next(1, 4)
		one.Update = &store.Update{Status: stepwell.ExecutionPaused, Started: at(5)}
		two.Update = &store.Update{Status: stepwell.ExecutionCompleted, Ended: at(6), Outputs: []byte(`{"o":1}`)}
		three.Update = &store.Update{Status: stepwell.ExecutionRunning, Progress: engine.Progress{Total: 3}}
		f.commit(one, two, three)
		want := execution(1)
		want.Version, want.Started, want.Progress = 4, time.UnixMicro(at(5)).UTC(), engine.Progress{Total: 3}
		equal(f, "execution", *f.execution(1), *want)
		end := f.next(1, 5)
		end.Update = &store.Update{Status: stepwell.ExecutionCompleted, Ended: at(7)}
		f.commit(end)
		again := f.next(1, 6)
		again.Update = &store.Update{Status: stepwell.ExecutionFailed, Ended: at(8)}
		f.commit(again) // one that has ended already
		equal(f, "status and end", []any{f.execution(1).Status, f.execution(1).Ended}, []any{stepwell.ExecutionFailed, time.UnixMicro(at(8)).UTC()})
	}},
	{"an execution may begin and end in one call", func(f *fixture) {
		c, end := f.first(1), f.next(1, 2, done(0, 1, "{}"))
		c.Create.Key = "k"
		end.Update = &store.Update{Status: stepwell.ExecutionCompleted, Ended: at(9), Outputs: []byte(`{"o":1}`)}
		f.commit(c, end)
		x := f.execution(1)
		equal(f, "execution", []any{x.Status, x.Version, string(x.Outputs), x.Ended}, []any{stepwell.ExecutionCompleted, 2, `{"o":1}`, time.UnixMicro(at(9)).UTC()})
		equal(f, "claimed", len(f.claim(f, 1, 9)), 0)
		f.commit(f.next(1, 3))
	}},
	{"a step waits and continues, and waits again, within one call", func(f *fixture) {
		f.begin(1)
		f.commit(f.wait(1, 2, 0, "a"), f.next(1, 3, done(0, 1, "{}")), f.wait(1, 4, 0, "b"))
		list, err := f.Awaiting(f.Context(), []string{"a", "b"})
		f.must(err)
		equal(f, "waiters", []any{len(list), list[0].Key}, []any{1, "b"})
	}},
	{"a gap in the versions is refused", func(f *fixture) {
		f.begin(1)
		f.wantRefused(f.Commit(f.Context(), []store.Commit{f.next(1, 3)}), store.VersionGap, 1)
		f.wantRefused(f.Commit(f.Context(), []store.Commit{f.next(7, 2)}), store.VersionGap, 7)
		equal(f, "version", f.execution(1).Version, int64(1))
	}},
	{"a gap is refused after whatever came before", func(f *fixture) {
		f.begin(1, 2)
		f.wantRefused(f.Commit(f.Context(), []store.Commit{f.next(1, 2), f.first(2)}), store.VersionTaken, 2)
		f.wantRefused(f.Commit(f.Context(), []store.Commit{f.next(1, 3)}), store.VersionGap, 1) // the 2 was undone with the rest
		f.wantRefused(f.Commit(f.Context(), []store.Commit{f.next(1, 2), f.next(1, 3), f.next(1, 5)}), store.VersionGap, 1)
		f.commit(f.next(1, 2), f.next(1, 3))
		end := f.next(1, 4)
		end.Update = &store.Update{Status: stepwell.ExecutionCompleted}
		f.commit(end)
		f.wantRefused(f.Commit(f.Context(), []store.Commit{f.next(1, 6)}), store.VersionGap, 1)
		f.commit(f.next(1, 5)) // restarted
		equal(f, "versions", len(all(f, f.StepLog(f.Context(), 1, 0))), 5)
		f.wantRefused(f.Commit(f.Context(), []store.Commit{f.next(2, 2), f.next(1, 7)}), store.VersionGap, 1)
		f.commit(f.next(2, 2))
	}},
	{"refusals name each commit that cannot be made and why, and without them the same call succeeds", func(f *fixture) {
		f.begin(1, 2, 3)
		keyed := f.first(4)
		keyed.Create.Key = "k"
		f.commit(f.next(1, 2), keyed)
		call := []store.Commit{f.next(1, 2), f.next(3, 2), f.first(5), f.next(2, 3), f.first(6), f.first(7), f.next(3, 3), f.first(8), f.next(1, 3)}
		call[2].Create.ID = id(1)
		call[4].Create.Key, call[5].Create.Key = "k", "new"
		call[7].Create.Key = "new"
		err := f.Commit(f.Context(), call)
		refused, ok := errors.AsType[*store.RefusedError](err)
		if !ok {
			f.Fatalf("error %v", err)
		}
		why := map[int64]store.Why{}
		for _, r := range refused.Refusals {
			why[r.Execution] = r.Why
		}
		equal(f, "refusals", why, map[int64]store.Why{1: store.VersionTaken, 2: store.VersionGap, 5: store.IDTaken, 6: store.KeyTaken, 8: store.KeyTaken})
		f.commit(slices.DeleteFunc(call, func(c store.Commit) bool { return why[c.Execution] != 0 })...)
		equal(f, "versions", []int64{f.execution(1).Version, f.execution(2).Version, f.execution(3).Version, f.execution(7).Version}, []int64{2, 1, 3, 1})
	}},
	{"only version 1 creates", func(f *fixture) {
		f.begin(1)
		c := f.next(1, 2)
		c.Create = execution(1)
		f.wantCode(f.Commit(f.Context(), []store.Commit{c}), stepwell.CodeInternal)
		c = f.first(2)
		c.Create = nil
		f.wantCode(f.Commit(f.Context(), []store.Commit{c}), stepwell.CodeInternal)
	}},
	{"of racing writers of one version exactly one wins", func(f *fixture) {
		f.begin(1)
		other := f.again()
		for version := int64(2); version < 12; version++ {
			results := make(chan error)
			for _, s := range []Store{f.Store, other, f.Store, other} {
				go func() { results <- s.Commit(f.Context(), []store.Commit{f.next(1, version)}) }()
			}
			won := 0
			for range 4 {
				if err := <-results; err == nil {
					won++
				} else {
					f.wantRefused(err, store.VersionTaken, 1)
				}
			}
			equal(f, fmt.Sprintf("winners of version %d", version), won, 1)
		}
	}},
	{"no commits are no work", func(f *fixture) { f.must(f.Commit(f.Context(), nil)) }},
	{"a cancelled context stores nothing", func(f *fixture) {
		f.begin(1)
		ctx, cancel := context.WithCancel(f.Context())
		cancel()
		if err := f.Commit(ctx, []store.Commit{f.next(1, 2)}); !errors.Is(err, context.Canceled) {
			f.Errorf("error: %v", err)
		}
		equal(f, "version", f.execution(1).Version, int64(1))
	}},
	{"the caller may reuse what it committed", func(f *fixture) {
		f.begin(1)
		c := f.next(1, 2, done(0, 1, `{"v":1}`))
		f.commit(c)
		copy(c.Steps[0].Output, `{"v":2}`)
		clear(c.Log)
		equal(f, "output", string(f.steps(1, store.StepFilter{})[0].Output), `{"v":1}`)
	}},
	{"what was committed is there after closing and opening again", func(f *fixture) {
		f.begin(1)
		f.commit(f.next(1, 2, done(0, 1, `{"v":1}`)))
		f.must(f.Close())
		f.Store = f.again()
		equal(f, "version", f.execution(1).Version, int64(2))
		equal(f, "output", string(f.steps(1, store.StepFilter{})[0].Output), `{"v":1}`)
		f.commit(f.next(1, 3))
	}},
	{"readers see whole commits while the writer works", func(f *fixture) {
		f.begin(1)
		const versions, perCommit = 60, 7
		var readers sync.WaitGroup
		stop := make(chan struct{})
		problems := make(chan string, 8)
		for range 3 {
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					list, err := f.Steps(f.Context(), 1, store.StepFilter{Statuses: []stepwell.StepStatus{stepwell.StepCompleted}})
					if err != nil || len(list)%perCommit != 0 {
						problems <- fmt.Sprintf("%d steps of commits of %d, error %v", len(list), perCommit, err)
						return
					}
				}
			})
		}
		for v := int64(2); v < versions; v++ {
			rows := make([]engine.StepRow, perCommit)
			for i := range rows {
				n := int32(v)*perCommit + int32(i)
				rows[i] = done(n, n, "{}")
				rows[i].Key = fmt.Sprintf("s:%d", n)
			}
			f.commit(f.next(1, v, rows...))
		}
		close(stop)
		readers.Wait()
		select {
		case p := <-problems:
			f.Error(p)
		default:
		}
	}},
}
