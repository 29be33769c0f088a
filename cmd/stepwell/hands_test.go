package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/worker/link"
)

// outside is an action whose work goes on elsewhere for an hour; with own it is that of the attempt, which blocks.
type outside struct{ own bool }

func (o outside) Run(ctx context.Context, c *action.Call) (any, error) {
	job := map[string]any{"job": c.Params["job"]}
	raw, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	if !o.own {
		return nil, action.Poll(time.Now().Add(time.Hour), "job", job)
	}
	if err := c.Host.Own(ctx, raw); err != nil {
		return nil, err
	}
	_ = os.WriteFile("owned", nil, 0o600)
	<-ctx.Done()
	return nil, ctx.Err()
}

// Cancel adds the name of the job to a file.
func (outside) Cancel(_ context.Context, c *action.Call) error {
	var state struct{ Job string }
	if err := json.Unmarshal(c.State, &state); err != nil {
		return err
	}
	c.Log("stopping " + state.Job)
	f, err := os.OpenFile("stopped-"+state.Job, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintln(f, c.StepKey, "attempt", c.Attempt)
	return err
}

// hands is a worker of actions that use all that the protocol carries: hands URL stream|turns, or one of a time when workers were not told
// to stop work outside: hands URL old.
func hands() {
	r := &action.Registry{}
	err := r.Add(
		hand("h.spawn", func(ctx context.Context, c *action.Call) (any, error) {
			for i := range 3 {
				if err := c.Spawn(ctx, action.NewStep{Name: "leaf", Key: fmt.Sprint(i), Action: "h.echo", Params: map[string]any{"v": i}}); err != nil {
					return nil, err
				}
			}
			return nil, nil
		}),
		hand("h.echo", func(_ context.Context, c *action.Call) (any, error) { return c.Params, nil }),
		hand("h.large", func(context.Context, *action.Call) (any, error) {
			return map[string]any{"text": strings.Repeat("x", 15<<20)}, nil
		}),
		hand("h.read", func(ctx context.Context, c *action.Call) (any, error) {
			c.Log("reading", slog.Int("n", 1))
			c.Host.Progress(0.5, "half")
			raw, err := c.Host.Outputs(ctx, "large")
			return map[string]any{"bytes": len(raw)}, err
		}),
		hand("h.once", func(ctx context.Context, c *action.Call) (any, error) { // the second attempt reads what the first recorded
			n, err := action.Once(ctx, c, "n", func(context.Context) (int, error) { return 10 + c.Attempt, nil })
			if err != nil || c.Attempt == 1 {
				return nil, action.Retry(time.Millisecond, fmt.Errorf("the first attempt fails: %w", context.DeadlineExceeded))
			}
			return map[string]any{"n": n}, nil
		}),
		hand("h.poll", func(_ context.Context, c *action.Call) (any, error) {
			if c.State == nil {
				return nil, action.Poll(time.Now().Add(time.Millisecond), "job-1", map[string]int{"n": 4})
			}
			return map[string]json.RawMessage{"state": c.State}, nil
		}),
		hand("h.callback", func(ctx context.Context, c *action.Call) (any, error) { // what it asks for answers before it waits
			key, url, err := c.Callback(ctx)
			if err != nil {
				return nil, err
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"outputs": {"called": 3}}`))
			if err != nil {
				return nil, err
			}
			req.Header.Set("Content-Type", "application/json")
			answer, err := http.DefaultClient.Do(req)
			if err != nil {
				return nil, err
			}
			defer answer.Body.Close()
			return nil, action.Await(key, time.Now().Add(time.Minute), nil)
		}),
		hand("h.block", func(ctx context.Context, c *action.Call) (any, error) {
			_ = os.WriteFile("blocked", nil, 0o600) // the script waits for it
			<-ctx.Done()
			_ = os.WriteFile("stopped", nil, 0o600)
			return nil, ctx.Err()
		}),
	)
	if work := (outside{}); os.Args[2] == "old" {
		err = errors.Join(err, r.Add(hand("h.outside", work.Run), hand("h.own", outside{own: true}.Run)))
	} else {
		for name, h := range map[string]outside{"h.outside": work, "h.own": {own: true}} {
			err = errors.Join(err, r.Add(action.Action{Spec: spec.Spec{Name: name, Summary: "For tests.", OpenParams: true}, Handler: h}))
		}
	}
	if err != nil {
		panic(err)
	}
	w, err := link.New(link.Options{Nodes: []string{os.Args[1]}, Stream: os.Args[2] == "stream", Name: "hands", Actions: r, Header: http.Header{}, Concurrency: 4})
	if err != nil {
		panic(err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	go func() { <-stop; w.Drain() }()
	if err := w.Run(context.Background()); err != nil {
		panic(err)
	}
}

func hand(name string, f action.HandlerFunc) action.Action {
	s := spec.Spec{Name: name, Summary: "For tests.", OpenParams: true}
	if name == "h.spawn" {
		s.Spawns = []string{"leaf"}
	}
	return action.Action{Spec: s, Handler: f}
}
