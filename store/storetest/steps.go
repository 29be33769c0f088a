package storetest

import (
	"fmt"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// states is every step as "key status".
func (f *fixture) states(no int64, filter store.StepFilter) (out []string) {
	f.Helper()
	for _, s := range f.steps(no, filter) {
		out = append(out, s.Key+" "+s.Status.String())
	}
	return out
}

var steps = []promise{
	{"every step is there from the start: queued when the log says so, pending else", func(f *fixture) {
		f.begin(1)
		equal(f, "steps", f.states(1, store.StepFilter{}), []string{"a queued", "b pending", "c pending"})
		s := f.steps(1, store.StepFilter{})
		equal(f, "when it was queued", s[0].Queued, at(1))
		equal(f, "name and action", []string{s[1].Name, s[1].Action, s[0].Action}, []string{"The second", "do.b", "do.a"})
	}},
	{"a row reads back as it was written", func(f *fixture) {
		f.begin(1)
		full := engine.StepRow{Idx: 9, Seq: 3, Status: stepwell.StepFailed, Attempt: 2, Key: "s:x", Action: "do.s", Output: []byte(`{"a":1}`), Input: []byte(`{"i":[1,2]}`),
			Error: &engine.Failure{Code: stepwell.CodeFailed, Message: `it "broke"`, Hint: "mend it", Step: "a"}, Worker: "w2", Queued: at(1), Started: at(2), Ended: at(3), Cost: 1_250_000, Usage: stepwell.Usage{InputTokens: 1000, OutputTokens: 37, AudioMillis: 2500, Resources: &stepwell.Resources{CPUSeconds: 1.25, MaxRSS: 1 << 30, BytesIn: 7, BytesOut: 9}}, Counted: &engine.Items{In: 7, Out: 5, Failed: 2, Skipped: 1}}
		wait := engine.StepRow{Idx: 1, Status: stepwell.StepWaiting, Attempt: 1, Wake: at(50), Queued: at(1), Started: at(2), External: "event:π", Cost: -1}
		f.commit(f.next(1, 2, full, wait))
		got := f.steps(1, store.StepFilter{From: 9})
		equal(f, "steps", len(got), 1)
		equal(f, "failure", *got[0].Error, *full.Error)
		equal(f, "items", *got[0].Items(), *full.Counted)
		equal(f, "resources", *got[0].Resources, *full.Resources)
		got[0].Error, got[0].Counted, full.Error, full.Counted = nil, nil, nil, nil // Again is not read back
		got[0].Resources, full.Resources = nil, nil
		equal(f, "row", got[0].StepRow, full)
		wait.Key, wait.Action = "b", "do.b"
		equal(f, "waiting row", f.steps(1, store.StepFilter{Key: "b"})[0].StepRow, wait)
	}},
	{"a later row replaces the one before, within a commit too", func(f *fixture) {
		f.begin(1)
		f.commit(f.next(1, 2, engine.StepRow{Idx: 0, Status: stepwell.StepRunning, Attempt: 1, Worker: "w1"}, engine.StepRow{Idx: 1, Status: stepwell.StepRunning}, done(1, 1, "{}")))
		equal(f, "states", f.states(1, store.StepFilter{}), []string{"a running", "b completed", "c pending"})
		f.commit(f.next(1, 3, done(0, 2, `{"v":1}`)))
		equal(f, "states", f.states(1, store.StepFilter{}), []string{"a completed", "b completed", "c pending"})
		f.commit(f.next(1, 4, engine.StepRow{Idx: 0, Status: stepwell.StepPending}))
		s := f.steps(1, store.StepFilter{})[0]
		if s.Status != stepwell.StepPending || s.Output != nil || s.Seq != 0 || s.Ended != 0 {
			f.Errorf("after a reset: %+v", s)
		}
	}},
	{"a step is queued again after a retry, a loss or a reset", func(f *fixture) {
		f.begin(1)
		f.commit(f.next(1, 2, engine.StepRow{Idx: 0, Status: stepwell.StepRetrying, Attempt: 1, Queued: at(1), Wake: at(9)}))
		equal(f, "states", f.states(1, store.StepFilter{}), []string{"a retrying", "b pending", "c pending"})
		f.commit(store.Commit{Execution: 1, Version: 3, Log: f.body(9, []int32{0}, engine.Event{Kind: engine.TimerDue, Idx: 0, Epoch: 1})})
		s := f.steps(1, store.StepFilter{})[0]
		equal(f, "again", []any{s.Status, s.Queued, s.Attempt}, []any{stepwell.StepQueued, at(9), 1})
		f.commit(f.next(1, 4, engine.StepRow{Idx: 0, Status: stepwell.StepRunning, Attempt: 2, Queued: at(9)}))
		equal(f, "states", f.states(1, store.StepFilter{})[0], "a running")
		f.commit(store.Commit{Execution: 1, Version: 5, Log: f.body(12, []int32{0, 2}, engine.Event{Kind: engine.Restart, Step: "a"}),
			Steps: []engine.StepRow{{Idx: 0, Status: stepwell.StepPending}, {Idx: 1, Status: stepwell.StepPending}}})
		equal(f, "reset and queued by one commit", f.states(1, store.StepFilter{}), []string{"a queued", "b pending", "c queued"})
	}},
	{"queueing that a step's end follows is over", func(f *fixture) {
		f.begin(1)
		f.commit(f.next(1, 2, done(0, 1, "{}")))
		equal(f, "states", f.states(1, store.StepFilter{}), []string{"a completed", "b pending", "c pending"})
	}},
	{"steps beyond the definition carry their key, or show as #index until they have a row", func(f *fixture) {
		f.begin(1)
		f.commit(store.Commit{Execution: 1, Version: 2, Log: f.body(2, []int32{3, 4, 7}),
			Steps: []engine.StepRow{{Idx: 3, Status: stepwell.StepPending, Key: "s:1", Action: "do.s", Input: []byte(`{"p":1}`)}}})
		equal(f, "states", f.states(1, store.StepFilter{}), []string{"a queued", "b pending", "c pending", "s:1 queued", "#4 queued", "#7 queued"})
		c := f.next(1, 3, engine.StepRow{Idx: 4, Status: stepwell.StepCompleted, Seq: 1, Key: "loop[0]", Action: "do.l"})
		f.commit(c)
		equal(f, "states", f.states(1, store.StepFilter{From: 3}), []string{"s:1 queued", "loop[0] completed", "#7 queued"})
	}},
	{"a restart's commit removes the memos of the steps that it names, and no others", func(f *fixture) {
		f.begin(1)
		for step := range int32(3) {
			f.must(f.PutMemo(f.Context(), store.Memo{Execution: 1, Step: step, Key: "k", Value: []byte("1")}))
		}
		c := f.next(1, 2)
		c.Forget = []engine.Forgotten{{Idx: 0, Epoch: 2}, {Idx: 2, Epoch: 2}}
		f.commit(c)
		for step := range int32(3) {
			_, ok, err := f.Memo(f.Context(), 1, step, "k")
			f.must(err)
			equal(f, "memo", ok, step == 1)
		}
	}},
	{"superseded steps are listed no longer and give no outputs; the log still names them", func(f *fixture) {
		f.begin(1)
		var rows []engine.StepRow
		for i, key := range []string{"loop[1]", "loop[1].a", "loop[10]", "loopy", "group.a", "group.a.b"} {
			r := done(int32(i+3), int32(i+1), "{}")
			r.Key = key
			rows = append(rows, r)
		}
		f.commit(f.next(1, 2, rows...))
		fresh := done(20, 9, "{}")
		fresh.Key = "loop[1]"
		c := f.next(1, 3, fresh)
		c.Superseded = []engine.Superseded{{Key: "loop[1]", Self: true, Below: 20}, {Key: "group.a", Below: 20}}
		f.commit(c)
		equal(f, "states", f.states(1, store.StepFilter{From: 3}), []string{"loop[10] completed", "loopy completed", "group.a completed", "loop[1] completed"})
		var keys []string
		for row, err := range f.Outputs(f.Context(), 1) {
			f.must(err)
			keys = append(keys, row.Key)
		}
		equal(f, "outputs", keys, []string{"loop[10]", "loopy", "group.a", "loop[1]"})
		events, err := f.Events(f.Context(), 1, 1, 1000)
		f.must(err)
		named := 0
		for _, e := range events {
			if e.StepKey == "loop[1].a" || e.StepKey == "group.a.b" {
				named++
			}
		}
		if named == 0 {
			f.Errorf("the log has lost the names: %+v", events)
		}
	}},
	{"filters by status and key, and pages by index", func(f *fixture) {
		f.begin(1)
		var rows []engine.StepRow
		for i := range int32(40) {
			r := done(i+3, i+1, "{}")
			r.Key = fmt.Sprintf("s:%d", i)
			if i%4 == 0 {
				r.Status = stepwell.StepFailed
			}
			rows = append(rows, r)
		}
		f.commit(f.next(1, 2, rows...))
		equal(f, "failed or pending", len(f.steps(1, store.StepFilter{Statuses: []stepwell.StepStatus{stepwell.StepFailed, stepwell.StepPending}})), 12)
		equal(f, "by key", f.states(1, store.StepFilter{Key: "s:7"}), []string{"s:7 completed"})
		equal(f, "by a key of nobody", len(f.steps(1, store.StepFilter{Key: "S:7"})), 0)
		var seen []int32
		for from := int32(0); ; {
			page := f.steps(1, store.StepFilter{From: from, Limit: 9})
			if len(page) == 0 {
				break
			}
			for _, s := range page {
				seen = append(seen, s.Idx)
				from = s.Idx + 1
			}
		}
		for i, idx := range seen {
			equal(f, "index", idx, int32(i))
		}
		equal(f, "steps", len(seen), 43)
	}},
	{"an execution that is not there has no steps", func(f *fixture) {
		f.begin(1)
		equal(f, "steps", len(f.steps(2, store.StepFilter{})), 0)
	}},
}
