package storetest

import (
	"fmt"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// told is the step log as "version type step@ms worker detail".
func (f *fixture) told(after int64, limit int) (out []string) {
	f.Helper()
	list, err := f.Events(f.Context(), 1, after, limit)
	f.must(err)
	for _, e := range list {
		text := fmt.Sprintf("%d %s", e.Version, e.Type)
		if e.StepKey != "" {
			text += " " + e.StepKey
		}
		text += fmt.Sprintf("@%d", (e.At.UnixMicro()-start)/1000)
		if e.Worker != "" {
			text += " " + e.Worker
		}
		if e.Detail != "" {
			text += ": " + e.Detail
		}
		out = append(out, text)
	}
	return out
}

// story is an execution with something of everything.
func (f *fixture) story() {
	f.begin(1)
	why := &engine.Failure{Code: stepwell.CodeFailed, Message: "no luck"}
	// 2: a runs long, so its start is told before its end
	f.commit(store.Commit{Execution: 1, Version: 2, Log: f.body(3, nil, engine.Event{Kind: engine.Running, Idx: 0, Epoch: 1, Started: at(2), Worker: "w1"}),
		Steps: []engine.StepRow{{Idx: 0, Status: stepwell.StepRunning, Attempt: 1, Worker: "w1", Queued: at(1), Started: at(2)}}})
	// 3: a spawns s:1, which is queued at once
	f.commit(store.Commit{Execution: 1, Version: 3, Log: f.body(4, []int32{3}, engine.Event{Kind: engine.Spawned, Idx: 0, Epoch: 1, Spawns: []engine.Spawn{{Name: "s", Key: "s:1", Action: "do.s", DependsOn: []string{"a"}}}}),
		Steps: []engine.StepRow{{Idx: 3, Status: stepwell.StepPending, Key: "s:1", Action: "do.s"}}})
	// 4: a completes, s:1 fails and is tried again
	a := done(0, 1, `{}`)
	a.Ended = at(6)
	f.commit(store.Commit{Execution: 1, Version: 4, Log: f.body(6, []int32{1}, engine.Event{Kind: engine.Done, Idx: 0, Epoch: 1, Started: at(2)},
		engine.Event{Kind: engine.Failed, Idx: 3, Epoch: 1, At: at(5), Started: at(4), Worker: "w2", Failure: why}),
		Steps: []engine.StepRow{{Idx: 3, Status: stepwell.StepRetrying, Attempt: 1, Key: "s:1", Action: "do.s", Wake: at(7)}, a}})
	// 5: the retry is due
	f.commit(store.Commit{Execution: 1, Version: 5, Log: f.body(7, []int32{3}, engine.Event{Kind: engine.TimerDue, Idx: 3, Epoch: 1})})
	// 6: s:1 fails for good, b completes, c is skipped without ever being queued
	s := engine.StepRow{Idx: 3, Seq: 2, Status: stepwell.StepFailed, Attempt: 2, Key: "s:1", Action: "do.s", Error: why, Worker: "w2", Queued: at(7), Started: at(8), Ended: at(9)}
	b := done(1, 3, `{}`)
	b.Ended = at(9)
	c := engine.StepRow{Idx: 2, Seq: 4, Status: stepwell.StepSkipped, Error: &engine.Failure{Code: stepwell.CodeSkipped, Message: "a step before it failed"}, Ended: at(10)}
	f.commit(store.Commit{Execution: 1, Version: 6, Log: f.body(10, nil, engine.Event{Kind: engine.Failed, Idx: 3, Epoch: 2, At: at(9), Started: at(8), Worker: "w2", Failure: why},
		engine.Event{Kind: engine.Done, Idx: 1, Epoch: 1, At: at(9), Started: at(8)}), Steps: []engine.StepRow{s, b, c}})
	// 7: b is restarted, with c
	f.commit(store.Commit{Execution: 1, Version: 7, Log: f.body(20, []int32{1}, engine.Event{Kind: engine.Restart, Step: "b"}),
		Steps: []engine.StepRow{{Idx: 1, Status: stepwell.StepPending}, {Idx: 2, Status: stepwell.StepPending}}})
	// 8: somebody cancels
	f.commit(store.Commit{Execution: 1, Version: 8, Log: f.body(21, nil, engine.Event{Kind: engine.Cancel, Reason: "enough"}),
		Steps: []engine.StepRow{{Idx: 2, Seq: 5, Status: stepwell.StepCancelled, Ended: at(21), Error: &engine.Failure{Message: "enough"}}}})
}

// storyTold is what there is to tell of it. What a restart has replaced is told as the log has it:
// the row that knew more is gone.
var storyTold = []string{
	"1 start@1", "1 queued a@1",
	"2 started a@2 w1",
	"3 spawned a@4: s:1", "3 queued s:1@4",
	"4 started s:1@4 w2", "4 failed s:1@5 w2: no luck", "4 completed a@6 w1", "4 queued b@6",
	"5 timer s:1@7", "5 queued s:1@7",
	"6 started b@8", "6 started s:1@8 w2", "6 completed b@9", "6 failed s:1@9 w2: no luck",
	"7 restart@20: b", "7 queued b@20",
	"8 cancel@21: enough", "8 cancelled c@21: enough",
}

var events = []promise{
	{"the step log tells every event, in order", func(f *fixture) {
		f.story()
		equal(f, "events", f.told(0, 0), storyTold)
	}},
	{"a step that ends without a report is told by its row", func(f *fixture) {
		f.begin(1)
		f.commit(f.next(1, 2, engine.StepRow{Idx: 2, Seq: 1, Status: stepwell.StepSkipped, Ended: at(2), Error: &engine.Failure{Message: "condition is false"}}))
		equal(f, "events", f.told(1, 0), []string{"2 skipped c@2: condition is false"})
	}},
	{"an admission and what somebody settles are told; a step that has ended by it is told by its row", func(f *fixture) {
		f.begin(1)
		f.commit(store.Commit{Execution: 1, Version: 2, Log: f.body(2, nil, engine.Event{Kind: engine.Admit, Idx: 1})})
		a := done(0, 1, "{}")
		a.Worker, a.Ended = "kim", at(3)
		f.commit(store.Commit{Execution: 1, Version: 3, Log: f.body(3, nil, engine.Event{Kind: engine.Settled, Epoch: 1, Worker: "kim"}), Steps: []engine.StepRow{a}})
		f.commit(store.Commit{Execution: 1, Version: 4, Log: f.body(4, nil, engine.Event{Kind: engine.Settled, Idx: 1, Epoch: 1, Worker: "kim", Failure: &engine.Failure{Message: "no"}}),
			Steps: []engine.StepRow{{Idx: 1, Status: stepwell.StepRetrying, Attempt: 1}}})
		equal(f, "events", f.told(1, 0), []string{"2 admitted@2", "3 completed a@3 kim", "4 settled b@4 kim: no"})
	}},
	{"a step that stood in for others is told with them by their rows", func(f *fixture) {
		f.begin(1)
		a, b := done(0, 1, "{}"), done(1, 2, "{}")
		f.commit(store.Commit{Execution: 1, Version: 2, Log: f.body(3, nil, engine.Event{Kind: engine.DoneAll, Epoch: 1, Parts: []engine.Part{{Idx: 1}}}), Steps: []engine.StepRow{a, b}})
		equal(f, "events", f.told(1, 0), []string{"2 completed a@3 w1", "2 completed b@3 w1"})
	}},
	{"pages continue after a version and never split one", func(f *fixture) {
		f.story()
		var got []string
		after := int64(0)
		for {
			list, err := f.Events(f.Context(), 1, after, 1)
			f.must(err)
			if len(list) == 0 {
				break
			}
			got = append(got, f.told(after, 1)...)
			for _, e := range list {
				equal(f, "version of the page", e.Version, after+1)
			}
			after = list[len(list)-1].Version
		}
		equal(f, "events", got, storyTold)
	}},
}
