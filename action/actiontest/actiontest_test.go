package actiontest_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
	"github.com/stepwell/stepwell/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func of(s spec.Spec, f func(ctx context.Context, call *action.Call) (any, error)) action.Action {
	if s.Name == "" {
		s.Name = "demo"
	}
	return action.Action{Spec: s, Handler: action.HandlerFunc(f)}
}

func TestRunCallDefaults(t *testing.T) {
	var seen action.Call
	a := of(spec.Spec{Params: []spec.Field{{Name: "n", Type: spec.Integer, Default: 7}, {Name: "s", Type: spec.String}}},
		func(ctx context.Context, call *action.Call) (any, error) {
			seen = *call
			if deadline, ok := ctx.Deadline(); !ok || !deadline.Equal(call.Deadline) {
				t.Errorf("deadline %v, call's %v", deadline, call.Deadline)
			}
			return nil, nil
		})
	start := time.Now()
	got := actiontest.Run(t.Context(), a, actiontest.Call{Params: map[string]any{"s": "x"}})
	if got.Err != nil || len(got.Outputs) != 0 || got.Outputs == nil {
		t.Fatalf("outputs %v, error %v", got.Outputs, got.Err)
	}
	if d := seen.Deadline.Sub(start); d < 5*time.Minute || d > 6*time.Minute {
		t.Errorf("deadline in %v, want five minutes", d)
	}
	seen.Host, seen.Deadline = nil, time.Time{}
	want := action.Call{Execution: "execution", Pipeline: "pipeline", StepKey: "demo", StepName: "demo", Action: "demo", Attempt: 1,
		Params: map[string]any{"n": int64(7), "s": "x"}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("call (-want +got):\n%s", diff)
	}
}

func TestRunCallGiven(t *testing.T) {
	var seen action.Call
	a := of(spec.Spec{OpenParams: true, Timeout: time.Hour}, func(_ context.Context, call *action.Call) (any, error) {
		seen = *call
		return nil, nil
	})
	got := actiontest.Run(t.Context(), a, actiontest.Call{Execution: "e", Pipeline: "p", StepName: "n", StepKey: "n:1", Attempt: 4, Dir: "/d",
		State: map[string]any{"page": 2}, Params: map[string]any{"any": 1}, Timeout: time.Minute})
	if got.Err != nil {
		t.Fatal(got.Err)
	}
	if d := time.Until(seen.Deadline); d > time.Minute {
		t.Errorf("deadline in %v; the call's timeout must come before the action's", d)
	}
	seen.Host, seen.Deadline = nil, time.Time{}
	want := action.Call{Execution: "e", Pipeline: "p", StepKey: "n:1", StepName: "n", Action: "demo", Attempt: 4, Dir: "/d",
		State: json.RawMessage(`{"page":2}`), Params: map[string]any{"any": 1}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("call (-want +got):\n%s", diff)
	}
}

func TestRunChecksParams(t *testing.T) {
	ran := false
	a := of(spec.Spec{Params: []spec.Field{{Name: "n", Type: spec.Integer, Required: true}}}, func(context.Context, *action.Call) (any, error) {
		ran = true
		return nil, nil
	})
	got := actiontest.Run(t.Context(), a, actiontest.Call{Params: map[string]any{"m": 1}})
	if stepwell.CodeOf(got.Err) != stepwell.CodeInvalid || !strings.Contains(got.Err.Error(), "n is missing") || !strings.Contains(got.Err.Error(), "m is unknown") {
		t.Errorf("got %v", got.Err)
	}
	a.Spec.Params[0].Default = 1
	if got = actiontest.Run(t.Context(), a, actiontest.Call{}); got.Err == nil || !strings.Contains(got.Err.Error(), "required and has a default") {
		t.Errorf("a Spec that contradicts itself: %v", got.Err)
	}
	if ran {
		t.Error("the handler ran all the same")
	}
}

func TestRunOutputs(t *testing.T) {
	returns := func(value any, err error) actiontest.Result {
		return actiontest.Run(t.Context(), of(spec.Spec{}, func(context.Context, *action.Call) (any, error) { return value, err }), actiontest.Call{})
	}
	got := returns(struct {
		N int64   `json:"n"`
		F float64 `json:"f"`
	}{1<<62 + 1, 0.5}, nil)
	if diff := cmp.Diff(map[string]any{"n": int64(1<<62 + 1), "f": 0.5}, got.Outputs); diff != "" || got.Err != nil {
		t.Errorf("%v (-want +got):\n%s", got.Err, diff)
	}
	if got = returns([]int{1}, nil); got.Err == nil || got.Outputs != nil {
		t.Errorf("a list as outputs: %v, %v", got.Outputs, got.Err)
	}
	if got = returns(map[string]any{"a": 1}, errors.New("broken")); got.Err == nil || got.Outputs != nil {
		t.Errorf("outputs beside an error: %v, %v", got.Outputs, got.Err)
	}
	until := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	got = returns(nil, action.WaitUntil(until, map[string]any{"a": 1}))
	if got.Err != nil || got.Wait == nil || !got.Wait.Until.Equal(until) || got.Outputs["a"] != int64(1) {
		t.Errorf("wait: %+v", got)
	}
	got = returns(nil, action.Poll(until, "job-1", map[string]any{"page": 2}))
	if got.Wait == nil || !got.Wait.Resume || got.Wait.ExternalID != "job-1" || string(got.Wait.State) != `{"page":2}` {
		t.Errorf("poll: %+v", got)
	}
	got = returns(nil, action.Skip("nothing new"))
	if reason, ok := got.Skipped(); !ok || reason != "nothing new" {
		t.Errorf("skip: %v", got.Err)
	}
	if _, ok := (&actiontest.Result{}).Skipped(); ok {
		t.Error("a success is skipped")
	}
}

func TestRunCancelAndTimeout(t *testing.T) {
	a := of(spec.Spec{}, func(ctx context.Context, _ *action.Call) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := actiontest.Run(ctx, a, actiontest.Call{}); !errors.Is(got.Err, context.Canceled) {
		t.Errorf("cancel: %v", got.Err)
	}
	if got := actiontest.Run(t.Context(), a, actiontest.Call{Timeout: time.Millisecond}); !errors.Is(got.Err, context.DeadlineExceeded) {
		t.Errorf("timeout: %v", got.Err)
	}
}

func TestHostSpawn(t *testing.T) {
	step := func(n int) action.NewStep {
		return action.NewStep{Name: "demo", Key: "k", Params: map[string]any{"n": n}}
	}
	spawns := func(steps ...action.NewStep) actiontest.Result {
		return actiontest.Run(t.Context(), of(spec.Spec{}, func(ctx context.Context, call *action.Call) (any, error) {
			if err := call.Spawn(ctx, steps[:1]...); err != nil {
				return nil, err
			}
			return nil, call.Spawn(ctx, steps[1:]...)
		}), actiontest.Call{})
	}
	if got := spawns(step(1), step(1), action.NewStep{Name: "demo"}); got.Err != nil || len(got.Spawned) != 2 || got.Spawned[0].StepKey() != "demo:k" {
		t.Errorf("the same step twice: %v, %v", got.Spawned, got.Err)
	}
	got := spawns(step(1), action.NewStep{Name: "demo"}, step(2))
	if stepwell.CodeOf(got.Err) != stepwell.CodeConflict || len(got.Spawned) != 1 {
		t.Errorf("other params: %v, %v; want a conflict and nothing of the second call", got.Err, got.Spawned)
	}
	if got := spawns(action.NewStep{Name: "unknown"}); stepwell.CodeOf(got.Err) != stepwell.CodeNotFound {
		t.Errorf("unknown action: %v", got.Err)
	}
}

func TestHostScope(t *testing.T) {
	a := of(spec.Spec{}, func(ctx context.Context, call *action.Call) (any, error) {
		data, err := call.Host.Data(ctx)
		if err != nil {
			return nil, err
		}
		outputs, err := call.Host.Outputs(ctx, "scan")
		if err != nil {
			return nil, err
		}
		if _, err := call.Host.Outputs(ctx, "other"); stepwell.CodeOf(err) != stepwell.CodeNotFound {
			t.Errorf("outputs of an unknown step: %v", err)
		}
		sum, err := call.Host.Eval("{{ a + b }}", map[string]any{"b": 2})
		if err != nil {
			return nil, err
		}
		if _, err := call.Host.Eval("{{ b }}", nil); err == nil {
			t.Error("an extra name is still known later")
		}
		return map[string]any{"data": data["files"], "outputs": outputs, "sum": sum}, nil
	})
	got := actiontest.Run(t.Context(), a, actiontest.Call{Data: map[string]any{"files": []string{"x"}},
		Outputs: map[string]any{"scan": map[string]any{"n": 1}}, Scope: map[string]any{"a": 40}})
	want := map[string]any{"data": []any{"x"}, "outputs": map[string]any{"n": int64(1)}, "sum": int64(42)}
	if diff := cmp.Diff(want, got.Outputs); diff != "" || got.Err != nil {
		t.Errorf("%v (-want +got):\n%s", got.Err, diff)
	}
}

// TestHostConcurrent is of use with the race detector.
func TestHostConcurrent(t *testing.T) {
	a := of(spec.Spec{}, func(ctx context.Context, call *action.Call) (any, error) {
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				call.Log("line", slog.Int("n", 1))
				call.Host.Progress(0.5, "half")
				if err := call.Spawn(ctx, action.NewStep{Name: "demo"}); err != nil {
					t.Error(err)
				}
				if _, err := action.Once(ctx, call, "key", func(context.Context) (int, error) { return 1, nil }); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		return nil, nil
	})
	got := actiontest.Run(t.Context(), a, actiontest.Call{})
	if len(got.Logs) != 20 || len(got.Progress) != 20 || len(got.Spawned) != 1 || string(got.Memory["key"]) != "1" {
		t.Errorf("%d lines, %d reports, %d steps, memory %v", len(got.Logs), len(got.Progress), len(got.Spawned), got.Memory)
	}
}
