package conductor_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/store"
)

// One clock decides and is recorded: a wait of a day ends by that clock, and all records have its times.
func TestOneClock(t *testing.T) {
	begin := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	var passed atomic.Int64
	now := func() time.Time { return begin.Add(time.Duration(passed.Load())) }
	waits := anyAction("t.day", func(_ context.Context, c *action.Call) (any, error) {
		if c.State != nil {
			return map[string]any{"v": 1}, nil
		}
		return nil, action.WaitUntil(begin.Add(24*time.Hour), map[string]any{"again": true})
	})
	r := newRig(t, build{actions: []action.Action{waits}, set: func(o *conductor.Options) { o.Now = now }})
	id := r.begin(pipeline(t, one("t.day")))
	x, err := r.store.Execution(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	r.until("the wait", func() bool { return r.steps(x.No)["a"].Status == stepwell.StepWaiting })
	if !x.Created.Equal(begin) || !x.Started.Equal(begin) {
		t.Errorf("created %s, started %s", x.Created, x.Started)
	}
	if _, _, err := r.Signal(t.Context(), store.Signal{Key: "event:now", ID: "1"}); err != nil {
		t.Fatal(err)
	}
	if list, err := r.store.SignalsFor(t.Context(), []string{"event:now"}); err != nil || len(list) != 1 || !list[0].At.Equal(begin) {
		t.Errorf("signals %+v, error %v", list, err)
	}
	passed.Store(int64(25 * time.Hour))
	if err := r.Resume(t.Context(), id); err != nil { // any request wakes the loop, which looks at its clock
		t.Fatal(err)
	}
	r.end(id, stepwell.ExecutionCompleted)
}
