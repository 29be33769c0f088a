package worker

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
)

func TestPrice(t *testing.T) {
	var given string
	r := &Runner{o: Options{Now: time.Now, Price: func(action string, calls int, seconds float64, outputs json.RawMessage) int64 {
		given = action + " " + string(outputs)
		if seconds < 0 {
			return 0
		}
		return int64(len(outputs)-1) + 1000*int64(calls-1)
	}}}
	a := &attempt{r: r, Prepared: Prepared{Task: &engine.Task{Step: &plan.Step{Action: "t.a"}}}}
	if got := a.price([]byte(`{"a":1}`)); got != 0 {
		t.Errorf("an attempt whose handler has not been called costs %d", got)
	}
	a.begun.Store(true)
	for outputs, want := range map[string]int64{`{"a":1}`: 6, "": 0} { // never below nothing
		if got := a.price([]byte(outputs)); got != want {
			t.Errorf("%s costs %d, want %d", outputs, got, want)
		}
	}
	if given[:3] != "t.a" {
		t.Errorf("was asked about %s", given)
	}
	a.Task.State = []byte("{}")
	if got := a.price(make([]byte, 2001)); got != 1000 {
		t.Errorf("an attempt that goes on costs %d, want 1000: its call has been counted", got)
	}
	r.o.Price = nil
	if got := a.price([]byte("{}")); got != 0 {
		t.Errorf("without prices it costs %d", got)
	}
}
