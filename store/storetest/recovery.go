package storetest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

func (f *fixture) numbers(s Store, n int) int64 {
	f.Helper()
	first, err := s.Numbers(f.Context(), n)
	f.must(err)
	return first
}

func (f *fixture) claim(s Store, owner int64, limit int) (numbers []int64) {
	f.Helper()
	list, err := s.Claim(f.Context(), owner, limit)
	if err != nil {
		f.Error(err)
	}
	for _, x := range list {
		numbers = append(numbers, x.No)
	}
	return numbers
}

var recovery = []promise{
	{"numbers come in blocks above all that were handed out or used", func(f *fixture) {
		equal(f, "of an empty store", f.numbers(f, 1), int64(1))
		equal(f, "after 1", f.numbers(f, 10), int64(2))
		f.begin(3, 70)
		equal(f, "above what exists", f.numbers(f, 5) > 70, true)
		last := f.numbers(f, 1)
		f.must(f.Close())
		f.Store = f.again()
		equal(f, "after opening again", f.numbers(f, 1) > last, true)
	}},
	{"of many who take numbers at once no two get the same", func(f *fixture) {
		other := f.again()
		var taking sync.WaitGroup
		var mu sync.Mutex
		seen := map[int64]bool{}
		for i := range 8 {
			taking.Go(func() {
				last := int64(0)
				for range 20 {
					first, err := []Store{f.Store, other}[i%2].Numbers(f.Context(), 3)
					mu.Lock()
					for n := first; n < first+3; n++ {
						if err != nil || seen[n] || n <= last {
							f.Errorf("number %d after %d, there already: %v, error %v", n, last, seen[n], err)
						}
						seen[n], last = true, n
					}
					mu.Unlock()
				}
			})
		}
		taking.Wait()
	}},
	{"a claim gives what has not ended and nobody owns, by priority and age, and each to one", func(f *fixture) {
		f.must(f.PutDefinition(f.Context(), []byte("hash"), []byte(three)))
		for no := int64(1); no <= 8; no++ {
			c := f.first(no)
			c.Create.Priority = map[int64]int{6: 5, 2: -5}[no]
			if no == 7 {
				c.Create.Owner = 30
			}
			f.commit(c)
		}
		for no, status := range map[int64]stepwell.ExecutionStatus{1: stepwell.ExecutionCompleted, 2: stepwell.ExecutionPaused, 3: stepwell.ExecutionFailed, 4: stepwell.ExecutionCancelling} {
			c := f.next(no, 2)
			c.Update = &store.Update{Status: status}
			f.commit(c)
		}
		other := f.again()
		equal(f, "first of 10", f.claim(f, 10, 2), []int64{6, 4})
		equal(f, "first of 20", f.claim(other, 20, 1), []int64{5})
		equal(f, "others", f.claim(f, 10, 9), []int64{8, 2})
		equal(f, "none left", len(f.claim(other, 20, 9)), 0)
		c := f.next(3, 3)
		c.Update = &store.Update{Status: stepwell.ExecutionRunning}
		f.commit(c)
		list, err := other.Claim(f.Context(), 20, 9)
		f.must(err)
		want := execution(3)
		want.Version, want.Owner, want.Ended = 3, 20, list[0].Ended
		want.Progress = engine.Progress{}
		equal(f, "the restarted one", list, []store.Execution{*want})
	}},
	{"of many who claim at once no two get the same", func(f *fixture) {
		var numbers []int64
		for no := int64(1); no <= 60; no++ {
			numbers = append(numbers, no)
		}
		f.begin(numbers...)
		other := f.again()
		got := make(chan []int64)
		for i := range int64(4) {
			go func() {
				var mine []int64
				for {
					list := f.claim([]Store{f.Store, other}[i%2], i+1, 4)
					if len(list) == 0 {
						got <- mine
						return
					}
					mine = append(mine, list...)
				}
			}()
		}
		var all []int64
		for range 4 {
			all = append(all, <-got...)
		}
		slices.Sort(all)
		equal(f, "claimed", all, numbers)
	}},
	{"logs of many come one after the other", func(f *fixture) {
		f.begin(1, 2, 3)
		f.commit(f.next(1, 2), f.next(3, 2), f.next(1, 3))
		var got []string
		for _, e := range all(f, f.StepLogs(f.Context(), []int64{3, 9, 1})) {
			got = append(got, fmt.Sprint(e.Execution, ".", e.Version, len(e.Body) > 0))
		}
		equal(f, "entries", got, []string{"3.1 true", "3.2 true", "1.1 true", "1.2 true", "1.3 true"})
		equal(f, "of none", len(all(f, f.StepLogs(f.Context(), nil))), 0)
	}},
	{"a definition reads back, and storing it again is free", func(f *fixture) {
		hash, body := []byte{0, 255, 7}, []byte(`{"name":"π","steps":[]}`)
		f.must(f.PutDefinition(f.Context(), hash, body))
		f.must(f.PutDefinition(f.Context(), hash, body))
		got, err := f.Definition(f.Context(), hash)
		f.must(err)
		equal(f, "definition", string(got), string(body))
		_, err = f.Definition(f.Context(), []byte("no"))
		f.wantCode(err, stepwell.CodeNotFound)
	}},
	{"the step log is in order and continues after a version", func(f *fixture) {
		f.begin(1, 2)
		for v := int64(2); v <= 1500; v++ {
			f.commit(store.Commit{Execution: 1, Version: v, Log: fmt.Appendf(nil, `{"t":%d,"e":[]}`, v)})
		}
		list := all(f, f.StepLog(f.Context(), 1, 2))
		equal(f, "entries", len(list), 1498)
		for i, e := range list {
			equal(f, "version", e.Version, int64(i+3))
			equal(f, "body", string(e.Body), fmt.Sprintf(`{"t":%d,"e":[]}`, i+3))
		}
		equal(f, "after the last", len(all(f, f.StepLog(f.Context(), 1, 1500))), 0)
		equal(f, "of another", len(all(f, f.StepLog(f.Context(), 2, 0))), 1)
		for e, err := range f.StepLog(f.Context(), 1, 0) { // stopping early is fine
			f.must(err)
			f.commit(f.next(2, e.Version+1)) // and so is writing meanwhile
			break
		}
	}},
	{"outputs come in the order in which steps ended", func(f *fixture) {
		f.begin(1)
		failed := engine.StepRow{Idx: 3, Seq: 2, Status: stepwell.StepFailed, Output: []byte(`"no"`), Key: "k"}
		f.commit(f.next(1, 2, done(2, 1, `{"n":1}`), failed, done(0, 4, `{"n":3}`)))
		f.commit(f.next(1, 3, done(1, 3, "@sha256:00:5")))
		var got []string
		for _, r := range all(f, f.Outputs(f.Context(), 1)) {
			got = append(got, fmt.Sprintf("%d:%d:%s", r.Seq, r.Idx, r.Output))
		}
		equal(f, "outputs", got, []string{`1:2:{"n":1}`, "3:1:@sha256:00:5", `4:0:{"n":3}`})
		for _, err := range f.Outputs(f.Context(), 1) {
			f.must(err)
			break
		}
		f.commit(f.next(1, 4))
	}},
	{"the output of one step is found by its key, at the top level and inside of others", func(f *fixture) {
		f.begin(1)
		inner := done(7, 2, `{"n":7}`)
		inner.Key = "loop[0].in"
		failed := done(2, 3, `{"n":2}`)
		failed.Status = stepwell.StepFailed
		f.commit(f.next(1, 2, done(1, 1, "@sha256:00:5"), inner, failed))
		for key, want := range map[string]string{"b": "@sha256:00:5", "loop[0].in": `{"n":7}`, "a": "", "c": "", "x": ""} {
			got, err := f.Output(f.Context(), 1, key)
			if want == "" {
				f.wantCode(err, stepwell.CodeNotFound)
			} else {
				f.must(err)
			}
			equal(f, "output of "+key, string(got), want)
		}
	}},
	{"a memo keeps its first value", func(f *fixture) {
		f.begin(1)
		for _, m := range []store.Memo{{Execution: 1, Step: 2, Key: "k", Value: []byte(`"first"`)}, {Execution: 1, Step: 2, Key: "k", Value: []byte(`"second"`)},
			{Execution: 1, Step: 3, Key: "k", Value: []byte(`3`)}, {Execution: 2, Step: 2, Key: "k", Value: []byte("null")}} {
			f.must(f.PutMemo(f.Context(), m))
		}
		for _, c := range []struct {
			execution int64
			step      int32
			key, want string
		}{{1, 2, "k", `"first"`}, {1, 3, "k", "3"}, {2, 2, "k", "null"}, {1, 2, "K", ""}, {3, 2, "k", ""}} {
			v, ok, err := f.Memo(f.Context(), c.execution, c.step, c.key)
			f.must(err)
			equal(f, fmt.Sprint(c), fmt.Sprint(string(v), ok), fmt.Sprint(c.want, c.want != ""))
		}
	}},
	{"a late attempt's memo does not reach a restarted step", func(f *fixture) {
		f.begin(1)
		put := func(step int32, epoch uint32, key string) error {
			return f.PutMemo(f.Context(), store.Memo{Execution: 1, Step: step, Epoch: epoch, Key: key, Value: []byte(key)})
		}
		f.must(put(1, 3, "a"))
		f.must(put(2, 3, "a"))
		c := f.next(1, 2)
		c.Forget = []engine.Forgotten{{Idx: 1, Epoch: 4}}
		f.commit(c)
		f.wantCode(put(1, 3, "a"), stepwell.CodeConflict)
		f.wantCode(put(1, 3, ""), stepwell.CodeConflict)
		for _, key := range []string{"a", ""} {
			_, ok, err := f.Memo(f.Context(), 1, 1, key)
			f.must(err)
			equal(f, "found "+key, ok, false)
		}
		f.must(put(1, 5, "a"))
		f.must(put(2, 3, "b"))
		c = f.next(1, 3)
		c.Forget = []engine.Forgotten{{Idx: 1, Epoch: 8}}
		f.commit(c)
		f.wantCode(put(1, 7, "a"), stepwell.CodeConflict)
		f.must(put(1, 8, "a"))
	}},
}

var requests = []promise{
	{"requests come oldest first, and once", func(f *fixture) {
		for i := range 5 {
			f.must(f.PutRequest(f.Context(), store.Request{Execution: id(int64(i)), Kind: "cancel", Body: fmt.Appendf(nil, `{"i":%d}`, i)}))
		}
		f.must(f.PutRequest(f.Context(), store.Request{Execution: id(5), Kind: "pause"}))
		var got []string
		for _, n := range []int{2, 3, 10, 10} {
			list, err := f.TakeRequests(f.Context(), 1, n)
			f.must(err)
			for _, r := range list {
				got = append(got, r.Execution[len(r.Execution)-1:]+r.Kind+string(r.Body))
			}
			got = append(got, "|")
		}
		equal(f, "requests", got, []string{`0cancel{"i":0}`, `1cancel{"i":1}`, "|", `2cancel{"i":2}`, `3cancel{"i":3}`, `4cancel{"i":4}`, "|", "5pause", "|", "|"})
	}},
	{"a request for an owner is taken by nobody else", func(f *fixture) {
		for i, owner := range []int64{7, 0, 8, 7} {
			f.must(f.PutRequest(f.Context(), store.Request{Execution: id(int64(i)), Kind: "cancel", Owner: owner}))
		}
		take := func(owner int64) (got []int64) {
			list, err := f.TakeRequests(f.Context(), owner, 10)
			f.must(err)
			for _, r := range list {
				got = append(got, r.Owner)
			}
			return got
		}
		equal(f, "of 7", take(7), []int64{7, 0, 7})
		equal(f, "of 9", len(take(9)), 0)
		equal(f, "of 8", take(8), []int64{8})
	}},
	{"of many takers each request has exactly one", func(f *fixture) {
		other := f.again()
		const n = 120
		results := make(chan []store.Request)
		failures := make(chan error, 6)
		for i, s := range []Store{f.Store, other} {
			go func() {
				for k := range n / 2 {
					if err := s.PutRequest(f.Context(), store.Request{Execution: fmt.Sprint(i, "-", k), Kind: "cancel"}); err != nil {
						failures <- err
					}
				}
				results <- nil
			}()
		}
		<-results
		<-results
		for _, s := range []Store{f.Store, other, f.Store, other} {
			go func() {
				var mine []store.Request
				for {
					list, err := s.TakeRequests(f.Context(), 1, 7)
					if err != nil {
						failures <- err
					}
					if len(list) == 0 {
						results <- mine
						return
					}
					mine = append(mine, list...)
				}
			}()
		}
		seen := map[string]int{}
		for range 4 {
			for _, r := range <-results {
				seen[r.Execution]++
			}
		}
		select {
		case err := <-failures:
			f.Fatal(err)
		default:
		}
		equal(f, "requests", len(seen), n)
		for r, times := range seen {
			equal(f, r, times, 1)
		}
	}},
}
