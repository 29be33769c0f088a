package worker

import (
	"encoding/json"
	"testing"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
)

func TestPrice(t *testing.T) {
	var given string
	p := &Pool{o: Options{Price: func(action string, seconds float64, outputs json.RawMessage) int64 {
		given = action + " " + string(outputs)
		if seconds < 0 {
			return 0
		}
		return int64(len(outputs)) - 1
	}}}
	j := &job{task: &engine.Task{Step: &plan.Step{Action: "t.a"}}}
	for outputs, want := range map[string]int64{`{"a":1}`: 6, "": 0} { // never below nothing
		if got := p.price(j, []byte(outputs)); got != want {
			t.Errorf("%s costs %d, want %d", outputs, got, want)
		}
	}
	if given[:3] != "t.a" {
		t.Errorf("was asked about %s", given)
	}
	p.o.Price = nil
	if got := p.price(j, []byte("{}")); got != 0 {
		t.Errorf("without prices it costs %d", got)
	}
}
