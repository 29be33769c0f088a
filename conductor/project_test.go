package conductor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

// counted is what a project has counted, as "done errors".
func (r *rig) counted(project string) string {
	r.t.Helper()
	list, err := r.store.Progress(r.t.Context(), []string{project})
	if err != nil || len(list) != 1 {
		r.t.Fatalf("%v, %v", list, err)
	}
	return fmt.Sprint(list[0].Done, " ", list[0].Errors)
}

// project creates a project.
func (r *rig) project(name string) {
	r.t.Helper()
	if _, err := r.store.CreateProgress(r.t.Context(), name); err != nil {
		r.t.Fatal(err)
	}
}

// beginFor starts an execution that counts for a project.
func (r *rig) beginFor(project, text string) string {
	r.t.Helper()
	id, err := r.Start(r.t.Context(), conductor.Request{Pipeline: r.register(pipeline(r.t, text)), Origin: store.Origin{Project: project}})
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// faults is the action t.faulty, which fails for the numbers below a limit.
type faults struct{ below atomic.Int64 }

func (f *faults) action() action.Action {
	return action.Action{Spec: spec.Spec{Name: "t.faulty", Summary: "For tests.", Params: []spec.Field{{Name: "n", Type: spec.Any}}},
		Handler: action.HandlerFunc(func(_ context.Context, c *action.Call) (any, error) {
			if n, _ := c.Params["n"].(int64); n < f.below.Load() {
				return nil, action.Fail(errors.New("it is to fail"))
			}
			return map[string]any{}, nil
		})}
}

// TestExecutionIsOneItem: an execution counts as one item, with its first end: a restart counts no more, and neither does a retry,
// which is about the same item.
func TestExecutionIsOneItem(t *testing.T) {
	f := &faults{}
	f.below.Store(1)
	r := newRig(t, build{actions: []action.Action{f.action()}})
	r.project("p")
	text := "name: p\nsteps:\n  - {id: a, action: t.faulty, params: {n: 0}}\n"
	id := r.beginFor("p", text)
	x := r.end(id, stepwell.ExecutionFailed)
	if got := r.counted("p"); got != "1 1" {
		t.Errorf("after a failure: %s", got)
	}
	f.below.Store(0)
	if err := r.Restart(t.Context(), x.ID, "a", false); err != nil {
		t.Fatal(err)
	}
	r.end(id, stepwell.ExecutionCompleted)
	r.end(r.beginFor("p", text), stepwell.ExecutionCompleted)
	if got := r.counted("p"); got != "2 1" {
		t.Errorf("after a restart and another execution: %s", got)
	}
	f.below.Store(1)
	id = r.beginFor("p", text)
	r.end(id, stepwell.ExecutionFailed)
	f.below.Store(0)
	retried, err := r.Retry(t.Context(), id, "")
	if err != nil {
		t.Fatal(err)
	}
	r.end(retried, stepwell.ExecutionCompleted)
	if got := r.counted("p"); got != "3 2" {
		t.Errorf("after a retry: %s", got)
	}
}

// TestIterationsAreItems: iterations count as they end, each once, over restarts of the failed ones and of all.
func TestIterationsAreItems(t *testing.T) {
	f := &faults{}
	f.below.Store(2)
	r := newRig(t, build{actions: []action.Action{f.action()}})
	r.project("p")
	id := r.beginFor("p", `
name: p
progress: {items: tiles}
steps:
  - {id: before, action: util.noop}
  - {id: tiles, action: t.faulty, depends_on: [before], for_each: 10, max_failures: 5, params: {n: "{{ item }}"}}
`)
	x := r.end(id, stepwell.ExecutionCompletedWithFailures)
	if got := r.counted("p"); got != "10 2" {
		t.Errorf("at the end: %s", got)
	}
	f.below.Store(0)
	for _, failedOnly := range []bool{true, false} {
		if err := r.Restart(t.Context(), x.ID, "tiles", failedOnly); err != nil {
			t.Fatal(err)
		}
		r.end(id, stepwell.ExecutionCompleted)
		if got := r.counted("p"); got != "10 2" {
			t.Errorf("after a restart, failed only %t: %s", failedOnly, got)
		}
	}
}

// TestIterationsLeftOut: what a failure keeps from beginning counts when it is made up for.
func TestIterationsLeftOut(t *testing.T) {
	f := &faults{}
	f.below.Store(1)
	r := newRig(t, build{actions: []action.Action{f.action()}})
	r.project("p")
	id := r.beginFor("p", `
name: p
progress: {items: tiles}
steps:
  - {id: tiles, action: t.faulty, for_each: {items: 10, max_concurrency: 1}, params: {n: "{{ item }}"}}
`)
	x := r.end(id, stepwell.ExecutionFailed)
	if got := r.counted("p"); got != "1 1" {
		t.Errorf("after the failure: %s", got)
	}
	f.below.Store(0)
	if err := r.Restart(t.Context(), x.ID, "tiles", true); err != nil {
		t.Fatal(err)
	}
	r.end(id, stepwell.ExecutionCompleted)
	if got := r.counted("p"); got != "10 1" {
		t.Errorf("after the restart: %s", got)
	}
}

// TestUnknownProjectStartsNothing: an execution for a project that there is not is refused, and creates none.
func TestUnknownProjectStartsNothing(t *testing.T) {
	r := newRig(t, build{})
	_, err := r.Start(t.Context(), conductor.Request{Pipeline: r.register(pipeline(t, one("util.noop"))), Origin: store.Origin{Project: "nobody's"}})
	wantCode(t, "Start", err, stepwell.CodeNotFound)
	if list, err := r.store.Progress(t.Context(), []string{"nobody's"}); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestRetryIsForTheLesson: an execution is listed with its lesson, and so is a retry of it.
func TestRetryIsForTheLesson(t *testing.T) {
	f := &faults{}
	f.below.Store(1)
	r := newRig(t, build{actions: []action.Action{f.action()}})
	id, err := r.Start(t.Context(), conductor.Request{Pipeline: r.register(pipeline(t, "name: p\nsteps:\n  - {id: a, action: t.faulty, params: {n: 0}}\n")), Origin: store.Origin{Lesson: "l"}})
	if err != nil {
		t.Fatal(err)
	}
	r.end(id, stepwell.ExecutionFailed)
	retried, err := r.Retry(t.Context(), id, "")
	if err != nil {
		t.Fatal(err)
	}
	r.end(retried, stepwell.ExecutionFailed)
	list, err := r.store.Executions(t.Context(), store.Filter{Lesson: "l"})
	if err != nil || len(list) != 2 || list[0].ID != retried || list[0].Parent != id || list[1].ID != id {
		t.Errorf("listed are %v, %v", list, err)
	}
}

// TestLessonQueue: steps of an execution with a lesson that name no queue are in that of lessons; those of other executions, and those
// that name one, are not.
func TestLessonQueue(t *testing.T) {
	seen := make(chan string, 20)
	r := newRig(t, build{set: func(o *conductor.Options) { o.LessonQueue = "lessons" }, observe: func(u *conductor.Update) {
		for _, task := range u.Tasks {
			seen <- task.Key + " " + task.Queue
		}
	}, actions: []action.Action{{Spec: spec.Spec{Name: "t.do", Summary: "For tests."}, Handler: action.HandlerFunc(func(context.Context, *action.Call) (any, error) { return nil, nil })}}})
	p := r.register(pipeline(t, "name: p\nsteps:\n  - {id: a, action: t.do}\n  - {id: b, action: t.do, queue: own, depends_on: [a]}\n"))
	for lesson, want := range map[string][]string{"l": {"a lessons", "b own"}, "": {"a ", "b own"}} {
		id, err := r.Start(t.Context(), conductor.Request{Pipeline: p, Origin: store.Origin{Lesson: lesson}})
		if err != nil {
			t.Fatal(err)
		}
		r.end(id, stepwell.ExecutionCompleted)
		for _, one := range want {
			if got := <-seen; got != one {
				t.Errorf("lesson %q: %q was dispatched, want %q", lesson, got, one)
			}
		}
	}
}

// TestUsageIsSummed: what attempts have used is summed for the lesson, the project and the pipeline's version of the execution, that of
// retries too.
func TestUsageIsSummed(t *testing.T) {
	f := &faults{}
	f.below.Store(1)
	r := newRig(t, build{actions: []action.Action{f.action()}, price: func(_ string, calls int, _ time.Time, _ json.RawMessage) stepwell.Spending {
		return stepwell.Spending{Cost: int64(calls), Usage: stepwell.Usage{InputTokens: 10}}
	}})
	r.project("p")
	id, err := r.Start(t.Context(), conductor.Request{Pipeline: r.register(pipeline(t, "name: p\nsteps:\n  - {id: a, action: t.faulty, params: {n: 0}}\n")),
		Origin: store.Origin{Lesson: "l", Project: "p", Workflow: "w", WorkflowVersion: 3}})
	if err != nil {
		t.Fatal(err)
	}
	r.end(id, stepwell.ExecutionFailed)
	f.below.Store(0)
	again, err := r.Retry(t.Context(), id, "")
	if err != nil {
		t.Fatal(err)
	}
	r.end(again, stepwell.ExecutionCompleted)
	want := stepwell.Spending{Cost: 2, Usage: stepwell.Usage{InputTokens: 20}}
	for kind, id := range map[string]string{store.UsageOfLesson: "l", store.UsageOfProject: "p", store.UsageOfVersion: store.VersionID("w", 3)} {
		if got, err := r.store.UsageOf(t.Context(), kind, id); err != nil || got != want {
			t.Errorf("%s %s: %v, %v", kind, id, got, err)
		}
	}
	if x, err := r.store.Execution(t.Context(), id); err != nil || x.Progress.InputTokens != 10 {
		t.Errorf("the execution has used %+v, %v", x.Progress, err)
	}
}
