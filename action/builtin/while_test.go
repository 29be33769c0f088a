package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/spec"
)

// counting has an action that notes its calls and does what it is told.
func counting(t *testing.T, do func(call *action.Call) (any, error)) (*action.Registry, *[]*action.Call) {
	t.Helper()
	r, calls := registry(t), new([]*action.Call)
	handler := action.HandlerFunc(func(_ context.Context, call *action.Call) (any, error) {
		*calls = append(*calls, call)
		return do(call)
	})
	fields := []spec.Field{{Name: "n", Type: spec.Integer, Default: 7}, {Name: "late", Type: spec.String, Raw: true}}
	if err := r.Add(action.Action{Spec: spec.Spec{Name: "count", Params: fields}, Handler: handler}); err != nil {
		t.Fatal(err)
	}
	return r, calls
}

// whole runs a loop to its end, as the engine does with a step that waits, and gives the pauses.
func whole(t *testing.T, r *action.Registry, p params) (actiontest.Result, []time.Duration) {
	t.Helper()
	a, _ := r.Lookup("while")
	call := actiontest.Call{Params: p, StepKey: "loop", Registry: r, Memory: map[string]json.RawMessage{}}
	var pauses []time.Duration
	for {
		got := actiontest.Run(t.Context(), *a, call)
		if got.Wait == nil {
			return got, pauses
		}
		pauses = append(pauses, got.Wait.Until.Sub(clock))
		call.State = got.Wait.State
	}
}

func TestWhile(t *testing.T) {
	r, calls := counting(t, func(call *action.Call) (any, error) { return params{"n": call.Params["n"]}, nil })
	got, pauses := whole(t, r, params{"condition": "{{ result.n < 3 }}", "action": "count", "delay_seconds": 2.5,
		"action_params": params{"n": "{{ (result.n | default(0)) + 1 }}", "late": "{{ nothing }}"}})
	want(t, got, params{"result": params{"n": int64(3)}, "iterations": int64(3)})
	if diff := cmp.Diff([]time.Duration{2500 * time.Millisecond, 2500 * time.Millisecond}, pauses); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
	var keys []string
	for _, call := range *calls {
		keys = append(keys, call.IdempotencyKey()+" "+call.Action)
		if call.Params["late"] != "{{ nothing }}" || call.State != nil {
			t.Errorf("params %v, state %s", call.Params, call.State)
		}
	}
	if diff := cmp.Diff([]string{"execution/loop#0 count", "execution/loop#1 count", "execution/loop#2 count"}, keys); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// The action runs before the condition is looked at, with the defaults of its own description.
func TestWhileRunsOnce(t *testing.T) {
	for _, condition := range []any{false, "result.n != 7", "{{ result.x | default(false) }}", "iteration > 1"} {
		r, calls := counting(t, func(call *action.Call) (any, error) { return params{"n": call.Params["n"]}, nil })
		got, _ := whole(t, r, params{"condition": condition, "action": "count"})
		want(t, got, params{"result": params{"n": int64(7)}, "iterations": int64(1)})
		if len(*calls) != 1 {
			t.Errorf("%v: %d calls", condition, len(*calls))
		}
	}
}

func TestWhileLimits(t *testing.T) {
	r, calls := counting(t, func(*action.Call) (any, error) { return nil, nil })
	got, _ := whole(t, r, params{"condition": true, "action": "count", "max_iterations": 4})
	wantFail(t, got, "the condition still holds after 4 runs")
	if stepwell.CodeOf(got.Err) != stepwell.CodeLimit || !strings.Contains(stepwell.HintOf(got.Err), "max_iterations") || len(*calls) != 4 {
		t.Errorf("code %s, hint %q, %d calls", stepwell.CodeOf(got.Err), stepwell.HintOf(got.Err), len(*calls))
	}
	got, _ = whole(t, r, params{"condition": true, "action": "count"})
	wantFail(t, got, "after 100 runs")
	*calls = nil
	got, _ = whole(t, r, params{"condition": true, "action": "count", "delay_seconds": 60, "timeout_seconds": 59})
	wantFail(t, got, "after 1 runs and timeout_seconds: 59s")
	if stepwell.CodeOf(got.Err) != stepwell.CodeTimeout || len(*calls) != 1 {
		t.Errorf("code %s, %d calls", stepwell.CodeOf(got.Err), len(*calls))
	}
	large, _ := counting(t, func(*action.Call) (any, error) { return params{"x": strings.Repeat("x", maxPassed)}, nil })
	got, _ = whole(t, large, params{"condition": true, "action": "count"})
	wantFail(t, got, "its outputs are 1048584 bytes, the limit in a loop is 1048576")
}

// What the inner action says about its failure is the step's.
func TestWhileFailures(t *testing.T) {
	for _, err := range []error{errors.New("no luck"), action.Fail(errors.New("no luck")), action.Defer(time.Minute, errors.New("no luck")), action.Skip("no luck")} {
		r, _ := counting(t, func(*action.Call) (any, error) { return nil, err })
		got, _ := whole(t, r, params{"condition": true, "action": "count"})
		if !errors.Is(got.Err, err) || got.Err.Error() != "run 1: no luck" {
			t.Errorf("%v became %v", err, got.Err)
		}
	}
	waits, _ := counting(t, func(*action.Call) (any, error) { return nil, action.WaitUntil(clock, nil) })
	got, _ := whole(t, waits, params{"condition": true, "action": "count"})
	wantFail(t, got, "count wants to wait")
	odd, _ := counting(t, func(*action.Call) (any, error) { return []int{1}, nil })
	got, _ = whole(t, odd, params{"condition": true, "action": "count"})
	wantFail(t, got, "not a JSON object")
	spawns, _ := counting(t, func(call *action.Call) (any, error) {
		return nil, call.Spawn(t.Context(), action.NewStep{Name: "count"})
	})
	got, _ = whole(t, spawns, params{"condition": true, "action": "count"})
	wantFail(t, got, "cannot spawn steps")
}

// What a run remembers is its own: Once in the second run does not see the first.
func TestWhileMemory(t *testing.T) {
	var results []int
	r, calls := counting(t, nil)
	a, _ := r.Lookup("count")
	a.Handler = action.HandlerFunc(func(ctx context.Context, call *action.Call) (any, error) {
		*calls = append(*calls, call)
		v, err := action.Once(ctx, call, "n", func(context.Context) (int, error) { return len(*calls), nil })
		results = append(results, v)
		n, eval := call.Host.Eval("{{ iteration * 10 + extra }}", map[string]any{"extra": 1})
		return params{"n": n}, errors.Join(err, eval)
	})
	got, _ := whole(t, r, params{"condition": "iteration < 3", "action": "count"})
	want(t, got, params{"result": params{"n": int64(21)}, "iterations": int64(3)})
	if fmt.Sprint(results) != "[1 2 3]" {
		t.Errorf("results %v", results)
	}
}

func TestWhileRefuses(t *testing.T) {
	r := registry(t)
	noop := action.HandlerFunc(func(context.Context, *action.Call) (any, error) { return nil, nil })
	err := r.Add(action.Action{Spec: spec.Spec{Name: "once", NotIdempotent: true}, Handler: noop}, action.Action{Spec: spec.Spec{Name: "many", Spawns: []string{"x"}}, Handler: noop})
	if err != nil {
		t.Fatal(err)
	}
	a, _ := r.Lookup("while")
	for _, test := range []struct {
		params params
		text   string
	}{
		{params{"action": "util.noop"}, "condition is missing"},
		{params{"condition": true}, "action is missing"},
		{params{"condition": "{{ 1 +", "action": "util.noop"}, "condition: 1:"},
		{params{"condition": true, "action": "util.nop"}, `unknown action "util.nop"`},
		{params{"condition": true, "action": "delay"}, "delay waits"},
		{params{"condition": true, "action": "util.wait_until"}, "util.wait_until waits"},
		{params{"condition": true, "action": "while"}, "while waits"},
		{params{"condition": true, "action": "once"}, "must not run twice"},
		{params{"condition": true, "action": "many"}, "spawns steps"},
		{params{"condition": true, "action": "util.log", "action_params": params{}}, "action_params: message is missing"},
		{params{"condition": true, "action": "util.log", "action_params": params{"message": "{{ nothing }}"}}, "action_params: message: 1:4: nothing is undefined"},
		{params{"condition": true, "action": "util.condition", "action_params": params{"condition": 1, "branches": []any{params{"id": "a"}}}}, "action_params: condition stands beside branches"},
		{params{"condition": true, "action": "util.noop", "max_iterations": 0}, "at least 1"},
		{params{"condition": true, "action": "util.noop", "delay_seconds": -1}, "at least 0"},
	} {
		wantFail(t, actiontest.Run(t.Context(), *a, actiontest.Call{Params: test.params, Registry: r}), test.text)
	}
}
