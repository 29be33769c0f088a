package app_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/store"
)

// A server whose clock is set to another day fires its schedules by that clock, and everything that it stores has its times:
// executions, steps, log lines, objects.
func TestServerClock(t *testing.T) {
	shift := 2400 * time.Hour
	from := time.Now().Add(shift - time.Minute)
	g := newGate()
	s := serve(t, filepath.Join(t.TempDir(), "a.db"), g, func(o *app.ServerOptions) { o.Now = func() time.Time { return time.Now().Add(shift) } })
	later := func(what string, at time.Time) {
		t.Helper()
		if at.Before(from) || at.After(from.Add(24*time.Hour)) {
			t.Errorf("%s: %v, want after %v", what, at, from)
		}
	}
	s.post("/scheduler/jobs", `{"job_id": "often", "name": "often", "max_runs": 1, "schedule": {"type": "interval", "expression": "1s"},
		"callback": {"type": "action", "action_type": "util.log", "params": {"message": "told: yes"}}}`)
	id := s.executions("often", 1)[0]
	s.said(id)
	s.settled(id)
	x, err := s.Store.Execution(t.Context(), id)
	if err != nil || x.Status != stepwell.ExecutionCompleted {
		t.Fatalf("%+v, error %v", x, err)
	}
	later("created", x.Created)
	later("started", x.Started)
	later("ended", x.Ended)
	steps, err := s.Store.Steps(t.Context(), x.No, store.StepFilter{})
	if err != nil || len(steps) == 0 {
		t.Fatal(steps, err)
	}
	for _, at := range []int64{steps[0].Queued, steps[0].Started, steps[0].Ended} {
		later("step", time.UnixMicro(at))
	}
	lines, err := s.Store.Logs(t.Context(), x.No, store.LogFilter{})
	if err != nil || len(lines) == 0 {
		t.Fatal(lines, err)
	}
	later("log line", lines[0].At)
	objects, err := s.Store.Objects(t.Context(), store.ObjectFilter{Kind: "schedule"})
	if err != nil || len(objects) == 0 {
		t.Fatal(objects, err)
	}
	later("object", objects[0].Created)
	s.Drain()
	s.ended()
}
