package conductor_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/store"
)

// The requested entries are in the outbox when an execution has ended, once, and nothing else.
func TestOutbox(t *testing.T) {
	w := &waits{}
	r := newRig(t, build{observe: w.observe, set: func(o *conductor.Options) {
		o.Outbox.Ended = func(x *store.Execution) bool { return x.Job != "quiet" }
	}})
	start := func(job, text string) string {
		id, err := r.Start(t.Context(), conductor.Request{Pipeline: r.register(pipeline(t, text)), Origin: store.Origin{Job: job, Workflow: "w"}})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	r.end(start("quiet", one("t.echo")), stepwell.ExecutionCompleted)
	failed := start("loud", one("t.fail"))
	r.end(failed, stepwell.ExecutionFailed)
	late := start("loud", "name: late\nsettings: {sla: {max_seconds: 0.01}}\nsteps:\n  - {id: a, action: t.await, params: {n: x}}\n")
	<-w.of(late)
	breached := r.outbox(2)
	r.signal("key-x", "1", `{}`, true, true)
	r.end(late, stepwell.ExecutionCompleted)
	list := r.outbox(3)
	for i, want := range []struct {
		id, kind string
		body     conductor.Ended
	}{
		{failed, conductor.ExecutionEnded, conductor.Ended{Status: "failed", Pipeline: "one", Workflow: "w", Job: "loud"}},
		{late, conductor.ExecutionBreached, conductor.Ended{Status: "running", Pipeline: "late", Workflow: "w", Job: "loud", Breached: "maximum"}},
		{late, conductor.ExecutionEnded, conductor.Ended{Status: "completed", Pipeline: "late", Workflow: "w", Job: "loud", Breached: "maximum"}},
	} {
		var body conductor.Ended
		if err := json.Unmarshal(list[i].Body, &body); err != nil || !reflect.DeepEqual(body, want.body) || list[i].Kind != want.kind || list[i].Execution != want.id || list[i].At.IsZero() {
			t.Errorf("entry %d is %+v with %s, want %+v", i, list[i], list[i].Body, want)
		}
	}
	if len(breached) != 2 {
		t.Errorf("%d entries before the end", len(breached))
	}
}

// outbox waits until there are n entries; it fails when there are more.
func (r *rig) outbox(n int) []store.Outgoing {
	r.t.Helper()
	for r.t.Context().Err() == nil {
		list, err := r.store.Outbox(r.t.Context(), 0, 100)
		if err != nil || len(list) > n {
			r.t.Fatalf("the outbox has %d entries, want %d, error %v", len(list), n, err)
		}
		if len(list) == n {
			return list
		}
	}
	r.t.Fatal(r.t.Context().Err())
	return nil
}

// An observer of an end finds the whole log; an observer of lines finds them.
func TestLinesBeforeTheEnd(t *testing.T) {
	var mu sync.Mutex
	var r *rig
	told := map[int64]int{}
	logs := func(no int64) int {
		list, err := r.store.Logs(t.Context(), no, store.LogFilter{})
		if err != nil {
			t.Error(err)
		}
		return len(list)
	}
	ended := map[int64]int{}
	r = newRig(t, build{
		set: func(o *conductor.Options) {
			o.Lines = func(executions []int64) {
				mu.Lock()
				defer mu.Unlock()
				for _, no := range executions {
					told[no] = logs(no)
				}
				if sorted := slices.Clone(executions); len(slices.Compact(sorted)) != len(executions) {
					t.Errorf("told of %v", executions)
				}
			}
		},
		observe: func(u *conductor.Update) {
			if u.Execution.Status.Terminal() {
				mu.Lock()
				defer mu.Unlock()
				ended[u.Execution.No] = logs(u.Execution.No)
			}
		}})
	for range 5 {
		x := r.end(r.begin(pipeline(t, one("util.log\n    params: {message: hello}"))), stepwell.ExecutionCompleted)
		mu.Lock()
		if told[x.No] != 1 || ended[x.No] != 1 {
			t.Errorf("execution %d: %d lines when told of them, %d at its end", x.No, told[x.No], ended[x.No])
		}
		mu.Unlock()
	}
}
