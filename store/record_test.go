package store_test

import (
	"reflect"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// A row's rare columns come back as they were, with its rendered params and without, and also behind what memory had in it before.
func TestExtra(t *testing.T) {
	input := []byte(`{"data":"a \"quoted\" text\nwith <tags> & ü \u0001"}`)
	for _, r := range []engine.StepRow{
		{},
		{Input: input},
		{Key: "a:b", Action: "noop"},
		{Key: "each[17].ü"},
		{Key: `each "1"`, Action: `a\b`},
		{Key: "a", Wake: 3},
		{Key: "a", Action: "b", Cost: 3},
		{Action: "b"},
		{Input: input, Key: "a:b", Error: &engine.Failure{Code: stepwell.CodeFailed, Message: "<no>"}, Wake: 5, External: "x", Cost: 7,
			Usage: stepwell.Usage{InputTokens: 1, OutputTokens: 2}, Counted: &engine.Items{In: 3}},
	} {
		x := store.ExtraOf(&r)
		raw, err := x.Append([]byte("before"), r.Input)
		if err != nil {
			t.Fatal(err)
		}
		var got engine.StepRow
		if err := store.DecodeExtra(raw[len("before"):], &got); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%s is read as %+v, %v", raw, got, err)
		}
		x.Input = string(r.Input)
		if again, err := x.Encode(); err != nil || string(again) != string(raw[len("before"):]) {
			t.Errorf("encoded as %s, %v instead of %s", again, err, raw)
		}
	}
}
