package pipelinerun

import (
	"encoding/json"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Every status of ours has a word of the specification.
func TestStatuses(t *testing.T) {
	for s := stepwell.ExecutionPending; s <= stepwell.ExecutionTimedOut; s++ {
		if runStatuses[s] == "" {
			t.Errorf("execution %s has no status", s)
		}
	}
	for _, c := range []struct {
		execution stepwell.ExecutionStatus
		begun     bool
		want      string
	}{
		{stepwell.ExecutionPending, false, "queued"}, {stepwell.ExecutionRunning, false, "queued"}, {stepwell.ExecutionRunning, true, "running"},
		{stepwell.ExecutionPaused, false, "paused"}, {stepwell.ExecutionPaused, true, "paused"}, {stepwell.ExecutionCancelling, true, "running"},
		{stepwell.ExecutionCompleted, true, "done"}, {stepwell.ExecutionCompletedWithFailures, true, "failed"}, {stepwell.ExecutionFailed, true, "failed"},
		{stepwell.ExecutionTimedOut, true, "failed"}, {stepwell.ExecutionCancelled, false, "failed"},
	} {
		if got := runStatus(c.execution, c.begun); got != c.want {
			t.Errorf("%s, begun %v: %s, want %s", c.execution, c.begun, got, c.want)
		}
	}
	f := func(message string) *engine.Failure {
		return &engine.Failure{Code: stepwell.CodeSkipped, Message: message}
	}
	for _, c := range []struct {
		step    stepwell.StepStatus
		attempt int
		why     *engine.Failure
		want    string
	}{
		{stepwell.StepPending, 0, nil, "pending"}, {stepwell.StepQueued, 1, nil, "pending"}, {stepwell.StepRetrying, 1, nil, "pending"},
		{stepwell.StepRunning, 1, nil, "running"}, {stepwell.StepWaiting, 1, nil, "running"}, {stepwell.StepCompleted, 1, nil, "done"},
		{stepwell.StepSkipped, 0, f("condition is false: {{ 1 == 2 }}"), "done"}, {stepwell.StepSkipped, 1, f("nothing to do"), "done"},
		{stepwell.StepSkipped, 0, f("a step before it failed"), "pending"}, {stepwell.StepSkipped, 0, f("not started: cancelled"), "pending"},
		{stepwell.StepSkipped, 0, &engine.Failure{Code: stepwell.CodeSkipped, Message: "in other words", Choice: true}, "done"},
		{stepwell.StepFailed, 1, nil, "failed"}, {stepwell.StepTimedOut, 1, nil, "failed"}, {stepwell.StepCancelled, 1, nil, "failed"},
		{stepwell.StepCancelled, 0, nil, "pending"},
	} {
		s := &store.Step{StepRow: engine.StepRow{Status: c.step, Attempt: c.attempt, Error: c.why}}
		if got := stepStatus(s); got != c.want {
			t.Errorf("%s %v: %s, want %s", c.step, c.why, got, c.want)
		}
	}
	for s := stepwell.StepPending; s <= stepwell.StepTimedOut; s++ {
		if stepStatuses[s] == "" {
			t.Errorf("step %s has no status", s)
		}
	}
}

// The ids of steps and versions are read as they are written, and nothing else is.
func TestIDs(t *testing.T) {
	const run = "0197a1b2-0000-7000-8000-000000000000"
	if n, err := positionOf(run, stepID(run, 12)); n != 12 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, id := range []string{"", "3", run, run + ":", run + ":0", run + ":-1", run + ":+1", run + ":01", run + ":1:1", "other:1", ":1"} {
		if n, err := positionOf(run, id); err == nil {
			t.Errorf("%q is step %d", id, n)
		}
	}
	if p, n, err := ParseVersion(versionID("a:b", 3)); p != "a:b" || n != 3 || err != nil {
		t.Errorf("%s %d %v", p, n, err)
	}
	for _, id := range []string{"", "a", "a:", ":1", "a:0", "a:x"} {
		if _, _, err := ParseVersion(id); err == nil {
			t.Errorf("%q is a version", id)
		}
	}
}

func TestCost(t *testing.T) {
	for c, want := range map[Cost]string{0: "0.0000", 1: "0.0000", 50: "0.0001", 12_345_678: "12.3457", 999_999_950: "1000.0000"} {
		raw, err := json.Marshal(c)
		var back Cost
		if err == nil {
			err = json.Unmarshal(raw, &back)
		}
		if err != nil || string(raw) != want || (back-c)*(back-c) > 50*50 {
			t.Errorf("%d: %s, back %d, %v", int64(c), raw, int64(back), err)
		}
	}
}
