package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// owners are the promises to several processes that take each other's executions.
var owners = []promise{
	{"of two owners of the same executions one wins each version, in whatever order their calls name them", func(f *fixture) {
		const executions, versions = 6, 12
		var numbers []int64
		for no := int64(1); no <= executions; no++ {
			numbers = append(numbers, no)
		}
		f.begin(numbers...)
		stores := []Store{f.Store, f.again(), f.again()}
		var all sync.WaitGroup
		for i, s := range stores {
			all.Go(func() {
				order := slices.Clone(numbers)
				if i%2 == 1 {
					slices.Reverse(order)
				}
				for {
					// what there is now, one version further
					var call []store.Commit
					for _, no := range order {
						x, err := s.Execution(f.Context(), id(no))
						if err != nil {
							f.Error(err)
							return
						}
						if v := x.Version + 1; v <= versions {
							c := f.next(no, v, done(int32(v), int32(v), fmt.Sprintf(`{"by":%d}`, i)))
							c.Steps[0].Key = fmt.Sprint("s:", v)
							c.Outbox = []store.Outgoing{{Kind: "version", Execution: fmt.Sprintf("%d/%d", no, v), At: time.UnixMicro(at(v))}}
							call = append(call, c)
						}
					}
					if len(call) == 0 {
						return
					}
					if err := s.Commit(f.Context(), call); err != nil && stepwell.CodeOf(err) != stepwell.CodeConflict {
						f.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		out, err := f.Outbox(f.Context(), 0, 1000)
		f.must(err)
		seen := map[string]int{}
		for _, o := range out {
			seen[o.Execution]++
		}
		equal(f, "entries, and different ones", []int{len(out), len(seen)}, []int{executions * (versions - 1), executions * (versions - 1)})
		for _, no := range numbers {
			equal(f, "versions", len(entries(f, no)), versions)
			equal(f, "steps", len(f.steps(no, store.StepFilter{Statuses: []stepwell.StepStatus{stepwell.StepCompleted}})), versions-1)
		}
	}},
	{"a memo and the restart that forgets it meet in one of two ways: it is forgotten, or refused", func(f *fixture) {
		f.begin(1)
		other := f.again()
		for v := int64(2); v < 30; v++ {
			epoch := uint32(v)
			result := make(chan error)
			go func() {
				result <- other.PutMemo(f.Context(), store.Memo{Execution: 1, Step: 1, Epoch: epoch - 1, Key: fmt.Sprint("k", v), Value: []byte("1")})
			}()
			c := f.next(1, v)
			c.Forget = []engine.Forgotten{{Idx: 1, Epoch: epoch}}
			f.commit(c)
			if err := <-result; err != nil {
				f.wantCode(err, stepwell.CodeConflict)
			}
			_, there, err := f.Memo(f.Context(), 1, 1, fmt.Sprint("k", v))
			f.must(err)
			equal(f, "left over", there, false)
		}
	}},
	{"log lines of several writers of an execution are all there, each writer's in its order", func(f *fixture) {
		f.begin(1)
		const each = 40
		var all sync.WaitGroup
		for i, s := range []Store{f.Store, f.again(), f.again()} {
			all.Go(func() {
				for n := range each {
					one := line(int32(i), "info", fmt.Sprint(n), 1)
					if err := s.AppendLogs(f.Context(), []store.LogLine{one, one}); err != nil {
						f.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		list, err := f.Logs(f.Context(), 1, store.LogFilter{})
		f.must(err)
		equal(f, "lines", len(list), 3*2*each)
		next := map[int32]int{}
		for i, l := range list {
			if i > 0 && l.Seq <= list[i-1].Seq {
				f.Fatalf("line %d follows line %d", l.Seq, list[i-1].Seq)
			}
			equal(f, "message", l.Message, fmt.Sprint(next[l.Step]/2))
			next[l.Step]++
		}
	}},
	{"a follower of log lines misses none while several write", func(f *fixture) {
		f.begin(1)
		const each = 60
		var all sync.WaitGroup
		for i, s := range []Store{f.Store, f.again()} {
			all.Go(func() {
				for range each {
					if err := s.AppendLogs(f.Context(), []store.LogLine{line(int32(i), "info", "x", 1)}); err != nil {
						f.Error(err)
						return
					}
				}
			})
		}
		writing := make(chan struct{})
		go func() {
			all.Wait()
			close(writing)
		}()
		for after, seen, over := int64(0), 0, false; ; {
			select {
			case <-writing:
				over = true // what a page lacks now is missed for good
			default:
			}
			page, err := f.Logs(f.Context(), 1, store.LogFilter{After: after, Limit: 7})
			f.must(err)
			for _, l := range page {
				after = l.Seq
			}
			if seen += len(page); over && len(page) == 0 {
				equal(f, "lines", seen, 2*each)
				return
			}
		}
	}},
}

// entries is an execution's log.
func entries(f *fixture, no int64) []store.LogEntry { return all(f, f.StepLog(f.Context(), no, 0)) }
