package worker

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
)

func TestPrice(t *testing.T) {
	var given string
	r := &Runner{o: Options{Now: time.Now, Price: func(action string, calls int, _ time.Time, outputs json.RawMessage) stepwell.Spending {
		given = action + " " + string(outputs)
		return stepwell.Spending{Cost: int64(len(outputs)-1) + 1000*int64(calls-1), Usage: stepwell.Usage{OutputTokens: int64(len(outputs))}}
	}}}
	a := &attempt{r: r, Prepared: Prepared{Task: &engine.Task{Step: &plan.Step{Action: "t.a"}}}}
	price := func(outputs []byte) int64 {
		var ev engine.Event
		if a.pay(&ev, outputs); ev.OutputTokens != int64(len(outputs)) && ev.OutputTokens != 0 {
			t.Errorf("%s has %+v", outputs, ev.Usage)
		}
		return ev.Cost
	}
	if got := price([]byte(`{"a":1}`)); got != 0 {
		t.Errorf("an attempt whose handler has not been called costs %d", got)
	}
	a.begun.Store(true)
	for outputs, want := range map[string]int64{`{"a":1}`: 6, "": 0} { // never below nothing
		if got := price([]byte(outputs)); got != want {
			t.Errorf("%s costs %d, want %d", outputs, got, want)
		}
	}
	if given[:3] != "t.a" {
		t.Errorf("was asked about %s", given)
	}
	a.Task.State = []byte("{}")
	if got := price(make([]byte, 2001)); got != 1000 {
		t.Errorf("an attempt that continues costs %d, want 1000: its call has been counted", got)
	}
	r.o.Price = nil
	if got := price([]byte("{}")); got != 0 {
		t.Errorf("without prices it costs %d", got)
	}
}
