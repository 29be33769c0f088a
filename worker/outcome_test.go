package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/worker"
)

type cannotMarshal struct{}

func (cannotMarshal) MarshalJSON() ([]byte, error) { panic("no JSON of me") }

// A handler's results, and the outcomes of its step. Every step has three attempts.
var outcomes = []struct {
	name    string
	handler action.HandlerFunc
	status  stepwell.StepStatus
	attempt int
	output  string
	code    stepwell.Code
	message string // part of it
}{
	{name: "nil", handler: gives(nil, nil), status: stepwell.StepCompleted, attempt: 1},
	{name: "a map", handler: gives(map[string]any{"a": 1}, nil), status: stepwell.StepCompleted, attempt: 1, output: `{"a":1}`},
	{name: "a struct", handler: gives(struct {
		A int `json:"a"`
	}{2}, nil), status: stepwell.StepCompleted, attempt: 1, output: `{"a":2}`},
	{name: "raw JSON", handler: gives(json.RawMessage("\n {\"a\": 3} "), nil), status: stepwell.StepCompleted, attempt: 1, output: `{"a": 3}`},
	{name: "null", handler: gives(json.RawMessage(" null "), nil), status: stepwell.StepCompleted, attempt: 1},
	{name: "a nil map", handler: gives(map[string]any(nil), nil), status: stepwell.StepCompleted, attempt: 1, output: `{}`},
	{name: "a list", handler: gives([]int{1}, nil), status: stepwell.StepFailed, attempt: 1, code: stepwell.CodeInvalid, message: "not a JSON object"},
	{name: "a text", handler: gives("x", nil), status: stepwell.StepFailed, attempt: 1, code: stepwell.CodeInvalid, message: "not a JSON object"},
	{name: "half JSON", handler: gives(json.RawMessage(`{"a":`), nil), status: stepwell.StepFailed, attempt: 1, code: stepwell.CodeInvalid, message: "not a JSON object"},
	{name: "a channel", handler: gives(map[string]any{"a": make(chan int)}, nil), status: stepwell.StepFailed, attempt: 1, code: stepwell.CodeInvalid, message: "cannot be written"},
	{name: "JSON that panics", handler: gives(map[string]any{"a": cannotMarshal{}}, nil), status: stepwell.StepFailed, attempt: 3, code: stepwell.CodePanic},
	{name: "too much", handler: gives(json.RawMessage(`{"a":"`+strings.Repeat("x", worker.MaxOutput)+`"}`), nil), status: stepwell.StepFailed, attempt: 1, code: stepwell.CodeLimit, message: "16 MiB"},
	{name: "an error", handler: gives(nil, errors.New("no luck")), status: stepwell.StepFailed, attempt: 3, code: stepwell.CodeFailed, message: "no luck"},
	{name: "a coded error", handler: gives(nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "away", Hint: "wait"}), status: stepwell.StepFailed, attempt: 3, code: stepwell.CodeUnavailable, message: "away"},
	{name: "a long error", handler: gives(nil, errors.New(strings.Repeat("ä", 50_000))), status: stepwell.StepFailed, attempt: 3, code: stepwell.CodeFailed, message: "(shortened)"},
	{name: "Fail", handler: gives(nil, action.Fail(errors.New("for good"))), status: stepwell.StepFailed, attempt: 1, code: stepwell.CodeFailed, message: "for good"},
	{name: "Fail(nil)", handler: gives(nil, action.Fail(nil)), status: stepwell.StepFailed, attempt: 3, code: stepwell.CodePanic, message: "what the action returned panicked"},
	{name: "Retry(nil)", handler: gives(nil, action.Retry(0, nil)), status: stepwell.StepFailed, attempt: 3, code: stepwell.CodePanic},
	{name: "a panic", handler: func(context.Context, *action.Call) (any, error) { panic("at the disco") }, status: stepwell.StepFailed, attempt: 3, code: stepwell.CodePanic, message: "at the disco"},
	{name: "a nil pointer", handler: func(_ context.Context, c *action.Call) (any, error) { var p *action.Call; return p.Attempt, nil }, status: stepwell.StepFailed, attempt: 3, code: stepwell.CodePanic, message: "nil pointer"},
	{name: "Retry", handler: func(_ context.Context, c *action.Call) (any, error) {
		if c.Attempt < 2 {
			return nil, action.Retry(time.Millisecond, errors.New("once more"))
		}
		return map[string]any{"attempt": c.Attempt}, nil
	}, status: stepwell.StepCompleted, attempt: 2, output: `{"attempt":2}`},
	{name: "Defer", handler: deferring(5), status: stepwell.StepCompleted, attempt: 1, output: `{"attempt":1}`},
	{name: "Skip", handler: gives(nil, action.Skip("not today")), status: stepwell.StepSkipped, attempt: 1, code: stepwell.CodeSkipped, message: "not today"},
	{name: "WaitUntil", handler: func(context.Context, *action.Call) (any, error) {
		return nil, action.WaitUntil(time.Now().Add(time.Millisecond), map[string]any{"w": 1})
	}, status: stepwell.StepCompleted, attempt: 1, output: `{"w":1}`},
	{name: "WaitUntil never", handler: func(context.Context, *action.Call) (any, error) { return nil, action.WaitUntil(time.Time{}, nil) },
		status: stepwell.StepFailed, attempt: 1, code: stepwell.CodeInvalid, message: "until when"},
	{name: "WaitUntil with a list", handler: func(context.Context, *action.Call) (any, error) { return nil, action.WaitUntil(time.Now(), []int{1}) },
		status: stepwell.StepFailed, attempt: 1, code: stepwell.CodeInvalid, message: "not a JSON object"},
	{name: "Poll", handler: func(_ context.Context, c *action.Call) (any, error) {
		var n int
		if c.State != nil {
			if err := json.Unmarshal(c.State, &n); err != nil {
				return nil, err
			}
		}
		if n < 3 {
			return nil, action.Poll(time.Now(), "job", n+1)
		}
		return map[string]any{"polls": n, "attempt": c.Attempt}, nil
	}, status: stepwell.StepCompleted, attempt: 1, output: `{"attempt":1,"polls":3}`},
	{name: "Poll with too much state", handler: func(context.Context, *action.Call) (any, error) {
		return nil, action.Poll(time.Now(), "job", strings.Repeat("x", 65<<10))
	}, status: stepwell.StepFailed, attempt: 1, code: stepwell.CodeLimit, message: "64 KiB"},
}

func gives(out any, err error) action.HandlerFunc {
	return func(context.Context, *action.Call) (any, error) { return out, err }
}

// deferring asks for n deferrals, which use no attempt up, before it completes.
func deferring(n int) action.HandlerFunc {
	left := n // the attempts of one step come one after the other
	return func(_ context.Context, c *action.Call) (any, error) {
		if left--; left >= 0 {
			return nil, action.Defer(time.Millisecond, errors.New("slow down"))
		}
		return map[string]any{"attempt": c.Attempt}, nil
	}
}

func TestOutcomes(t *testing.T) {
	var actions []action.Action
	var steps []definition.Step
	for i, o := range outcomes {
		name := fmt.Sprintf("t.case%d", i)
		actions = append(actions, act(name, o.handler))
		s := step(fmt.Sprintf("s%d", i), name)
		s.Retry = &definition.Retry{MaxAttempts: 3, BackoffSeconds: 0.001}
		steps = append(steps, s)
	}
	r := newRig(t, app.Options{}, actions...)
	_, got := r.run(steps...)
	for i, o := range outcomes {
		s := got[fmt.Sprintf("s%d", i)]
		if s.Status != o.status || s.Attempt != o.attempt || string(s.Output) != o.output {
			t.Errorf("%s: %s in attempt %d with %.80s (%+v); want %s, %d, %s", o.name, s.Status, s.Attempt, s.Output, s.Error, o.status, o.attempt, o.output)
			continue
		}
		if o.code == "" {
			continue
		}
		if s.Error == nil || s.Error.Code != o.code || !strings.Contains(s.Error.Message, o.message) || len(s.Error.Message) > 17<<10 {
			t.Errorf("%s: failure %+v, want %s with %q", o.name, s.Error, o.code, o.message)
		}
	}
}

// Outputs of more than 64 KiB travel by reference, and templates read them all the same.
func TestLargeOutputs(t *testing.T) {
	large := map[string]any{"text": strings.Repeat("x", 100<<10), "n": 5}
	r := newRig(t, app.Options{}, act("t.large", gives(large, nil)),
		act("t.later", func(context.Context, *action.Call) (any, error) { return nil, action.WaitUntil(time.Now(), large) }),
		act("t.echo", func(_ context.Context, c *action.Call) (any, error) { return map[string]any{"v": c.Params["n"]}, nil }),
		act("t.outputs", func(ctx context.Context, c *action.Call) (any, error) {
			raw, err := c.Host.Outputs(ctx, "large")
			return map[string]any{"bytes": len(raw)}, err
		}))
	echo := step("echo", "t.echo")
	echo.DependsOn, echo.Params = []string{"large", "later"}, map[string]any{"n": "{{ steps.large.outputs.n + steps.later.outputs.n }}"}
	outputs := step("outputs", "t.outputs")
	outputs.DependsOn = []string{"large"}
	x, steps := r.run(step("large", "t.large"), step("later", "t.later"), echo, outputs)
	if x.Status != stepwell.ExecutionCompleted {
		t.Fatalf("%s: %+v", x.Status, x.Failure)
	}
	for _, key := range []string{"large", "later"} {
		if out := string(steps[key].Output); !strings.HasPrefix(out, "@sha256:") {
			t.Errorf("%s gave %.40s", key, out)
		}
	}
	if out := string(steps["echo"].Output); out != `{"v":10}` {
		t.Errorf("echo gave %s", out)
	}
	if out := string(steps["outputs"].Output); out != `{"bytes":102417}` {
		t.Errorf("outputs gave %s", out)
	}
}
