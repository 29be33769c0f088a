package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

func TestDataAndOutputs(t *testing.T) {
	value := func(v any) action.HandlerFunc { return gives(v, nil) }
	var data, top, grouped, spawned, none string
	ask := func(ctx context.Context, c *action.Call) (any, error) {
		all, err := c.Host.Data(ctx)
		if err != nil {
			return nil, err
		}
		data = fmt.Sprintf("%s %s", all["a"], all["both"])
		for key, to := range map[string]*string{"first": &top, "group.inner": &grouped, "leaf:x": &spawned} {
			raw, err := c.Host.Outputs(ctx, key)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			*to = string(raw)
		}
		for _, key := range []string{"ask", "zzz", "failed"} {
			_, err := c.Host.Outputs(ctx, key)
			none += string(stepwell.CodeOf(err)) + " "
		}
		return nil, nil
	}
	r := newRig(t, app.Options{}, act("t.one", value(map[string]any{"a": 1, "both": 1})), act("t.two", value(map[string]any{"both": 2})),
		act("t.fail", gives(nil, errors.New("no"))), act("t.ask", ask),
		action.Action{Spec: spec.Spec{Name: "t.spawn", Summary: "For tests.", Spawns: []string{"leaf"}}, Handler: action.HandlerFunc(func(ctx context.Context, c *action.Call) (any, error) {
			return nil, c.Spawn(ctx, action.NewStep{Name: "leaf", Key: "x", Action: "t.two"})
		})})
	group := definition.Step{ID: "group", DependsOn: []string{"first"}, Steps: []definition.Step{step("inner", "t.two")}}
	spawner := step("spawner", "t.spawn")
	spawner.DependsOn = []string{"group"}
	failed := step("failed", "t.fail")
	failed.OnFailure = "continue"
	last := step("ask", "t.ask")
	last.DependsOn = []string{"leaf", "spawner", "failed"}
	x, steps := r.run(step("first", "t.one"), group, spawner, failed, last)
	if steps["ask"].Status != stepwell.StepCompleted {
		t.Fatalf("%s: %+v", x.Status, steps["ask"].Error)
	}
	if data != "1 2" || top != `{"a":1,"both":1}` || grouped != `{"both":2}` || spawned != `{"both":2}` || none != "not_found not_found not_found " {
		t.Errorf("data %q, first %s, group.inner %s, leaf:x %s, none %q", data, top, grouped, spawned, none)
	}
}

// The next attempt finds the records of Once.
func TestOnce(t *testing.T) {
	var calls atomic.Int32
	r := newRig(t, app.Options{}, act("t.once", func(ctx context.Context, c *action.Call) (any, error) {
		n, err := action.Once(ctx, c, "number", func(context.Context) (int32, error) { return calls.Add(1), nil })
		if err != nil {
			return nil, err
		}
		if c.Attempt < 3 {
			return nil, errors.New("again")
		}
		return map[string]any{"n": n}, nil
	}))
	s := step("a", "t.once")
	s.Retry = &definition.Retry{MaxAttempts: 3, BackoffSeconds: 0.001}
	if _, steps := r.run(s); string(steps["a"].Output) != `{"n":1}` || calls.Load() != 1 {
		t.Errorf("gave %s after %d calls", steps["a"].Output, calls.Load())
	}
}

func TestEval(t *testing.T) {
	r := newRig(t, app.Options{}, act("t.eval", func(_ context.Context, c *action.Call) (any, error) {
		v, err := c.Host.Eval("{{ extra + 1 }}", map[string]any{"extra": 41})
		if err != nil {
			return nil, err
		}
		_, wrong := c.Host.Eval("{{ 1 + }}", nil)
		_, undefined := c.Host.Eval("{{ nothing }}", nil)
		return map[string]any{"v": v, "wrong": wrong != nil, "undefined": undefined != nil}, nil
	}))
	if _, steps := r.run(step("a", "t.eval")); string(steps["a"].Output) != `{"undefined":true,"v":42,"wrong":true}` {
		t.Errorf("gave %s (%+v)", steps["a"].Output, steps["a"].Error)
	}
}

// A spawn that is refused is the handler's error, and says why.
func TestSpawnRefused(t *testing.T) {
	var errs []error
	r := newRig(t, app.Options{}, act("t.echo", gives(nil, nil)),
		action.Action{Spec: spec.Spec{Name: "t.strict", Summary: "For tests.", Params: []spec.Field{{Name: "n", Type: spec.Integer, Required: true}}}, Handler: gives(nil, nil)},
		action.Action{Spec: spec.Spec{Name: "t.spawn", Summary: "For tests.", Spawns: []string{"leaf"}}, Handler: action.HandlerFunc(func(ctx context.Context, c *action.Call) (any, error) {
			for _, s := range []action.NewStep{
				{Action: "t.echo"}, {Name: "leaf", Action: "t.nothing"}, {Name: "leaf", Action: "t.strict"}, {Name: "leaf", Action: "t.echo", OnFailure: "dance"},
				{Name: strings.Repeat("x", 2000), Action: "t.echo"}, {Name: "leaf", Action: "t.echo", Params: map[string]any{"f": func() {}}},
				{Name: "leaf", Action: "t.echo"}, {Name: "leaf", Action: "t.echo"}, {Name: "leaf", Action: "t.echo", Params: map[string]any{"n": 1}},
			} {
				errs = append(errs, c.Spawn(ctx, s))
			}
			return nil, nil
		})})
	x, _ := r.run(step("a", "t.spawn"))
	if x.Status != stepwell.ExecutionCompleted {
		t.Fatalf("%s: %+v", x.Status, x.Failure)
	}
	want := []stepwell.Code{stepwell.CodeInvalid, stepwell.CodeNotFound, stepwell.CodeInvalid, stepwell.CodeInvalid, stepwell.CodeInvalid, stepwell.CodeInvalid, "", "", stepwell.CodeConflict}
	for i, err := range errs {
		if stepwell.CodeOf(err) != want[i] {
			t.Errorf("spawn %d gave %v (%s), want %q", i, err, stepwell.CodeOf(err), want[i])
		}
	}
}

func TestLogLimits(t *testing.T) {
	r := newRig(t, app.Options{}, act("t.loud", func(_ context.Context, c *action.Call) (any, error) {
		c.Host.Log(slog.LevelDebug, "below the level")
		c.Log(strings.Repeat("ä", 20_000))
		c.Log("attrs", slog.String("a", strings.Repeat("x", 20_000)))
		c.Log("function", slog.Any("f", func() {}))
		c.Log("broken \xff text")
		for range 10_000 {
			c.Log("more")
		}
		panic("and then")
	}))
	x, _ := r.run(step("a", "t.loud"))
	lines, err := r.Store.Logs(t.Context(), x.No, store.LogFilter{Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 6002 {
		t.Fatalf("%d lines", len(lines))
	}
	if m := lines[5000].Message; m != "the log continues after 5000 lines: its last 1000 come when the attempt ends" {
		t.Errorf("after the first lines it says %q", m)
	}
	if m := lines[5001].Message; !strings.HasPrefix(m, "4005 lines were left out here") {
		t.Errorf("before the last lines it says %q", m)
	}
	if m := lines[6001].Message; !strings.HasPrefix(m, "panic: and then") || lines[6000].Message != "more" {
		t.Errorf("the log ends %q", m)
	}
	if m := lines[0].Message; len(m) > 17<<10 || !strings.HasSuffix(m, "ä … (shortened)") {
		t.Errorf("the long line has %d bytes and ends %q", len(m), m[len(m)-20:])
	}
	if a := string(lines[1].Attrs); a != `{"omitted":"more than 16 KiB"}` {
		t.Errorf("long attrs are %.60s", a)
	}
	if a := string(lines[2].Attrs); !strings.Contains(a, "unwritable") {
		t.Errorf("attrs that cannot be written are %s", a)
	}
	if m := lines[3].Message; m != "broken � text" {
		t.Errorf("the broken line is %q", m)
	}
}

// Secrets reach the handler, and nothing else.
func TestSecretsAreNotRecorded(t *testing.T) {
	params := []spec.Field{{Name: "token", Type: spec.String, Secret: true}, {Name: "plain", Type: spec.String},
		{Name: "auth", Type: spec.Object, Fields: []spec.Field{{Name: "password", Type: spec.String, Secret: true}, {Name: "user", Type: spec.String}}},
		{Name: "keys", Type: spec.Array, Items: &spec.Field{Type: spec.Object, Fields: []spec.Field{{Name: "key", Type: spec.String, Secret: true}}}}}
	var got map[string]any
	r := newRig(t, app.Options{}, act("t.give", gives(map[string]any{"s": "geheim"}, nil)),
		action.Action{Spec: spec.Spec{Name: "t.use", Summary: "For tests.", Params: params}, Handler: action.HandlerFunc(func(_ context.Context, c *action.Call) (any, error) {
			got = c.Params
			return nil, nil
		})})
	const secret = "{{ steps.give.outputs.s }}"
	use := step("use", "t.use")
	use.DependsOn = []string{"give"}
	use.Params = map[string]any{"token": secret, "plain": "{{ 'a' + 'b' }}", "auth": map[string]any{"password": secret, "user": "me"}, "keys": []any{map[string]any{"key": secret}}}
	_, steps := r.run(step("give", "t.give"), use)
	want := `{"auth":{"password":"***","user":"me"},"keys":[{"key":"***"}],"plain":"ab","token":"***"}`
	if in := string(steps["use"].Input); in != want {
		t.Errorf("recorded %s, want %s (%+v)", in, want, steps["use"].Error)
	}
	if fmt.Sprintf("%v %v %v", got["token"], got["auth"], got["keys"]) != "geheim map[password:geheim user:me] [map[key:geheim]]" {
		t.Errorf("the handler got %v", got)
	}
}

// A restart begins a step's records anew: later records count, and are found again.
func TestRecordsAfterRestart(t *testing.T) {
	var counted atomic.Int64
	r := newRig(t, app.Options{}, act("t.once", func(ctx context.Context, c *action.Call) (any, error) {
		for range 2 {
			if _, err := action.Once(ctx, c, "work", func(context.Context) (int64, error) { return counted.Add(1), nil }); err != nil {
				return nil, action.Fail(err)
			}
		}
		return nil, nil
	}))
	id := r.begin(step("a", "t.once"))
	r.end(id)
	for want := int64(2); want < 4; want++ {
		if err := r.Conductor.Restart(t.Context(), id, "a", false); err != nil {
			t.Fatal(err)
		}
		if _, steps := r.end(id); steps["a"].Status != stepwell.StepCompleted || counted.Load() != want {
			t.Fatalf("after restart %d: %s with %+v, the work was done %d times", want-1, steps["a"].Status, steps["a"].Error, counted.Load())
		}
	}
}
