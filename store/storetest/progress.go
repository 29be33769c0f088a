package storetest

import (
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// project creates the progress of a project with a total and a status.
func (f *fixture) project(name string, total int64, status string) {
	f.Helper()
	fresh, err := f.CreateProgress(f.Context(), name)
	f.must(err)
	equal(f, "fresh", fresh, true)
	f.change(store.ProgressChange{Count: store.Count{Project: name}, Total: &total, Status: status})
}

func (f *fixture) change(list ...store.ProgressChange) []store.ProgressResult {
	f.Helper()
	out, err := f.ChangeProgress(f.Context(), list)
	f.must(err)
	return out
}

// item is a change that counts items.
func item(project string, done, errors int64, key string) store.ProgressChange {
	return store.ProgressChange{Count: store.Count{Project: project, Done: done, Errors: errors}, Key: key}
}

// progressOf prints the progress of projects, as it is stored.
func (f *fixture) progressOf(names ...string) (out []string) {
	f.Helper()
	list, err := f.again().Progress(f.Context(), names)
	f.must(err)
	for _, p := range list {
		out = append(out, fmt.Sprintf("%s %s %d/%d errors %d others %d,%d epoch %d ended %t", p.Project, p.Status, p.Done, p.Total, p.Errors, p.OtherDone, p.OtherErrors, p.Epoch, !p.Completed.IsZero()))
	}
	return out
}

// jobEvents are the entries of finished projects in the outbox.
func (f *fixture) jobEvents() (out []store.ProjectEvent) {
	f.Helper()
	list, err := f.Store.Outbox(f.Context(), 0, 10_000)
	f.must(err)
	for _, o := range list {
		if o.Kind == store.JobCompleted {
			var e store.ProjectEvent
			f.must(json.Unmarshal(o.Body, &e))
			out = append(out, e)
		}
	}
	return out
}

// payloads are the counts of finished projects in the outbox.
func (f *fixture) payloads() (out []store.ProjectCounts) {
	f.Helper()
	for _, e := range f.jobEvents() {
		out = append(out, e.Payload)
	}
	return out
}

var progress = []promise{
	{"a project begins with nothing, once", func(f *fixture) {
		for _, want := range []bool{true, false} {
			fresh, err := f.CreateProgress(f.Context(), "p/π")
			f.must(err)
			equal(f, "fresh", fresh, want)
		}
		equal(f, "progress", f.progressOf("p/π", "nobody's"), []string{"p/π INITIALIZING 0/0 errors 0 others 0,0 epoch 0 ended false"})
		for _, bad := range []string{"", "a\nb", "a\x00", "\xff"} {
			_, err := f.CreateProgress(f.Context(), bad)
			f.wantCode(err, stepwell.CodeInvalid)
		}
	}},
	{"changes are made in their order and all at once", func(f *fixture) {
		f.project("a", 0, "CRAWLING")
		f.project("b", 0, "")
		total := int64(7)
		out := f.change(item("b", 2, 1, ""), item("a", 1, 0, ""), store.ProgressChange{Count: store.Count{Project: "b", Done: 1}, Total: &total, Status: "PROCESSING"})
		equal(f, "results", []int64{out[0].Done, out[1].Done, out[2].Done, out[2].Total}, []int64{2, 1, 3, 7})
		equal(f, "progress", f.progressOf("b", "a"), []string{"a CRAWLING 1/0 errors 0 others 0,0 epoch 0 ended false", "b PROCESSING 3/7 errors 1 others 0,0 epoch 0 ended false"})
		_, err := f.ChangeProgress(f.Context(), []store.ProgressChange{item("a", 5, 0, ""), item("b", 1, 2, "")})
		f.wantCode(err, stepwell.CodeInvalid)
		equal(f, "after a refusal", f.progressOf("a"), []string{"a CRAWLING 1/0 errors 0 others 0,0 epoch 0 ended false"})
	}},
	{"an unknown project is not created", func(f *fixture) {
		f.project("a", 2, "")
		out := f.change(item("nobody's", 1, 0, "k"), item("a", 1, 0, ""))
		equal(f, "results", []string{out[0].Status, out[1].Status}, []string{"", "INITIALIZING"})
		f.begin(1)
		c := f.next(1, 2)
		c.Progress = []store.Count{{Project: "nobody's", Done: 1}, {Project: "\x00", Done: 1}, {Project: "a", Done: 1}}
		f.commit(c)
		equal(f, "progress", f.progressOf("nobody's", "a"), []string{"a DONE 2/2 errors 0 others 0,0 epoch 0 ended true"})
	}},
	{"the finish line is crossed once, with an event of the counts then", func(f *fixture) {
		f.project("a", 3, "PROCESSING")
		equal(f, "finished", f.change(item("a", 2, 1, ""))[0].Finished, false)
		out := f.change(item("a", 1, 0, ""), item("a", 1, 0, ""))
		equal(f, "finished", []bool{out[0].Finished, out[1].Finished}, []bool{true, false})
		out = f.change(store.ProgressChange{Count: store.Count{Project: "a"}, Status: "PROCESSING"}, store.ProgressChange{Count: store.Count{Project: "a"}, Status: "DONE"})
		equal(f, "afterwards", []any{out[1].Finished, f.progressOf("a")}, []any{false, []string{"a DONE 4/3 errors 1 others 0,0 epoch 0 ended true"}})
		equal(f, "events", f.payloads(), []store.ProjectCounts{{Project: "a", Total: 3, Done: 3, Errors: 1}})
	}},
	{"items that come before the total, or while crawling, finish nothing", func(f *fixture) {
		f.project("a", 0, "CRAWLING")
		f.change(item("a", 5, 0, ""))
		total := int64(5)
		equal(f, "with a total", f.change(store.ProgressChange{Count: store.Count{Project: "a"}, Total: &total})[0].Finished, false)
		equal(f, "discovered", f.change(store.ProgressChange{Count: store.Count{Project: "a"}, Discovered: true})[0].Finished, true)
		f.project("b", 0, "")
		f.begin(1)
		c := f.next(1, 2)
		c.Progress = []store.Count{{Project: "b", Done: 3}}
		f.commit(c)
		equal(f, "b", f.progressOf("b"), []string{"b INITIALIZING 3/0 errors 0 others 0,0 epoch 0 ended false"})
		equal(f, "set done", f.change(store.ProgressChange{Count: store.Count{Project: "b"}, Status: "DONE"})[0].Finished, true)
		equal(f, "events", len(f.jobEvents()), 2)
	}},
	{"counts are part of the commit that brings them", func(f *fixture) {
		f.project("a", 4, "PROCESSING")
		f.project("b", 9, "PROCESSING")
		f.project("c", 1, "CRAWLING")
		f.begin(1, 2)
		one, two := f.next(1, 2), f.next(2, 2)
		one.Progress = []store.Count{{Project: "b", Done: 1}, {Project: "a", Done: 2, Errors: 1}}
		two.Progress = []store.Count{{Project: "a", Done: 2}, {Project: "c", Done: 1}}
		f.commit(one, two)
		lost := f.next(1, 2)
		lost.Progress = []store.Count{{Project: "b", Done: 1}}
		f.wantRefused(f.Commit(f.Context(), []store.Commit{lost}), store.VersionTaken, 1)
		late := f.next(2, 3)
		late.Progress = []store.Count{{Project: "a", Done: 1}}
		f.commit(late)
		equal(f, "progress", f.progressOf("a", "b", "c"), []string{"a DONE 5/4 errors 1 others 0,0 epoch 0 ended true", "b PROCESSING 1/9 errors 0 others 0,0 epoch 0 ended false",
			"c CRAWLING 1/1 errors 0 others 0,0 epoch 0 ended false"})
		equal(f, "events", f.payloads(), []store.ProjectCounts{{Project: "a", Total: 4, Done: 4, Errors: 1}})
	}},
	{"an item with a key counts once until a reset", func(f *fixture) {
		f.project("a", 9, "")
		f.project("b", 9, "")
		out := f.change(item("a", 1, 0, "k"), item("a", 1, 0, "k"), item("b", 1, 0, "k"), item("a", 1, 1, "\x00k"))
		equal(f, "repeated", []bool{out[0].Repeated, out[1].Repeated, out[2].Repeated, out[3].Repeated}, []bool{false, true, false, false})
		equal(f, "later", f.change(item("a", 1, 0, "k"))[0].Repeated, true)
		equal(f, "progress", f.progressOf("a", "b"), []string{"a INITIALIZING 2/9 errors 1 others 0,0 epoch 0 ended false", "b INITIALIZING 1/9 errors 0 others 0,0 epoch 0 ended false"})
		out = f.change(store.ProgressChange{Count: store.Count{Project: "a"}, Reset: true}, item("a", 1, 0, "k"))
		equal(f, "after a reset", []any{out[1].Repeated, f.progressOf("a")}, []any{false, []string{"a INITIALIZING 1/0 errors 0 others 0,0 epoch 1 ended false"}})
		equal(f, "of the other", f.change(item("b", 1, 0, "k"))[0].Repeated, true)
		f.prune(store.Retention{Keys: time.Now().Add(time.Hour)})
		equal(f, "after its time", f.change(item("b", 1, 0, "k"))[0].Repeated, false)
	}},
	{"a reset starts over, with another event at its end", func(f *fixture) {
		f.project("a", 1, "PROCESSING")
		f.change(item("a", 1, 1, ""))
		total := int64(2)
		out := f.change(store.ProgressChange{Count: store.Count{Project: "a", Done: 1}, Reset: true, Total: &total, Status: "PROCESSING"})
		equal(f, "finished", out[0].Finished, false)
		f.change(item("a", 1, 0, ""))
		events := f.jobEvents()
		equal(f, "events", []any{len(events), events[0].ID != events[1].ID, events[0].Payload, events[1].Payload},
			[]any{2, true, store.ProjectCounts{Project: "a", Total: 1, Done: 1, Errors: 1}, store.ProjectCounts{Project: "a", Total: 2, Done: 2}})
	}},
	{"counts of other programs are raised, never lowered, and finish", func(f *fixture) {
		f.project("a", 10, "PROCESSING")
		others := func(done, errors, epoch int64) store.ProgressChange {
			return store.ProgressChange{Count: store.Count{Project: "a"}, OtherDone: done, OtherErrors: errors, Epoch: epoch}
		}
		f.change(item("a", 3, 0, ""), others(4, 1, 0), others(2, 0, 0), others(9, 9, 1))
		equal(f, "progress", f.progressOf("a"), []string{"a PROCESSING 7/10 errors 1 others 4,1 epoch 0 ended false"})
		equal(f, "finished", f.change(others(7, 2, 0))[0].Finished, true)
		equal(f, "events", f.payloads(), []store.ProjectCounts{{Project: "a", Total: 10, Done: 10, Errors: 2}})
		f.begin(1)
		c := f.next(1, 2)
		c.Progress = []store.Count{{Project: "a", Done: 1}}
		f.commit(c)
		equal(f, "progress", f.progressOf("a"), []string{"a DONE 11/10 errors 2 others 7,2 epoch 0 ended true"})
	}},
	{"open projects are listed by name, those that have been changed since", func(f *fixture) {
		begin := time.Now().Add(-time.Minute)
		for _, name := range []string{"c", "a", "d", "b"} {
			f.project(name, 1, "")
		}
		f.change(item("b", 1, 0, ""))
		open := func(since time.Time, after string, limit int) (out []string) {
			list, err := f.OpenProgress(f.Context(), since, after, limit)
			f.must(err)
			for _, p := range list {
				out = append(out, p.Project)
			}
			return out
		}
		equal(f, "open", []any{open(begin, "", 0), open(begin, "", 2), open(begin, "c", 2), len(open(time.Now().Add(time.Minute), "", 0))}, []any{[]string{"a", "c", "d"}, []string{"a", "c"}, []string{"d"}, 0})
	}},
	{"of a hundred writers none is lost, and one finishes", func(f *fixture) {
		f.project("a", 100, "PROCESSING")
		f.begin(1)
		other := f.again()
		var all sync.WaitGroup
		var mu sync.Mutex
		finished := 0
		for range 80 {
			all.Go(func() {
				out, err := other.ChangeProgress(f.Context(), []store.ProgressChange{item("a", 1, 0, "")})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					f.Error(err)
				} else if out[0].Finished {
					finished++
				}
			})
		}
		for v := int64(2); v < 22; v++ {
			c := f.next(1, v)
			c.Progress = []store.Count{{Project: "a", Done: 1, Errors: 1}}
			f.commit(c)
		}
		all.Wait()
		equal(f, "progress", f.progressOf("a"), []string{"a DONE 100/100 errors 20 others 0,0 epoch 0 ended true"})
		if n := len(f.jobEvents()); n != 1 || finished > 1 {
			f.Fatalf("%d events, %d results have finished it", n, finished)
		}
	}},
	{"what is deleted is gone, and starts over", func(f *fixture) {
		f.project("a", 3, "PROCESSING")
		f.project("b", 3, "PROCESSING")
		f.change(item("a", 1, 0, "k"), item("b", 1, 0, "k"), store.ProgressChange{Count: store.Count{Project: "a"}, OtherDone: 1})
		for range 2 {
			f.must(f.DeleteProgress(f.Context(), "a"))
		}
		f.must(f.DeleteProgress(f.Context(), "nobody's"))
		equal(f, "progress", f.progressOf("a", "b"), []string{"b PROCESSING 1/3 errors 0 others 0,0 epoch 0 ended false"})
		equal(f, "known", f.change(item("a", 3, 0, ""))[0].Status, "")
		f.begin(1)
		c := f.next(1, 2)
		c.Progress = []store.Count{{Project: "a", Done: 3}}
		f.commit(c)
		open, err := f.OpenProgress(f.Context(), time.Time{}, "", 0)
		f.must(err)
		equal(f, "open", len(open), 1)
		f.project("a", 1, "PROCESSING")
		equal(f, "progress", f.progressOf("a"), []string{"a PROCESSING 0/1 errors 0 others 0,0 epoch 1 ended false"})
		equal(f, "finished", f.change(item("a", 1, 0, "k"))[0].Finished, true)
		equal(f, "events", f.payloads(), []store.ProjectCounts{{Project: "a", Total: 1, Done: 1}})
	}},
	{"of commits of two processes that meet one finishes each project", func(f *fixture) {
		const projects = 20
		for i := range projects {
			f.project(fmt.Sprint("p", i), 10, "PROCESSING")
		}
		f.begin(1, 2)
		other := f.again()
		write := func(s Store, no int64) error {
			for v := int64(2); v < 7; v++ {
				c := f.next(no, v)
				for i := range projects {
					c.Progress = append(c.Progress, store.Count{Project: fmt.Sprint("p", (i*int(2*no-3)+projects)%projects), Done: 1})
				}
				if err := s.Commit(f.Context(), []store.Commit{c}); err != nil {
					return err
				}
			}
			return nil
		}
		ended := make(chan error, 1)
		go func() { ended <- write(other, 2) }()
		f.must(write(f.Store, 1))
		f.must(<-ended)
		equal(f, "events", len(f.jobEvents()), projects)
		for _, e := range f.jobEvents() {
			equal(f, "counts", []int64{e.Payload.Done, e.Payload.Total}, []int64{10, 10})
		}
	}},
}

var usages = []promise{
	{"ends of executions are counted by hour and read by range, until retention removes old ones", func(f *fixture) {
		hour := time.UnixMicro(at(0)).UTC().Truncate(time.Hour)
		ended := func(after time.Duration, workflow string, cost int64) store.Used {
			x := store.Execution{Origin: store.Origin{Workflow: workflow}, Status: stepwell.ExecutionCompleted, Started: hour.Add(after - time.Second), Ended: hour.Add(after)}
			x.Progress.Cost = cost
			return x.Ends(x.Progress.Cost, 1)
		}
		in := func(from, before time.Duration, limit int) (list []string) {
			f.Helper()
			sums, err := f.UsageIn(f.Context(), store.UsageOfEnds, store.EndsFrom(hour.Add(from)), store.EndsFrom(hour.Add(before)), limit)
			f.must(err)
			for _, u := range sums {
				g, err := store.ReadEnds(u.ID)
				f.must(err)
				list = append(list, fmt.Sprintf("%s %v %d cost %d", g.Workflow, g.Hour.Sub(hour), u.InputTokens, u.Cost))
			}
			return list
		}
		f.begin(1, 2)
		one, two := f.next(1, 2), f.next(2, 2)
		one.Usage = []store.Used{ended(time.Minute, "b", 5), {Kind: store.UsageOfProject, ID: store.EndsFrom(hour), Spending: stepwell.Spending{Cost: 1}}}
		two.Usage = []store.Used{ended(2*time.Minute, "b", 7), ended(2*time.Minute, "a", 0), ended(59*time.Minute, "", 0), ended(time.Hour, "b", 1)}
		f.commit(one, two)
		equal(f, "the hour", in(0, time.Hour, 10), []string{"a 0s 1 cost 0", "b 0s 2 cost 12", " 0s 1 cost 0"})
		equal(f, "two of it", in(0, time.Hour, 2), []string{"a 0s 1 cost 0", "b 0s 2 cost 12"})
		equal(f, "the next hour", in(time.Hour, 2*time.Hour, 10), []string{"b 1h0m0s 1 cost 1"})
		three := f.next(1, 3)
		for _, kind := range store.EndKinds()[1:] {
			three.Usage = append(three.Usage, store.Used{Kind: kind, ID: store.DaysFrom(hour.Add(-24*time.Hour)) + `["a"]`}, store.Used{Kind: kind, ID: store.DaysFrom(hour.Add(24*time.Hour)) + `["b"]`})
		}
		f.commit(three)
		f.prune(store.Retention{Ends: hour.Add(time.Hour)})
		for _, kind := range store.EndKinds()[1:] {
			sums, err := f.UsageIn(f.Context(), kind, "", "~", 10)
			f.must(err)
			equal(f, "what is left of "+kind, len(sums), 1)
		}
		equal(f, "what is left", in(0, 2*time.Hour, 10), []string{"b 1h0m0s 1 cost 1"})
		u, err := f.UsageOf(f.Context(), store.UsageOfProject, store.EndsFrom(hour))
		f.must(err)
		equal(f, "another kind", u.Cost, int64(1))
	}},
	{"what commits have used is summed by kind and id, each commit once, and outlives the execution", func(f *fixture) {
		used := func(kind, id string, input, cost int64) store.Used {
			return store.Used{Kind: kind, ID: id, Spending: stepwell.Spending{Cost: cost, Usage: stepwell.Usage{InputTokens: input, OutputTokens: 2 * input, AudioMillis: 3}}}
		}
		sum := func(kind, id string) stepwell.Spending {
			f.Helper()
			u, err := f.UsageOf(f.Context(), kind, id)
			f.must(err)
			return u
		}
		f.begin(1, 2)
		one, two := f.next(1, 2), f.next(2, 2)
		one.Usage = []store.Used{used(store.UsageOfLesson, "l", 5, 100), used(store.UsageOfProject, "p", 5, 100)}
		two.Usage = []store.Used{used(store.UsageOfProject, "p", 7, 0), used(store.UsageOfVersion, "p", 7, 0), used(store.UsageOfProject, "p\x00\xff", 1, 0)}
		f.commit(one, two)
		f.wantRefused(f.Commit(f.Context(), []store.Commit{one}), store.VersionTaken, 1)
		equal(f, "a lesson", sum(store.UsageOfLesson, "l"), used("", "", 5, 100).Spending)
		equal(f, "a project", sum(store.UsageOfProject, "p"), stepwell.Spending{Cost: 100, Usage: stepwell.Usage{InputTokens: 12, OutputTokens: 24, AudioMillis: 6}})
		equal(f, "a version", sum(store.UsageOfVersion, "p"), used("", "", 7, 0).Spending)
		equal(f, "no text", sum(store.UsageOfProject, "p\x00\xff"), used("", "", 1, 0).Spending)
		equal(f, "nothing", sum(store.UsageOfLesson, "p"), stepwell.Spending{})
		for version := int64(3); version < 6; version++ {
			more := f.next(1, version)
			more.Usage = []store.Used{used(store.UsageOfLesson, "l", 0, math.MaxInt64)}
			f.commit(more)
		}
		equal(f, "all that can be counted", sum(store.UsageOfLesson, "l").Cost, int64(9e18))
		f.end(2)
		f.prune(store.Retention{Executions: time.UnixMicro(at(1000))})
		equal(f, "a project later", sum(store.UsageOfProject, "p").InputTokens, int64(12))
	}},
}
