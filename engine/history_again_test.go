package engine_test

import (
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
)

// A failed attempt that is followed by another one says so, and when, as long as the step waits for it; the failure that ends a
// step has its hint.
func TestHistoryOfAttempts(t *testing.T) {
	failure := &engine.Failure{Message: "boom", Hint: "less powder"}
	of := func(row engine.HistoryRow) engine.HistoryEvent {
		h := &engine.History{IDs: []string{"a"}, Rows: map[int32]engine.HistoryRow{0: row},
			Batches: []*engine.Batch{{Version: 3, At: 5, Events: []engine.Event{{Kind: engine.Failed, Epoch: 1, At: 5, Failure: failure}}}}}
		events := h.Events()
		if len(events) != 1 || events[0].Type != "failed" || events[0].Detail != "boom" {
			t.Fatalf("events %+v", events)
		}
		return events[0]
	}
	waits := engine.HistoryRow{Version: 3, StepRow: engine.StepRow{Status: stepwell.StepRetrying, Wake: 9}}
	if e := of(waits); !e.Again || !e.Wake.Equal(time.UnixMicro(9)) {
		t.Errorf("it waits: %+v", e)
	}
	if e := of(engine.HistoryRow{Version: 4, StepRow: engine.StepRow{Status: stepwell.StepCompleted}}); !e.Again || !e.Wake.IsZero() {
		t.Errorf("it continued: %+v", e)
	}
	if e := of(engine.HistoryRow{Version: 3, StepRow: engine.StepRow{Status: stepwell.StepFailed, Ended: 5, Error: failure}}); e.Again || e.Hint != "less powder" {
		t.Errorf("it ended: %+v", e)
	}
}
