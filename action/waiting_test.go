package action_test

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// poller begins work in Run and looks after it in Poll.
type poller struct{}

func (poller) Run(context.Context, *action.Call) (any, error)  { return "run", nil }
func (poller) Poll(context.Context, *action.Call) (any, error) { return "poll", nil }

func TestAttempt(t *testing.T) {
	plain := action.HandlerFunc(func(context.Context, *action.Call) (any, error) { return "run", nil })
	for _, test := range []struct {
		handler action.Handler
		state   json.RawMessage
		want    string
	}{{poller{}, nil, "run"}, {poller{}, json.RawMessage("null"), "poll"}, {plain, json.RawMessage("1"), "run"}} {
		a := action.Action{Handler: test.handler}
		if got, err := a.Attempt(t.Context(), &action.Call{State: test.state}); got != test.want || err != nil {
			t.Errorf("%T with state %s: %v, error %v; want %s", test.handler, test.state, got, err, test.want)
		}
	}
}

func TestRedact(t *testing.T) {
	secret := spec.Field{Name: "s", Secret: true}
	a := action.Action{Spec: spec.Spec{Params: []spec.Field{{Name: "plain"}, secret, {Name: "in", Type: spec.Object, Fields: []spec.Field{secret, {Name: "x"}}},
		{Name: "list", Type: spec.Array, Items: &secret}}}}
	given := map[string]any{"plain": 1, "s": "a", "in": map[string]any{"s": "b", "x": 2}, "list": []any{"c", "d"}, "other": "e"}
	before := map[string]any{"plain": 1, "s": "a", "in": map[string]any{"s": "b", "x": 2}, "list": []any{"c", "d"}, "other": "e"}
	want := map[string]any{"plain": 1, "s": "***", "in": map[string]any{"s": "***", "x": 2}, "list": []any{"***", "***"}, "other": "e"}
	if got := a.Redact(given); !reflect.DeepEqual(got, want) {
		t.Errorf("shown %v", got)
	}
	if !reflect.DeepEqual(given, before) {
		t.Errorf("the parameters were changed to %v", given)
	}
	if !a.Secretive() || (&action.Action{Spec: spec.Spec{Params: []spec.Field{{Name: "p"}}}}).Secretive() {
		t.Error("Secretive is wrong")
	}
	if got := a.Redact(map[string]any{"s": nil, "in": "no object", "list": 3}); !reflect.DeepEqual(got, map[string]any{"s": nil, "in": "no object", "list": 3}) {
		t.Errorf("odd values are shown as %v", got)
	}
	if got := a.Redact(nil); got != nil {
		t.Errorf("nil is shown as %v", got)
	}
}
