package builtin

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var clock = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// registry has all actions of the package, at the fixed time of clock.
func registry(t testing.TB) *action.Registry {
	t.Helper()
	r := new(action.Registry)
	if err := Register(r, Options{Now: func() time.Time { return clock }}); err != nil {
		t.Fatal(err)
	}
	return r
}

// run runs one attempt of the action of that name.
func run(t testing.TB, name string, c actiontest.Call) actiontest.Result {
	t.Helper()
	a, ok := registry(t).Lookup(name)
	if !ok {
		t.Fatalf("no action %s", name)
	}
	return actiontest.Run(t.Context(), *a, c)
}

// want checks that the attempt succeeded with exactly these outputs.
func want(t *testing.T, r actiontest.Result, outputs map[string]any) {
	t.Helper()
	if r.Err != nil {
		t.Fatalf("failed: %v", r.Err)
	}
	if diff := cmp.Diff(outputs, r.Outputs); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
}

// wantFail checks that the attempt failed for good and that the message has the text in it.
func wantFail(t *testing.T, r actiontest.Result, text string) {
	t.Helper()
	if r.Err == nil || !strings.Contains(r.Err.Error(), text) {
		t.Fatalf("got error %v, want one with %q", r.Err, text)
	}
	if !action.IsFail(r.Err) && stepwell.CodeOf(r.Err) != stepwell.CodeInvalid {
		t.Errorf("error %v would be retried", r.Err)
	}
}

type params = map[string]any

func TestRegister(t *testing.T) {
	r := registry(t)
	for _, alias := range []string{"log", "transform", "aggregate", "set_output", "fail", "filter", "switch", "wait_until", "while"} {
		if s, ok := r.Spec(alias); !ok || s.Name != "util."+alias {
			t.Errorf("alias %s leads to %v", alias, s)
		}
	}
	for alias, name := range map[string]string{"conditional": "util.condition", "delay": "util.wait"} {
		if s, ok := r.Spec(alias); !ok || s.Name != name {
			t.Errorf("alias %s leads to %v", alias, s)
		}
	}
	if err := Register(r, Options{}); stepwell.CodeOf(err) != stepwell.CodeConflict {
		t.Errorf("second Register: %v, want a conflict", err)
	}
}

func TestRegisterDefaultClock(t *testing.T) {
	r := new(action.Registry)
	if err := Register(r, Options{}); err != nil {
		t.Fatal(err)
	}
	a, _ := r.Lookup("util.wait")
	before := time.Now()
	got := actiontest.Run(t.Context(), *a, actiontest.Call{Params: params{"seconds": 60}})
	if got.Wait == nil || got.Wait.Until.Before(before.Add(time.Minute-time.Second)) || got.Wait.Until.After(time.Now().Add(time.Minute)) {
		t.Errorf("wait = %v (%v), want about a minute from now", got.Wait, got.Err)
	}
}

// TestSpecsDocumented makes sure that the reference page has something to say about every field.
func TestSpecsDocumented(t *testing.T) {
	for _, s := range registry(t).Specs() {
		if s.Summary == "" || len(s.Examples) == 0 {
			t.Errorf("%s lacks a summary or an example", s.Name)
		}
		for _, f := range append(slices.Clone(s.Params), s.Outputs...) {
			if f.Doc == "" {
				t.Errorf("%s: field %s has no sentence", s.Name, f.Name)
			}
		}
	}
}

// TestOutputsMatchSpecs runs each action once and compares what it returns with what its Spec says.
func TestOutputsMatchSpecs(t *testing.T) {
	calls := map[string]params{
		"util.aggregate":  {"inputs": []any{1}},
		"util.condition":  {"condition": true},
		"util.exec":       {"command": "echo x"},
		"util.filter":     {"items": []any{1}, "condition": true},
		"util.log":        {"message": "x"},
		"util.noop":       {},
		"util.switch":     {"value": "a", "cases": params{"a": 1}},
		"util.transform":  {"input": "x"},
		"util.wait":       {"seconds": 1},
		"util.wait_until": {"until_time": "2026-03-01T11:00:00Z"},
		"util.while":      {"condition": false, "action": "util.noop"},
	}
	for name, p := range calls {
		got := run(t, name, actiontest.Call{Params: p})
		if got.Err != nil {
			t.Errorf("%s: %v", name, got.Err)
		}
		s, _ := registry(t).Spec(name)
		var declared []string
		for _, f := range s.Outputs {
			declared = append(declared, f.Name)
		}
		slices.Sort(declared)
		if diff := cmp.Diff(declared, slices.Sorted(maps.Keys(got.Outputs))); diff != "" {
			t.Errorf("%s: outputs (-spec +got):\n%s", name, diff)
		}
	}
}

func TestLog(t *testing.T) {
	got := run(t, "util.log", actiontest.Call{Params: params{"message": "héllo", "level": "warning"}})
	want(t, got, params{"logged": true, "message": "héllo", "level": "warning"})
	if len(got.Logs) != 1 || got.Logs[0].Message != "héllo" || got.Logs[0].Level.String() != "WARN" {
		t.Errorf("logs = %v", got.Logs)
	}
	got = run(t, "util.log", actiontest.Call{Params: params{"message": params{"a": []any{int64(1) << 60, "<b>"}}}})
	want(t, got, params{"logged": true, "message": `{"a":[1152921504606846976,"<b>"]}`, "level": "info"})
	wantFail(t, run(t, "util.log", actiontest.Call{Params: params{"message": "x", "level": "loud"}}), "level")
	wantFail(t, run(t, "util.log", actiontest.Call{}), "message is missing")
}

func TestFail(t *testing.T) {
	wantFail(t, run(t, "util.fail", actiontest.Call{}), "INTENTIONAL_FAILURE: the step failed on purpose")
	got := run(t, "util.fail", actiontest.Call{Params: params{"message": "no data", "error_code": "EMPTY"}})
	wantFail(t, got, "EMPTY: no data")
	if stepwell.CodeOf(got.Err) != stepwell.CodeFailed || !action.IsFail(got.Err) {
		t.Errorf("code %s, fail %v", stepwell.CodeOf(got.Err), action.IsFail(got.Err))
	}
}

func TestSetOutput(t *testing.T) {
	want(t, run(t, "util.set_output", actiontest.Call{Params: params{"a": 1, "b": []any{"x"}, "none": nil}}),
		params{"a": int64(1), "b": []any{"x"}, "none": nil})
	want(t, run(t, "util.set_output", actiontest.Call{Params: params{"outputs": params{"a": 1.5}}}), params{"a": 1.5})
	want(t, run(t, "util.set_output", actiontest.Call{}), params{})
	wantFail(t, run(t, "util.set_output", actiontest.Call{Params: params{"outputs": params{}, "b": 1}}), "outputs stands beside 1 other")
	wantFail(t, run(t, "util.set_output", actiontest.Call{Params: params{"outputs": []any{}}}), "outputs")
}

func TestNoop(t *testing.T) {
	want(t, run(t, "util.noop", actiontest.Call{Params: params{"anything": 1}}), params{})
}

func TestWait(t *testing.T) {
	tests := map[string]struct {
		params params
		until  time.Time
	}{
		"seconds":          {params{"seconds": 90}, clock.Add(90 * time.Second)},
		"part of a second": {params{"seconds": 0.25}, clock.Add(250 * time.Millisecond)},
		"duration":         {params{"duration": "1h30m"}, clock.Add(90 * time.Minute)},
		"duration number":  {params{"duration": 5}, clock.Add(5 * time.Second)},
		"until":            {params{"until": "2026-03-01T14:00:00+01:00"}, clock.Add(time.Hour)},
		"one year":         {params{"seconds": 365 * 24 * 3600}, clock.Add(maxWait)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := run(t, "util.wait", actiontest.Call{Params: test.params})
			if got.Wait == nil || got.Wait.Resume || !got.Wait.Until.Equal(test.until) {
				t.Fatalf("wait = %+v (%v), want until %v", got.Wait, got.Err, test.until)
			}
			seconds := test.until.Sub(clock).Seconds()
			var waited any = seconds
			if seconds == float64(int64(seconds)) {
				waited = int64(seconds)
			}
			want(t, got, params{"waited_seconds": waited, "until": test.until.Format(stamp)})
		})
	}
}

func TestWaitNothing(t *testing.T) {
	for _, p := range []params{{"seconds": 0}, {"duration": "0s"}, {"until": "2026-03-01T12:00:00Z"}, {"until": "1999-01-01T00:00:00Z"}} {
		got := run(t, "util.wait", actiontest.Call{Params: p})
		if got.Wait != nil {
			t.Errorf("%v waits until %v", p, got.Wait.Until)
		}
		want(t, got, params{"waited_seconds": int64(0), "until": "2026-03-01T12:00:00.000Z"})
	}
}

func TestWaitRefuses(t *testing.T) {
	tests := []struct {
		params params
		text   string
	}{
		{params{}, "0 of them are given"},
		{params{"seconds": 1, "duration": "1s"}, "2 of them are given"},
		{params{"seconds": -1}, "at least 0"},
		{params{"seconds": 365*24*3600 + 1}, "at most 31536000"},
		{params{"seconds": "soon"}, "seconds"},
		{params{"duration": "8761h"}, "more than one year"},
		{params{"duration": "-1h"}, "duration"},
		{params{"duration": "sometime"}, "duration"},
		{params{"until": "2027-03-01T12:00:01Z"}, "more than one year"},
		{params{"until": "tomorrow"}, "until"},
	}
	for _, test := range tests {
		wantFail(t, run(t, "util.wait", actiontest.Call{Params: test.params}), test.text)
	}
}

// TestWaitValidate: a pipeline is validated with the parameters that hold no template, so nothing may be
// missed that another parameter could still bring.
func TestWaitValidate(t *testing.T) {
	r := registry(t)
	for _, test := range []struct {
		params params
		count  int
	}{{params{}, 0}, {params{"until": "2099-01-01T00:00:00Z"}, 0}, {params{"duration": "9000h", "until": "x"}, 3}} {
		if problems := r.Validate("util.wait", test.params); len(problems) != test.count {
			t.Errorf("%v: %v, want %d problems", test.params, errors.Join(problems...), test.count)
		}
	}
}

// TestPanicFree calls handlers with parameters that no Spec let through.
func TestPanicFree(t *testing.T) {
	r := registry(t)
	odd := []any{nil, true, 1, 1.5, "", "x", []any{}, []any{nil}, []any{params{}}, params{}, params{"id": 1}}
	names := []string{"command", "input", "stdin", "env", "pass_env", "success_codes", "condition", "branches", "operation",
		"keys", "expression", "inputs", "separator", "seconds", "duration", "until", "message", "level", "outputs", "error_code", "grace_seconds",
		"true_result", "cases", "default", "value", "items", "duration_hours", "until_time", "timezone", "action", "action_params", "max_iterations"}
	for _, action := range r.Names() {
		for _, name := range names {
			for _, value := range odd {
				if action == "util.exec" && name == "command" && value == "x" {
					continue // would start a program
				}
				callRaw(t.Context(), r, action, params{name: value})
			}
		}
	}
}

func callRaw(ctx context.Context, r *action.Registry, name string, p params) (any, error) {
	a, _ := r.Lookup(name)
	r.Validate(name, p)
	return a.Handler.Run(ctx, &action.Call{Params: p, Host: discard{}})
}

// discard is a host that takes logs and knows nothing.
type discard struct{ action.Host }

// Log implements action.Host.
func (discard) Log(slog.Level, string, ...slog.Attr) {}

// Eval implements action.Host.
func (discard) Eval(template string, _ map[string]any) (any, error) { return template, nil }
