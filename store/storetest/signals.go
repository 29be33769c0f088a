package storetest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

func (f *fixture) signal(key, id string, ms int64) bool {
	f.Helper()
	fresh, err := f.PutSignal(f.Context(), store.Signal{Key: key, ID: id, Body: []byte(`{"by":"` + id + `"}`), At: time.UnixMicro(at(ms)).UTC()})
	f.must(err)
	return fresh
}

// pending are the oldest signals of keys that no commit has taken, as "key id".
func (f *fixture) pending(keys ...string) (out []string) {
	f.Helper()
	list, err := f.SignalsFor(f.Context(), keys)
	f.must(err)
	for _, s := range list {
		out = append(out, s.Key+" "+s.ID)
	}
	slices.Sort(out)
	return out
}

func (f *fixture) kept() int64 {
	f.Helper()
	n, err := f.Kept(f.Context())
	f.must(err)
	return n
}

// wait makes a step wait for a key, by the next version of its execution.
func (f *fixture) wait(no, version int64, idx int32, key string) store.Commit {
	return f.next(no, version, engine.StepRow{Idx: idx, Status: stepwell.StepWaiting, Attempt: 1, External: key})
}

var signals = []promise{
	{"a signal is kept once and reads back", func(f *fixture) {
		equal(f, "fresh", []bool{f.signal("event:π", "1", 5), f.signal("event:π", "1", 6), f.signal("event:π", "2", 7), f.signal("other", "1", 8)}, []bool{true, false, true, true})
		list, err := f.SignalsFor(f.Context(), []string{"event:π", "nobody's"})
		f.must(err)
		equal(f, "signal", list, []store.Signal{{Key: "event:π", ID: "1", Body: []byte(`{"by":"1"}`), At: time.UnixMicro(at(5)).UTC()}})
	}},
	{"of each key the oldest pending signal is given, by time and id", func(f *fixture) {
		for _, id := range []string{"3", "1", "2"} {
			f.signal("b", id, 5)
			f.signal("a", id, 7)
		}
		f.signal("a", "9", 6)
		f.signal("z", "1", 1)
		equal(f, "pending", f.pending("b", "a", "'quoted\"", ""), []string{"a 9", "b 1"})
		equal(f, "of none", len(f.pending()), 0)
	}},
	{"what is kept is counted until a commit takes it", func(f *fixture) {
		f.begin(1)
		equal(f, "at first", f.kept(), int64(0))
		f.signal("a", "1", 1)
		one := f.kept()
		f.signal("b", "1", 1)
		f.signal("b", "2", 1)
		equal(f, "three of one size", f.kept(), 3*one)
		c := f.next(1, 2)
		c.Taken = []string{"b"}
		f.commit(c)
		equal(f, "one left", f.kept(), one)
	}},
	{"who waits for a key is found, wherever the execution runs, until the step continues", func(f *fixture) {
		f.must(f.PutDefinition(f.Context(), []byte("hash"), []byte(three)))
		for no := int64(1); no <= 4; no++ {
			c := f.first(no)
			c.Create.Owner = 10 * no
			f.commit(c)
		}
		f.commit(f.wait(1, 2, 0, "k"), f.wait(2, 2, 1, "k"), f.wait(3, 2, 0, "other"), f.wait(4, 2, 0, "k"))
		waiters := func(keys ...string) (out []string) {
			list, err := f.again().Awaiting(f.Context(), keys)
			f.must(err)
			for _, w := range list {
				equal(f, "seen at no time", w.Seen.IsZero(), false)
				out = append(out, fmt.Sprint(w.Key, " ", w.Execution == id(w.Owner/10), " ", w.Owner, " ", w.Step))
			}
			return out
		}
		equal(f, "waiters", waiters("k", "nobody's"), []string{"k true 10 0", "k true 20 1", "k true 40 0"})
		end := f.next(4, 3)
		end.Update = &store.Update{Status: stepwell.ExecutionCancelled}
		f.commit(f.next(1, 3, done(0, 1, "{}")), end)
		equal(f, "waiters", waiters("k", "other"), []string{"k true 20 1", "other true 30 0"})
	}},
	{"a signal and a step that begins to wait find each other, whichever is first", func(f *fixture) {
		f.begin(1)
		other := f.again()
		for v := int64(2); v < 22; v++ {
			key := fmt.Sprint("k", v)
			found := make(chan bool, 2)
			go func() { // who sends: store, then look who waits
				_, err := f.PutSignal(f.Context(), store.Signal{Key: key, ID: "1", At: time.UnixMicro(at(v))})
				list, err2 := f.Awaiting(f.Context(), []string{key})
				found <- err == nil && err2 == nil && len(list) > 0
			}()
			go func() { // who waits: commit, then look for signals
				err := other.Commit(f.Context(), []store.Commit{f.wait(1, v, 0, key)})
				list, err2 := other.SignalsFor(f.Context(), []string{key})
				found <- err == nil && err2 == nil && len(list) > 0
			}()
			if a, b := <-found, <-found; !a && !b {
				f.Fatalf("neither has seen the other, round %d", v)
			}
		}
	}},
	{"what a commit takes is no longer pending, and still known", func(f *fixture) {
		f.begin(1)
		f.signal("a", "1", 1)
		f.signal("a", "2", 2)
		f.signal("b", "1", 3)
		c := f.next(1, 2)
		c.Taken = []string{"a", "nobody's"}
		f.commit(c)
		equal(f, "pending", f.pending("a", "b"), []string{"b 1"})
		equal(f, "a repetition", f.signal("a", "1", 9), false)
		equal(f, "a new one", f.signal("a", "3", 9), true)
		equal(f, "pending", f.pending("a", "b"), []string{"a 3", "b 1"})
	}},
	{"of what is kept first no step takes any, and a repetition is told the first", func(f *fixture) {
		for _, body := range []string{`1`, `2`} {
			first, err := f.KeepFirst(f.Context(), store.Signal{Key: "k", ID: "1", Body: []byte(body), At: time.UnixMicro(at(1))})
			f.must(err)
			equal(f, "first", string(first), "1")
		}
		equal(f, "pending", len(f.pending("k")), 0)
		f.prune(store.Retention{Keys: sec(3)})
		first, err := f.KeepFirst(f.Context(), store.Signal{Key: "k", ID: "1", Body: []byte(`3`), At: time.UnixMicro(at(9))})
		f.must(err)
		equal(f, "after its time", string(first), "3")
	}},
	{"a commit that is refused takes nothing", func(f *fixture) {
		f.begin(1)
		f.signal("a", "1", 1)
		c := f.next(1, 1)
		c.Taken, c.Create = []string{"a"}, execution(1)
		f.wantRefused(f.Commit(f.Context(), []store.Commit{c}), store.VersionTaken, 1)
		equal(f, "pending", f.pending("a", "b"), []string{"a 1"})
	}},
	{"of many who bring one signal exactly one brings it first", func(f *fixture) {
		other := f.again()
		var fresh atomic.Int32
		var all sync.WaitGroup
		for i := range 8 {
			s := []Store{f.Store, other}[i%2]
			all.Go(func() {
				if ok, err := s.PutSignal(f.Context(), store.Signal{Key: "k", ID: "1", At: time.UnixMicro(at(1))}); err != nil {
					f.Error(err)
				} else if ok {
					fresh.Add(1)
				}
			})
		}
		all.Wait()
		equal(f, "fresh", fresh.Load(), 1)
	}},
}

var outbox = []promise{
	{"what commits put out comes in their order, until it is delivered", func(f *fixture) {
		f.begin(1, 2)
		for v := int64(2); v < 6; v++ {
			one, two := f.next(1, v), f.next(2, v)
			one.Outbox = []store.Outgoing{{Kind: "execution.ended", Execution: id(1), Body: fmt.Appendf(nil, `{"v":%d}`, v), At: time.UnixMicro(at(v)).UTC()}}
			two.Outbox = []store.Outgoing{{Kind: "a", Execution: id(2)}, {Kind: "b", Execution: id(2)}}
			f.commit(one, two)
		}
		var got []store.Outgoing
		for after := int64(0); ; {
			page, err := f.Outbox(f.Context(), after, 5)
			f.must(err)
			if len(page) == 0 {
				break
			}
			for _, o := range page {
				if o.No <= after {
					f.Fatalf("%d comes after %d", o.No, after)
				}
				after = o.No
			}
			got = append(got, page...)
		}
		equal(f, "entries", len(got), 12)
		equal(f, "kinds", []string{got[0].Kind, got[1].Kind, got[2].Kind, got[3].Kind}, []string{"execution.ended", "a", "b", "execution.ended"})
		equal(f, "entry", got[3], store.Outgoing{No: got[3].No, Kind: "execution.ended", Execution: id(1), Body: []byte(`{"v":3}`), At: time.UnixMicro(at(3)).UTC()})
		f.must(f.Delivered(f.Context(), []int64{got[0].No, got[2].No, got[2].No, 999}))
		f.must(f.Delivered(f.Context(), nil))
		left, err := f.Outbox(f.Context(), 0, 2)
		f.must(err)
		equal(f, "left", []int64{left[0].No, left[1].No}, []int64{got[1].No, got[3].No})
	}},
	{"numbers are not given again", func(f *fixture) {
		f.begin(1)
		for v := int64(2); v < 4; v++ {
			c := f.next(1, v)
			c.Outbox = []store.Outgoing{{Kind: "k"}}
			f.commit(c)
			list, err := f.Outbox(f.Context(), v-2, 9)
			f.must(err)
			equal(f, "number", []any{len(list), list[0].No}, []any{1, v - 1})
			f.must(f.Delivered(f.Context(), []int64{list[0].No}))
		}
	}},
	{"a commit that is refused puts nothing out", func(f *fixture) {
		f.begin(1, 2)
		good, bad := f.next(1, 2), f.next(2, 1)
		good.Outbox, bad.Create = []store.Outgoing{{Kind: "k"}}, execution(2)
		if err := f.Commit(f.Context(), []store.Commit{good, bad}); err == nil {
			f.Error("both were stored")
		}
		list, err := f.Outbox(f.Context(), 0, 9)
		f.must(err)
		equal(f, "entries", len(list), 0)
	}},
}

var audits = []promise{
	{"entries read back newest first, in pages, by what they are about", func(f *fixture) {
		var list []store.AuditEntry
		for i := range int64(20) {
			list = append(list, store.AuditEntry{At: time.UnixMicro(at(i)).UTC(), Actor: fmt.Sprint("a", i%2), Role: "editor", Remote: "10.0.0.1", Action: fmt.Sprint("x", i%4),
				Object: fmt.Sprint("o", i%5), Result: "ok", Detail: []byte(`{"i":1}`)})
		}
		list = append(list, store.AuditEntry{At: time.UnixMicro(at(20)).UTC(), Actor: "a0", Action: "bare", Result: "forbidden"})
		f.must(f.AppendAudit(f.Context(), list[:3]))
		f.must(f.AppendAudit(f.Context(), list[3:]))
		f.must(f.AppendAudit(f.Context(), nil))
		var got []store.AuditEntry
		for before := int64(0); ; {
			page, err := f.AuditEntries(f.Context(), store.AuditFilter{Before: before, Limit: 6})
			f.must(err)
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			before = page[len(page)-1].No
		}
		equal(f, "entries", len(got), 21)
		for i, e := range got {
			want := list[20-i]
			want.No = e.No
			equal(f, "entry", e, want)
		}
		for filter, want := range map[*store.AuditFilter]int{{Actor: "a1"}: 10, {Action: "x3"}: 5, {Object: "o4"}: 4, {Since: time.UnixMicro(at(18))}: 3,
			{Actor: "a0", Object: "o0", Action: "x0"}: 1, {Actor: "nobody"}: 0, {Object: "o1", Limit: 2}: 2} {
			page, err := f.AuditEntries(f.Context(), *filter)
			f.must(err)
			equal(f, fmt.Sprintf("%+v", *filter), len(page), want)
		}
	}},
}

var origins = []promise{
	{"where an execution comes from is kept, but its start key", func(f *fixture) {
		f.must(f.PutDefinition(f.Context(), []byte("hash"), []byte(three)))
		c := f.first(1)
		c.Create.Origin = store.Origin{Workflow: "wf", WorkflowVersion: 3, Job: "job", Actor: "kim", Key: "k", KeyHash: []byte{0, 1}, Concurrency: "tenant-1", Priority: -4, Project: "p", Lesson: "l", Partition: "s2/2026-08"}
		f.commit(c)
		want := c.Create.Origin
		want.Key, want.KeyHash = "", nil
		equal(f, "origin", f.execution(1).Origin, want)
		list, err := f.Executions(f.Context(), store.Filter{})
		f.must(err)
		equal(f, "origin in a list", list[0].Origin, want)
		list, err = f.Claim(f.Context(), 1, 9)
		f.must(err)
		equal(f, "origin of what is claimed", list[0].Origin, want)
	}},
	{"executions are filtered by origin, trigger, parent and time", func(f *fixture) {
		f.must(f.PutDefinition(f.Context(), []byte("hash"), []byte(three)))
		for no := int64(1); no <= 8; no++ {
			c := f.first(no)
			c.Create.Created = time.UnixMicro(at(no)).UTC()
			c.Create.Workflow, c.Create.Job = fmt.Sprint("wf", no%2), fmt.Sprint("job", no%4)
			c.Create.WorkflowVersion = int(no%4) + 1
			if no%3 == 0 {
				c.Create.Project = "p"
			}
			if no > 4 {
				c.Create.Lesson = fmt.Sprint("l", no%2)
			}
			if no > 6 {
				c.Create.Trigger, c.Create.Parent, c.Create.Partition = "retry", id(1), "s2/2026-08"
			}
			c.Create.Progress.Footprints = no == 2 || no == 5 || no == 8
			f.commit(c)
		}
		for filter, want := range map[*store.Filter][]int64{
			{Workflow: "wf1"}: {7, 5, 3, 1}, {Job: "job0"}: {8, 4}, {Workflow: "wf0", Job: "job2"}: {6, 2}, {Workflow: "wf1", Job: "job2"}: nil,
			{Trigger: "retry"}: {8, 7}, {Parent: id(1)}: {8, 7}, {Parent: id(1), Workflow: "wf0"}: {8}, {Parent: id(2)}: nil,
			{From: time.UnixMicro(at(3)), To: time.UnixMicro(at(5))}: {4, 3}, {From: time.UnixMicro(at(8))}: {8}, {To: time.UnixMicro(at(1))}: nil,
			{Workflow: "wf1", Before: id(5), Limit: 1}: {3}, {Workflow: "%"}: nil, {Project: "p"}: {6, 3}, {Project: "p", Before: id(6)}: {3}, {Project: "p", Workflow: "wf0"}: {6}, {Project: "%"}: nil,
			{Partition: "s2/2026-08"}: {8, 7}, {Workflow: "wf1", Partition: "s2/2026-08", Statuses: []stepwell.ExecutionStatus{stepwell.ExecutionPending, stepwell.ExecutionRunning}}: {7}, {Workflow: "wf1", Partition: "s2"}: nil,
			{Lesson: "l1"}: {7, 5}, {Lesson: "l0", Project: "p"}: {6}, {Lesson: "l1", Before: id(7)}: {5}, {Lesson: "l"}: nil,
			{Workflow: "wf1", WorkflowVersion: 2}: {5, 1}, {Workflow: "wf0", WorkflowVersion: 2}: nil, {WorkflowVersion: 2}: {5, 1}, {Footprints: true}: {8, 5, 2}, {Footprints: true, Workflow: "wf0", Before: id(8)}: {2}, {Footprints: true, Lesson: "l1"}: {5}, {Workflow: "wf1", WorkflowVersion: 4, Lesson: "l1"}: {7},
		} {
			list, err := f.Executions(f.Context(), *filter)
			f.must(err)
			var got []int64
			for _, x := range list {
				got = append(got, x.No)
			}
			equal(f, fmt.Sprintf("%+v", *filter), got, want)
		}
	}},
	{"executions are filtered by statuses together with everything else, newest first", func(f *fixture) {
		f.must(f.PutDefinition(f.Context(), []byte("hash"), []byte(three)))
		all := []stepwell.ExecutionStatus{stepwell.ExecutionPending, stepwell.ExecutionRunning, stepwell.ExecutionPaused, stepwell.ExecutionCompleted, stepwell.ExecutionFailed, stepwell.ExecutionCancelled}
		for no := int64(1); no <= 24; no++ {
			c := f.first(no)
			c.Create.Workflow, c.Create.WorkflowVersion, c.Create.Project, c.Create.Lesson = fmt.Sprint("wf", no/12), int(no%3), fmt.Sprint("p", no%2), fmt.Sprint("l", no%4)
			c.Create.Status = stepwell.ExecutionPending
			f.commit(c)
			if status := all[no%6]; status != stepwell.ExecutionPending {
				next := f.next(no, 2)
				next.Update = &store.Update{Status: status}
				f.commit(next)
			}
		}
		for i, filter := range []store.Filter{{}, {Project: "p1"}, {Lesson: "l3"}, {Workflow: "wf1"}, {Workflow: "wf1", WorkflowVersion: 2}, {WorkflowVersion: 1}, {Before: id(20)}, {Project: "p0", Before: id(20), Limit: 2}} {
			for bits := range 1 << len(all) {
				filter.Statuses = nil
				var want []int64
				for no := int64(24); no > 0; no-- {
					if bits&(1<<(no%6)) != 0 || bits == 0 {
						workflow, version, project, lesson := fmt.Sprint("wf", no/12), int(no%3), fmt.Sprint("p", no%2), fmt.Sprint("l", no%4)
						if (filter.Project == "" || filter.Project == project) && (filter.Lesson == "" || filter.Lesson == lesson) && (filter.Workflow == "" || filter.Workflow == workflow) &&
							(filter.WorkflowVersion == 0 || filter.WorkflowVersion == version) && (filter.Before == "" || no < 20) && (filter.Limit == 0 || len(want) < filter.Limit) {
							want = append(want, no)
						}
					}
				}
				for j, status := range all {
					if bits&(1<<j) != 0 {
						filter.Statuses = append(filter.Statuses, status, status)
					}
				}
				list, err := f.Executions(f.Context(), filter)
				f.must(err)
				var got []int64
				for _, x := range list {
					got = append(got, x.No)
				}
				equal(f, fmt.Sprintf("%d: %+v", i, filter), got, want)
			}
		}
	}},
	{"executions of lessons that are queued or running are listed, oldest first", func(f *fixture) {
		f.must(f.PutDefinition(f.Context(), []byte("hash"), []byte(three)))
		for no, status := range []stepwell.ExecutionStatus{stepwell.ExecutionRunning, stepwell.ExecutionPending, stepwell.ExecutionPaused, stepwell.ExecutionCancelling, stepwell.ExecutionCompleted, stepwell.ExecutionRunning, stepwell.ExecutionRunning} {
			c := f.first(int64(no) + 1)
			if no != 5 {
				c.Create.Lesson = "l"
			}
			f.commit(c)
			next := f.next(int64(no)+1, 2)
			next.Update = &store.Update{Status: status}
			f.commit(next)
		}
		for _, c := range []struct {
			after string
			limit int
			want  []int64
		}{{"", 0, []int64{1, 2, 4, 7}}, {"", 2, []int64{1, 2}}, {id(2), 2, []int64{4, 7}}, {id(5), 0, []int64{7}}, {id(7), 0, nil}} {
			list, err := f.UnfinishedRuns(f.Context(), c.after, c.limit)
			f.must(err)
			var got []int64
			for _, x := range list {
				got = append(got, x.No)
			}
			equal(f, fmt.Sprintf("after %q", c.after), got, c.want)
		}
		// Starts at once take their ids and their numbers in different orders.
		early := f.first(8)
		early.Create.ID, early.Create.Lesson = id(0), "l"
		f.commit(early)
		list, err := f.UnfinishedRuns(f.Context(), "", 0)
		f.must(err)
		slices.SortFunc(list, func(a, b store.Execution) int { return int(a.No - b.No) })
		var got []int64
		for _, x := range list {
			got = append(got, x.No)
		}
		equal(f, "with an earlier id", got, []int64{1, 2, 4, 7, 8})
	}},
	{"a start key finds its execution", func(f *fixture) {
		_, err := f.StartKey(f.Context(), "k")
		f.wantCode(err, stepwell.CodeNotFound)
		f.must(f.PutDefinition(f.Context(), []byte("hash"), []byte(three)))
		c := f.first(1)
		c.Create.Key, c.Create.KeyHash = "k", []byte{0, 255}
		f.commit(c)
		k, err := f.StartKey(f.Context(), "k")
		f.must(err)
		equal(f, "key", *k, store.StartKey{Key: "k", Hash: []byte{0, 255}, Execution: id(1), Created: time.UnixMicro(start).UTC()})
		_, err = f.StartKey(f.Context(), "K")
		f.wantCode(err, stepwell.CodeNotFound)
	}},
	{"a start key that is taken refuses the whole call", func(f *fixture) {
		f.must(f.PutDefinition(f.Context(), []byte("hash"), []byte(three)))
		c := f.first(1)
		c.Create.Key = "k"
		f.commit(c)
		twice := f.first(2)
		twice.Create.Key = "k"
		err := f.Commit(f.Context(), []store.Commit{f.next(1, 2), twice})
		f.wantRefused(err, store.KeyTaken, 2)
		equal(f, "version", f.execution(1).Version, int64(1))
		_, err = f.Execution(f.Context(), id(2))
		f.wantCode(err, stepwell.CodeNotFound)
	}},
	{"of many starts under one key exactly one happens", func(f *fixture) {
		f.must(f.PutDefinition(f.Context(), []byte("hash"), []byte(three)))
		other := f.again()
		var won atomic.Int64
		var all sync.WaitGroup
		for no := int64(1); no <= 8; no++ {
			s := []Store{f.Store, other}[no%2]
			c := f.first(no)
			c.Create.Key = "k"
			all.Go(func() {
				if err := s.Commit(f.Context(), []store.Commit{c}); err == nil {
					won.Add(no)
				} else if stepwell.CodeOf(err) != stepwell.CodeConflict {
					f.Error(err)
				}
			})
		}
		all.Wait()
		k, err := f.StartKey(f.Context(), "k")
		f.must(err)
		equal(f, "winner", k.Execution, id(won.Load()))
		list, err := f.Executions(f.Context(), store.Filter{})
		f.must(err)
		equal(f, "executions", len(list), 1)
	}},
}
