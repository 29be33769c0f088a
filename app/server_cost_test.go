package app_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/spec"
)

// chat is a service that counts tokens; its answers may be long, and its first attempt may fail.
func chat(r *action.Registry) error {
	s := spec.Spec{Name: "llm.chat", Aliases: []string{"chat"}, Summary: "For tests.", Params: []spec.Field{{Name: "length", Type: spec.Integer, Doc: "Of the answer."}, {Name: "flaky", Type: spec.Boolean, Doc: "Whether it fails once."},
		{Name: "hears", Type: spec.Boolean, Doc: "Whether it writes down what it hears."}, {Name: "refuses", Type: spec.Boolean, Doc: "Whether it fails, and has been paid."}}}
	return r.Add(action.Action{Spec: s, Handler: action.HandlerFunc(func(_ context.Context, call *action.Call) (any, error) {
		if call.Params["flaky"] == true && call.Attempt == 1 {
			return nil, errors.New("not yet")
		}
		n, _ := call.Params["length"].(int64)
		if call.Params["hears"] == true {
			return object{"text": "hello", "duration": 2.5}, nil
		}
		out := object{"text": strings.Repeat("x", int(n)), "usage": object{"input_tokens": 1000, "output_tokens": 37}}
		if call.Params["refuses"] == true {
			return nil, action.Fail(action.Used(out["usage"], errors.New("it is not what was asked for")))
		}
		return out, nil
	})})
}

// What calls have cost is summed over steps, iterations, attempts and restarts, to the millionth.
func TestServerAddsUpCosts(t *testing.T) {
	g := newGate()
	s := serve(t, filepath.Join(t.TempDir(), "a.db"), g, func(o *app.ServerOptions) {
		o.Register = chat
		o.Prices = map[string]app.Price{"llm.chat": {PerCall: 10_000_000_000, PerInputToken: 2_500_000, PerOutputToken: 10_000_000}}
	})
	id := fmt.Sprint(s.post("/execute", `{"workflow_definition": {"name": "costly", "steps": [
		{"id": "one", "action": "llm.chat"},
		{"id": "named", "action": "chat", "params": {"flaky": true}, "retry": {"max_attempts": 2, "backoff_seconds": 0.001}},
		{"id": "long", "action": "llm.chat", "params": {"length": 1000000}},
		{"id": "each", "action": "llm.chat", "for_each": "{{ [1, 2, 3] }}", "depends_on": ["one", "named", "long"]},
		{"id": "free", "action": "util.log", "params": {"message": "here"}}]}}`)["execution_id"])
	const single = "0.01287" // 0.01 + 1000 * 0.0000025 + 37 * 0.00001
	if x := s.settled(id); x["cost"] != "0.08722" || x["status"] != "completed" {
		t.Errorf("it %v and cost %v, want 6 times %s and a failed call", x["status"], x["cost"], single)
	}
	_, page := s.request("GET", "/api/v1/executions/"+id+"/steps")
	costs := map[string]any{}
	for _, one := range page["steps"].([]any) {
		step := one.(object)
		costs[fmt.Sprint(step["step_id"])] = step["cost"]
	}
	for _, step := range []string{"one", "long", "each[0]", "each[2]"} {
		if costs[step] != single {
			t.Errorf("%s cost %v, want %s", step, costs[step], single)
		}
	}
	if costs["named"] != "0.02287" {
		t.Errorf("named cost %v with an attempt that failed", costs["named"])
	}
	if costs["free"] != nil {
		t.Errorf("what has no price cost %v", costs["free"])
	}
	s.post("/executions/"+id+"/restart", `{"step_id": "each"}`)
	s.until("the end of the restart", func() bool { return s.settled(id)["cost"] == "0.12583" })
	_, page = s.request("GET", "/api/v1/executions")
	if list := page["executions"].([]any); len(list) != 1 || list[0].(object)["cost"] != "0.12583" {
		t.Errorf("the list has %v", list)
	}
	s.Drain()
	s.ended()
}

// The tokens and seconds that models have used are summed over steps, iterations and restarts also without prices, and each step shows its
// own. A failed attempt has used what its error says.
func TestServerAddsUpUsage(t *testing.T) {
	g := newGate()
	place := filepath.Join(t.TempDir(), "a.db")
	s := serve(t, place, g, func(o *app.ServerOptions) { o.Register = chat })
	id := fmt.Sprint(s.post("/execute", `{"workflow_definition": {"name": "used", "steps": [
		{"id": "one", "action": "llm.chat"},
		{"id": "long", "action": "llm.chat", "params": {"length": 1000000}},
		{"id": "each", "action": "llm.chat", "for_each": "{{ [1, 2, 3] }}", "depends_on": ["one", "long"]},
		{"id": "heard", "action": "llm.chat", "params": {"hears": true}},
		{"id": "lost", "action": "llm.chat", "params": {"refuses": true}, "on_failure": "continue"},
		{"id": "free", "action": "util.log", "params": {"message": "here"}}]}}`)["execution_id"])
	x := s.settled(id)
	if x["input_tokens"] != 6000.0 || x["output_tokens"] != 222.0 || x["audio_seconds"] != 2.5 || x["cost"] != nil {
		t.Errorf("it has used %v, %v and %v and cost %v", x["input_tokens"], x["output_tokens"], x["audio_seconds"], x["cost"])
	}
	_, page := s.request("GET", "/api/v1/executions/"+id+"/steps")
	for _, one := range page["steps"].([]any) {
		step := one.(object)
		want := any(1000.0)
		if step["step_id"] == "each" || step["step_id"] == "free" || step["step_id"] == "heard" {
			want = nil
		}
		if step["input_tokens"] != want {
			t.Errorf("%s has read %v tokens, want %v", step["step_id"], step["input_tokens"], want)
		}
	}
	s.post("/executions/"+id+"/restart", `{"step_id": "each"}`)
	s.until("the end of the restart", func() bool { return s.settled(id)["input_tokens"] == 9000.0 })
	s.Drain()
	s.ended()
}
