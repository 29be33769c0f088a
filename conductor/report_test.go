package conductor_test

import (
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
)

// Outcomes of several executions are reported together: they are durable when the call returns, and not before.
func TestReportAll(t *testing.T) {
	f := &faulty{}
	g := newGate()
	r := newRig(t, build{faulty: f, actions: actions(g)})
	ids := []string{r.begin(pipeline(t, one("t.gate"))), r.begin(pipeline(t, one("t.gate")))}
	<-g.begun
	<-g.begun
	completed := func(run int64) conductor.RunEvent {
		return conductor.RunEvent{Run: run, Event: engine.Event{Kind: engine.Done, At: 5, Idx: 0, Epoch: 1, Started: 4, Worker: "far", Output: []byte(`{"v":1}`)}}
	}
	asked, answer := make(chan struct{}, 10), make(chan struct{})
	f.mu.Lock()
	f.before = func(int) error { asked <- struct{}{}; <-answer; return nil }
	f.mu.Unlock()
	reported := make(chan error, 1)
	go func() {
		reported <- r.ReportAll(t.Context(), []conductor.RunEvent{completed(1), completed(2), completed(1)})
	}()
	<-asked
	select {
	case err := <-reported:
		t.Fatalf("answered before the commit: %v", err)
	default:
	}
	close(answer)
	f.refuse(nil)
	if err := <-reported; err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		if x, err := r.store.Execution(t.Context(), id); err != nil || x.Status != stepwell.ExecutionCompleted {
			t.Errorf("execution %d after the report: %+v, %v", i, x, err)
		}
	}
	wantCode(t, "what is not here", r.ReportAll(t.Context(), []conductor.RunEvent{completed(1), completed(99)}), stepwell.CodeConflict)
	if err := r.ReportAll(t.Context(), nil); err != nil {
		t.Error(err)
	}
	close(g.open)
	if n := len(r.steps(1)); n != 1 || r.steps(1)["a"].Worker != "far" {
		t.Errorf("steps: %+v", r.steps(1))
	}
}
