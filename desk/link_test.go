package desk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/store"
)

// far are the actions of the workers.
func far() []action.Action {
	var mu sync.Mutex
	tries := map[string]int{}
	spawner := act("t.spawn", func(ctx context.Context, c *action.Call) (any, error) {
		for i := range 3 {
			if err := c.Spawn(ctx, action.NewStep{Name: "leaf", Key: fmt.Sprint(i), Action: "t.echo", Params: map[string]any{"n": i}}); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	spawner.Spec.Spawns = []string{"leaf"}
	once := act("t.once", func(_ context.Context, c *action.Call) (any, error) { return map[string]any{"attempt": c.Attempt}, nil })
	once.Spec.NotIdempotent = true
	return []action.Action{spawner, once,
		act("t.echo", func(_ context.Context, c *action.Call) (any, error) { return map[string]any{"v": c.Params["n"]}, nil }),
		act("t.large", func(context.Context, *action.Call) (any, error) {
			return map[string]any{"text": strings.Repeat("x", 200<<10)}, nil
		}),
		act("t.flaky", func(_ context.Context, c *action.Call) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			if tries[c.IdempotencyKey()]++; tries[c.IdempotencyKey()] == 1 {
				return nil, action.Retry(time.Millisecond, errors.New("the first try fails"))
			}
			return nil, nil
		}),
		act("t.fail", func(context.Context, *action.Call) (any, error) {
			return nil, action.Invalid("do it well", "it is wrong")
		}),
		act("t.skip", func(context.Context, *action.Call) (any, error) { return nil, action.Skip("not today") }),
		act("t.nap", func(context.Context, *action.Call) (any, error) {
			return nil, action.WaitUntil(time.Now().Add(2*time.Millisecond), map[string]any{"woke": true})
		}),
		act("t.poll", func(_ context.Context, c *action.Call) (any, error) {
			if c.State == nil {
				return nil, action.Poll(time.Now().Add(time.Millisecond), "job-1", map[string]int{"n": 1})
			}
			return map[string]json.RawMessage{"state": c.State}, nil
		}),
		act("t.host", func(ctx context.Context, c *action.Call) (any, error) {
			c.Log("a line", slog.Int("n", 5))
			c.Host.Progress(0.5, "half")
			v, err := action.Once(ctx, c, "k", func(context.Context) (int, error) { return 7, nil })
			if err != nil {
				return nil, err
			}
			raw, err := c.Host.Outputs(ctx, "big")
			if err != nil {
				return nil, err
			}
			data, err := c.Host.Data(ctx)
			return map[string]any{"memo": v, "size": len(raw), "data": len(data["text"])}, err
		}),
		act("t.block", func(ctx context.Context, _ *action.Call) (any, error) { <-ctx.Done(); return nil, ctx.Err() }),
	}
}

// nodes of links know the actions' descriptions, and cannot run them.
func near() (list []action.Action) {
	for _, a := range far() {
		a.Handler = never(a.Spec.Name).Handler
		list = append(list, a)
	}
	return list
}

func both(t *testing.T, run func(t *testing.T, streams bool)) {
	for name, streams := range map[string]bool{"turns": false, "stream": true} {
		t.Run(name, func(t *testing.T) { run(t, streams) })
	}
}

// All that a handler can do in process it can do in a worker elsewhere.
func TestLink(t *testing.T) {
	both(t, func(t *testing.T, streams bool) {
		n := newNode(t, dbOf(t), desk.Options{}, near()...)
		n.link("w1", streams, []string{n.url}, far()...)
		id := n.begin(`
name: all
steps:
  - {id: big, action: t.large}
  - {id: host, action: t.host, depends_on: [big]}
  - {id: echo, action: t.echo, params: {n: "{{ steps.big.outputs.text | length }}"}, depends_on: [big]}
  - {id: spawner, action: t.spawn}
  - {id: after, action: t.echo, depends_on: [leaf]}
  - {id: flaky, action: t.flaky, retry: {max_attempts: 3, backoff_seconds: 0.001}}
  - {id: skip, action: t.skip}
  - {id: nap, action: t.nap}
  - {id: poll, action: t.poll}
  - {id: once, action: t.once}
`)
		x, steps := n.end(id, stepwell.ExecutionCompleted)
		for key, want := range map[string]string{"host": `{"data":204802,"memo":7,"size":204811}`, "echo": `{"v":204800}`, "leaf:2": `{"v":2}`, "nap": `{"woke":true}`,
			"poll": `{"state":{"n":1}}`, "once": `{"attempt":1}`} {
			var got, wanted any
			if json.Unmarshal(steps[key].Output, &got) != nil || json.Unmarshal([]byte(want), &wanted) != nil || fmt.Sprint(got) != fmt.Sprint(wanted) {
				t.Errorf("%s gave %s, want %s", key, steps[key].Output, want)
			}
		}
		if s := steps["flaky"]; s.Attempt != 2 || s.Worker != "w1" {
			t.Errorf("flaky: %+v", s)
		}
		if s := steps["skip"]; s.Status != stepwell.StepSkipped {
			t.Errorf("skip: %+v", s)
		}
		lines, err := n.store.Logs(t.Context(), x.No, store.LogFilter{})
		if err != nil || len(lines) != 1 || lines[0].Message != "a line" || string(lines[0].Attrs) != `{"n":5}` || lines[0].StepKey != "host" {
			t.Errorf("lines %+v, %v", lines, err)
		}
		failing := n.begin("name: failing\nsteps:\n  - {id: a, action: t.fail, retry: {max_attempts: 5}}\n")
		if x, steps := n.end(failing, stepwell.ExecutionFailed); x.Failure.Code != stepwell.CodeInvalid || x.Failure.Message != "it is wrong" || steps["a"].Attempt != 1 {
			t.Errorf("failure %+v, step %+v", x.Failure, steps["a"])
		}
		blocked := n.begin("name: blocked\nsteps:\n  - {id: a, action: t.block}\n")
		for len(n.desk.Workers()) == 1 && n.desk.Workers()[0].Held == 0 {
			time.Sleep(time.Millisecond)
		}
		if err := n.Cancel(t.Context(), blocked, "enough"); err != nil {
			t.Fatal(err)
		}
		n.end(blocked, stepwell.ExecutionCancelled)
	})
}

// A fan-out over two workers: each step completes once.
func TestFanOut(t *testing.T) {
	both(t, func(t *testing.T, streams bool) {
		n := newNode(t, dbOf(t), desk.Options{}, near()...)
		n.link("w1", streams, []string{n.url}, far()...)
		n.link("w2", streams, []string{n.url}, far()...)
		var text strings.Builder
		text.WriteString("name: fan\nsteps:\n")
		for i := range 300 {
			fmt.Fprintf(&text, "  - {id: s%d, action: t.echo, params: {n: %d}}\n", i, i)
		}
		x, _ := n.end(n.begin(text.String()), stepwell.ExecutionCompleted)
		n.books(x, 300)
	})
}

// A worker whose node is gone goes to another, keeps its steps, and offers what the first did not commit.
func TestMoves(t *testing.T) {
	both(t, func(t *testing.T, streams bool) {
		db := dbOf(t)
		begun, open := make(chan struct{}, 10), make(chan struct{})
		gate := act("t.gate", func(ctx context.Context, c *action.Call) (any, error) {
			begun <- struct{}{}
			<-open
			return map[string]any{"attempt": c.Attempt}, nil
		})
		first := newNode(t, db, desk.Options{}, never("t.gate"))
		// The address of the second node is known before it is there.
		later := newDoor(t)
		first.link("w1", streams, []string{first.url, later.url}, gate)
		id := first.begin("name: two\nsteps:\n  - {id: a, action: t.gate}\n  - {id: b, action: t.gate, depends_on: [a]}\n")
		<-begun
		first.stop()
		close(open) // the outcome has no node now
		n := newNode(t, db, desk.Options{}, never("t.gate"))
		if err := n.RecoverAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		later.open(n)
		x, steps := n.end(id, stepwell.ExecutionCompleted)
		if string(steps["a"].Output) != `{"attempt":1}` || len(begun) != 1 {
			t.Errorf("step %+v, begun %d times more", steps["a"], len(begun))
		}
		n.books(x, 2)
	})
}

// A stream answers every request whatever the order of its members, and ends at what is none, also where only its body is not JSON.
func TestFrames(t *testing.T) {
	n := newNode(t, dbOf(t), desk.Options{}, near()...)
	for message, want := range map[string]string{
		`{"no":1,"call":"turn","body":{"worker":"nobody"}}`:                             `{"no":1,"status":404,`,
		`{"no":2,"call":"turn","body":{"worker":"nobody"},"more":{}}`:                   `{"no":2,"status":404,`,
		`{"body":{"worker":"nobody"},"call":"turn","no":3}`:                             `{"no":3,"status":404,`,
		`{"no":4,"call":"turn","body":[]}`:                                              `{"no":4,"status":400,`,
		`{"no":5,"call":"turn","body":{"worker":]}`:                                     "",
		`{"no":6,"call":"turn","body":{"worker":"` + strings.Repeat("x", 10_000) + `"}`: "",
		`[]`: "",
	} {
		conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(n.url, "http")+wire.Path+"stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
			t.Fatal(err)
		}
		_, got, err := conn.Read(t.Context())
		switch {
		case want == "" && websocket.CloseStatus(err) != websocket.StatusPolicyViolation:
			t.Errorf("%.60s is answered with %s, %v", message, got, err)
		case want != "" && (err != nil || !strings.HasPrefix(string(got), want)):
			t.Errorf("%.60s is answered with %s, %v", message, got, err)
		}
		_ = conn.CloseNow()
	}
}
