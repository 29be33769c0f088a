package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

var executions = []promise{
	{"found by id or by a unique beginning", func(f *fixture) {
		f.begin(1, 2, 12)
		for prefix, no := range map[string]int64{id(12): 12, id(1)[:35] + "1": 1, id(12)[:35]: 12} {
			x, err := f.Execution(f.Context(), prefix)
			f.must(err)
			equal(f, prefix, x.No, no)
		}
		_, err := f.Execution(f.Context(), id(1)[:20])
		f.wantCode(err, stepwell.CodeConflict)
		for _, none := range []string{"%", "_", id(1) + "0", "0190A", "x", `0190a"`, "0190a%", "\U0010ffff"} {
			_, err := f.Execution(f.Context(), none)
			f.wantCode(err, stepwell.CodeNotFound)
		}
		_, err = f.Execution(f.Context(), "")
		f.wantCode(err, stepwell.CodeInvalid)
	}},
	{"listed by the beginning of their ids", func(f *fixture) {
		f.begin(1, 2, 12)
		for limit, want := range map[int][]int64{1: {1}, 2: {1, 2}, 20: {1, 2, 12}} {
			found, err := f.Beginning(f.Context(), id(1)[:20], limit)
			f.must(err)
			var numbers []int64
			for _, x := range found {
				numbers = append(numbers, x.No)
			}
			equal(f, fmt.Sprint("at most ", limit), fmt.Sprint(numbers), fmt.Sprint(want))
		}
		found, err := f.Beginning(f.Context(), "x", 20)
		f.must(err)
		equal(f, "none", len(found), 0)
		_, err = f.Beginning(f.Context(), "", 20)
		f.wantCode(err, stepwell.CodeInvalid)
	}},
	{"an id that is the beginning of another is found by itself", func(f *fixture) {
		for no, name := range map[int64]string{1: "run", 2: "run-2", 3: "run%"} {
			c := f.first(no)
			c.Create.ID = name
			f.commit(c)
		}
		for name, no := range map[string]int64{"run": 1, "run-": 2, "run%": 3} {
			x, err := f.Execution(f.Context(), name)
			f.must(err)
			equal(f, name, x.No, no)
		}
	}},
	{"listed newest first, in stable pages, while new ones come", func(f *fixture) {
		var numbers []int64
		for no := int64(1); no <= 25; no++ {
			numbers = append(numbers, no)
		}
		f.begin(numbers...)
		var got []int64
		before := ""
		for page := int64(0); ; page++ {
			list, err := f.Executions(f.Context(), store.Filter{Before: before, Limit: 7})
			f.must(err)
			if len(list) == 0 {
				break
			}
			for _, x := range list {
				got = append(got, x.No)
				before = x.ID
			}
			f.begin(100 + page)
		}
		equal(f, "executions", len(got), 25)
		for i, no := range got {
			equal(f, "order", no, int64(25-i))
		}
		_, err := f.Executions(f.Context(), store.Filter{Before: "nobody"})
		f.wantCode(err, stepwell.CodeNotFound)
	}},
	{"filtered by status and pipeline, without outputs", func(f *fixture) {
		f.begin(1, 2, 3)
		c := f.first(4)
		c.Create.Pipeline, c.Create.Status, c.Create.Outputs = "other", stepwell.ExecutionCompleted, []byte(`{"big":1}`)
		f.commit(c)
		u := f.next(2, 2)
		u.Update = &store.Update{Status: stepwell.ExecutionTimedOut, Outputs: []byte("{}")}
		f.commit(u)
		for _, q := range []struct {
			filter store.Filter
			want   []int64
		}{
			{store.Filter{}, []int64{4, 3, 2, 1}},
			{store.Filter{Pipeline: "three"}, []int64{3, 2, 1}},
			{store.Filter{Statuses: []stepwell.ExecutionStatus{stepwell.ExecutionTimedOut, stepwell.ExecutionCompleted}}, []int64{4, 2}},
			{store.Filter{Pipeline: "three", Statuses: []stepwell.ExecutionStatus{stepwell.ExecutionRunning}, Before: id(3)}, []int64{1}},
			{store.Filter{Statuses: []stepwell.ExecutionStatus{stepwell.ExecutionRunning, stepwell.ExecutionPaused}}, []int64{3, 1}},
			{store.Filter{Statuses: []stepwell.ExecutionStatus{stepwell.ExecutionTimedOut, stepwell.ExecutionFailed}}, []int64{2}},
			{store.Filter{Statuses: []stepwell.ExecutionStatus{stepwell.ExecutionFailed}}, nil},
			{store.Filter{Statuses: []stepwell.ExecutionStatus{stepwell.ExecutionCompleted}}, []int64{4}},
			{store.Filter{Statuses: []stepwell.ExecutionStatus{stepwell.ExecutionRunning, stepwell.ExecutionTimedOut}}, []int64{3, 2, 1}},
			{store.Filter{Pipeline: "%"}, nil},
			{store.Filter{Pipeline: "three", Before: id(4)}, []int64{3, 2, 1}},
			{store.Filter{Statuses: []stepwell.ExecutionStatus{stepwell.ExecutionRunning}, Before: id(2)}, []int64{1}},
			{store.Filter{Before: id(1)}, nil},
		} {
			list, err := f.Executions(f.Context(), q.filter)
			f.must(err)
			var got []int64
			for _, x := range list {
				got = append(got, x.No)
				equal(f, "outputs", string(x.Outputs), "")
			}
			equal(f, fmt.Sprintf("%+v", q.filter), got, q.want)
		}
	}},
	{"the parent is kept", func(f *fixture) {
		f.begin(1)
		c := f.first(2)
		c.Create.Parent, c.Create.Trigger = id(1), "retry"
		f.commit(c)
		equal(f, "parent", f.execution(2).Parent+" "+f.execution(2).Trigger, id(1)+" retry")
	}},
}

func line(step int32, level, message string, ms int64) store.LogLine {
	return store.LogLine{Execution: 1, Step: step, StepKey: fmt.Sprintf("k%d", step), Attempt: 1, At: time.UnixMicro(at(ms)).UTC(), Level: level, Message: message}
}

// messages are the lines that a filter lets through.
func (f *fixture) messages(filter store.LogFilter) (out []string) {
	f.Helper()
	list, err := f.Logs(f.Context(), 1, filter)
	f.must(err)
	for _, l := range list {
		out = append(out, l.Message)
	}
	// What they say can be had alone.
	texts, err := f.LogTexts(f.Context(), 1, filter)
	f.must(err)
	equal(f, "texts", slices.Sorted(slices.Values(texts.Messages)), slices.Sorted(slices.Values(out)))
	if n := len(list); n > 0 {
		equal(f, "where texts begin and end", [2]int64{texts.First, texts.Last}, [2]int64{list[0].Seq, list[n-1].Seq})
	}
	return out
}

var logs = []promise{
	{"lines read back as they were written, in order", func(f *fixture) {
		f.begin(1)
		first := line(0, "info", "ünïcode\nand\ttabs \x00 and nul", 1)
		first.Attrs = []byte(`{"a":{"b":[1]}}`)
		f.must(f.AppendLogs(f.Context(), []store.LogLine{first, line(1, "error", "two", 0)}))
		f.must(f.AppendLogs(f.Context(), nil))
		list, err := f.Logs(f.Context(), 1, store.LogFilter{})
		f.must(err)
		equal(f, "lines", len(list), 2)
		if list[0].Seq >= list[1].Seq || list[0].Seq < 1 {
			f.Errorf("seq %d, then %d", list[0].Seq, list[1].Seq)
		}
		list[0].Seq = 0
		equal(f, "line", list[0], first)
	}},
	{"filtered by step, level and time", func(f *fixture) {
		f.begin(1)
		f.must(f.AppendLogs(f.Context(), []store.LogLine{line(0, "debug", "d", 1), line(1, "info", "i", 2), line(0, "warning", "w", 3), line(1, "error", "e", 4)}))
		other := line(0, "error", "another execution's", 5)
		other.Execution = 2
		f.must(f.AppendLogs(f.Context(), []store.LogLine{other}))
		equal(f, "all", f.messages(store.LogFilter{}), []string{"d", "i", "w", "e"})
		equal(f, "step", f.messages(store.LogFilter{StepKey: "k1"}), []string{"i", "e"})
		equal(f, "level", f.messages(store.LogFilter{Level: "warning"}), []string{"w", "e"})
		equal(f, "since", f.messages(store.LogFilter{Since: time.UnixMicro(at(3))}), []string{"w", "e"})
		equal(f, "until", f.messages(store.LogFilter{Since: time.UnixMicro(at(2)), Until: time.UnixMicro(at(4))}), []string{"i", "w"})
		second := line(1, "info", "again", 6)
		second.Attempt = 2
		f.must(f.AppendLogs(f.Context(), []store.LogLine{second}))
		equal(f, "attempt", f.messages(store.LogFilter{StepKey: "k1", Attempt: 1}), []string{"i", "e"})
		equal(f, "the last of an attempt", f.messages(store.LogFilter{Attempt: 2, Tail: 5}), []string{"again"})
		equal(f, "tail", f.messages(store.LogFilter{Tail: 2, Until: time.UnixMicro(at(5)), Level: "info"}), []string{"w", "e"})
		equal(f, "together", f.messages(store.LogFilter{StepKey: "k0", Level: "info", Tail: 9}), []string{"w"})
		_, err := f.Logs(f.Context(), 1, store.LogFilter{Level: "loud"})
		f.wantCode(err, stepwell.CodeInvalid)
	}},
	{"before a sequence, from the first or from the last", func(f *fixture) {
		f.begin(1)
		var lines []store.LogLine
		for i := range 20 {
			lines = append(lines, line(0, []string{"info", "error"}[i%2], fmt.Sprint(i), int64(i)))
		}
		f.must(f.AppendLogs(f.Context(), lines))
		list, err := f.Logs(f.Context(), 1, store.LogFilter{})
		f.must(err)
		equal(f, "before", f.messages(store.LogFilter{Before: list[3].Seq}), []string{"0", "1", "2"})
		equal(f, "the last before", f.messages(store.LogFilter{Before: list[9].Seq, Tail: 2}), []string{"7", "8"})
		equal(f, "between", f.messages(store.LogFilter{After: list[1].Seq, Before: list[4].Seq}), []string{"2", "3"})
		equal(f, "of a level", f.messages(store.LogFilter{Before: list[9].Seq, Tail: 2, Level: "warning"}), []string{"5", "7"})
		equal(f, "first of a level", f.messages(store.LogFilter{Before: list[9].Seq, Limit: 2, Level: "error"}), []string{"1", "3"})
		equal(f, "before all", len(f.messages(store.LogFilter{Before: list[0].Seq})), 0)
	}},
	{"spans count the lines of each level", func(f *fixture) {
		f.begin(1)
		none, err := f.LogSpans(f.Context(), 1, 10)
		f.must(err)
		equal(f, "without lines", len(none), 0)
		var lines []store.LogLine
		for i := range 1000 {
			l := line(0, "info", fmt.Sprint(i), int64(i))
			switch {
			case i%100 == 7:
				l.Level = "error"
			case i%10 == 3:
				l.Level = "warning"
			case i >= 900:
				l.Level = "debug"
			}
			lines = append(lines, l)
			if i%3 == 0 {
				l.Execution = 2
				lines = append(lines, l)
			}
		}
		f.must(f.AppendLogs(f.Context(), lines))
		all, err := f.Logs(f.Context(), 1, store.LogFilter{Limit: 10_000})
		f.must(err)
		for most, want := range map[int]int{1000: 100, 3: 2} {
			warnings, err := f.LogWarnings(f.Context(), []int64{1, 77}, most)
			f.must(err)
			equal(f, "warnings", fmt.Sprint(warnings), fmt.Sprintf("map[1:%d]", want))
		}
		for _, n := range []int{1, 3, 10, 1000, 5000} {
			spans, err := f.LogSpans(f.Context(), 1, n)
			f.must(err)
			if len(spans) == 0 || len(spans) > min(n, store.MaxLogSpans) {
				f.Fatalf("%d spans of %d", len(spans), n)
			}
			rest := all
			for _, s := range spans {
				var want store.LogSpan
				for len(rest) > 0 && rest[0].Seq < s.Until {
					if want.Lines++; want.Lines == 1 {
						want.First, want.At = rest[0].Seq, rest[0].At
					}
					switch rest[0].Level {
					case "debug":
						want.Debug++
					case "warning":
						want.Warnings++
					case "error":
						want.Errors++
					}
					rest = rest[1:]
				}
				want.Until = s.Until
				equal(f, fmt.Sprintf("a span of %d", n), s, want)
			}
			equal(f, "lines behind the last span", len(rest), 0)
		}
	}},
	{"an unknown level is refused, with all lines of the call", func(f *fixture) {
		f.begin(1)
		f.wantCode(f.AppendLogs(f.Context(), []store.LogLine{line(0, "info", "good", 1), line(0, "loud", "bad", 1)}), stepwell.CodeInvalid)
		equal(f, "lines", len(f.messages(store.LogFilter{})), 0)
	}},
	{"the order of lines is that within their execution", func(f *fixture) {
		f.begin(1, 2)
		for i := range 6 {
			mine, other := line(0, "info", fmt.Sprint(i), int64(i)), line(0, "info", "another execution's", int64(i))
			other.Execution = 2
			f.must(f.AppendLogs(f.Context(), []store.LogLine{other, mine, other}[i%2:]))
		}
		last := int64(0)
		for no, want := range map[int64]int{1: 6, 2: 9} {
			list, err := f.Logs(f.Context(), no, store.LogFilter{})
			f.must(err)
			equal(f, "lines", len(list), want)
			for i := range list {
				equal(f, "execution", list[i].Execution, no)
				if i > 0 && list[i].Seq <= list[i-1].Seq || list[i].Seq < 1 {
					f.Errorf("line %d of execution %d has seq %d after %d", i, no, list[i].Seq, list[max(0, i-1)].Seq)
				}
			}
			if no == 1 {
				last = list[4].Seq
			}
		}
		equal(f, "after the fifth", f.messages(store.LogFilter{After: last}), []string{"5"})
	}},
	{"texts are those of the lines, alone and among lines of other executions", func(f *fixture) {
		f.begin(1, 2)
		var lines []store.LogLine
		for i := range 600 {
			l := line(0, "info", fmt.Sprint(i), int64(i))
			if i == 17 || i == 450 {
				l.Message = "a \x00 byte"
			}
			if i >= 200 && i < 400 && i%7 != 0 {
				l.Execution = 2
			}
			lines = append(lines, l)
		}
		f.must(f.AppendLogs(f.Context(), lines))
		all, err := f.Logs(f.Context(), 1, store.LogFilter{})
		f.must(err)
		where := []int64{0}
		for i := 0; i < len(all); i += 37 {
			where = append(where, all[i].Seq)
		}
		where = append(where, all[len(all)-1].Seq+1)
		for _, after := range where {
			for _, before := range where {
				for _, n := range []int{1, 30, 100, 1000} {
					f.messages(store.LogFilter{After: after, Before: before, Limit: n})
					f.messages(store.LogFilter{After: after, Before: before, Tail: n})
				}
			}
		}
	}},
	{"paged by sequence", func(f *fixture) {
		f.begin(1)
		var lines []store.LogLine
		for i := range 50 {
			lines = append(lines, line(0, "info", fmt.Sprint(i), int64(i)))
		}
		f.must(f.AppendLogs(f.Context(), lines))
		after, seen := int64(0), 0
		for {
			page, err := f.Logs(f.Context(), 1, store.LogFilter{After: after, Limit: 8})
			f.must(err)
			if len(page) == 0 {
				break
			}
			for _, l := range page {
				equal(f, "message", l.Message, fmt.Sprint(seen))
				seen++
				after = l.Seq
			}
		}
		equal(f, "lines", seen, 50)
	}},
}
