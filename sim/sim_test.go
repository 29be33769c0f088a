package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/builtin"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

const everything = `
name: everything
parameters: [{name: region, type: string, default: eu}]
settings: {timeout_seconds: 86400}
steps:
  - {id: fetch, action: util.exec, params: {command: [fetch, "{{ params.region }}"], env: {TOKEN: "{{ secrets.token }}"}}, retry: {max_attempts: 3, backoff_seconds: 60}}
  - {id: spawn, action: t.spawn, depends_on: [fetch]}
  - {id: each, action: util.exec, depends_on: [fetch], for_each: {items: 5, max_failures: 2}, params: {command: ["{{ item }}"]}}
  - {id: large, action: util.exec, params: {command: [large]}}
  - {id: nap, action: util.wait, params: {duration: 3h}}
  - {id: ask, action: util.approval, depends_on: [nap], params: {message: "go?"}}
  - {id: charge, action: util.exec, idempotent: false, depends_on: [ask], params: {command: [charge]}}
  - {id: never, action: util.log, depends_on: [fetch], condition: "{{ params.region == 'us' }}", params: {message: no}}
  - {id: join, action: util.log, depends_on: [leaf, each, never, large, charge], params: {message: "{{ steps.each.outputs.completed }} of {{ steps.large.outputs.stdout | length }}"}}
finally: [{id: tell, action: util.log, params: {message: "{{ execution.status }}"}}]
outputs: {done: "{{ steps.each.outputs.completed }}", by: "{{ steps.ask.outputs.by }}"}
`

// registry has the actions of the pipelines here.
func registry(t testing.TB, c *Clock) *action.Registry {
	t.Helper()
	r := &action.Registry{}
	err := errors.Join(builtin.Register(r, builtin.Options{Now: c.Now}), r.Add(
		action.Action{Spec: spec.Spec{Name: "t.spawn", Summary: "Spawns.", Spawns: []string{"leaf"}}, Handler: action.HandlerFunc(func(ctx context.Context, c *action.Call) (any, error) {
			return nil, c.Spawn(ctx, action.NewStep{Name: "leaf", Key: "a", Action: "util.noop"}, action.NewStep{Name: "leaf", Key: "b", Action: "util.noop"})
		})}))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func parse(t testing.TB, r *action.Registry, text string) *definition.Definition {
	t.Helper()
	d, problems := definition.Parse([]byte(text), definition.ParseOptions{File: "test.yaml"})
	if problems.Err() == nil {
		problems = definition.Check(d, r, "test.yaml")
	}
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	return d
}

// mock has failures, results that are stored elsewhere, and times.
func mock(a *Attempt) (*Outcome, error) {
	switch {
	case a.Step.Action != "util.exec":
		return nil, nil
	case a.Key == "fetch" && a.Attempt < 3:
		return &Outcome{Err: errors.New("503"), Takes: 3 * time.Second}, nil
	case a.Key == "large":
		return &Outcome{Outputs: map[string]any{"exit_code": 0, "stdout": strings.Repeat("x", 100_000)}, Takes: time.Minute}, nil
	case a.Key == "each[3]":
		return &Outcome{Err: action.Fail(errors.New("404")), Takes: time.Second}, nil
	}
	return &Outcome{Outputs: map[string]any{"exit_code": 0, "stdout": a.Key}, Takes: time.Duration(1+len(a.Key)) * time.Second, Logs: []string{"hello"}}, nil
}

// play runs the pipeline above, and goes on as a new process at each end of one.
func play(t testing.TB, o Options) (*World, *store.Execution) {
	t.Helper()
	ctx := t.Context()
	clock := &Clock{}
	o.Actions, o.Clock, o.Mock, o.Secrets = registry(t, clock), clock, mock, map[string]string{"token": "s3cr3t-value"}
	w, err := New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	approve := func(ctx context.Context) error {
		waiting, err := w.Store.WaitingSteps(ctx, conductor.ApprovalPrefix, nil, 10)
		if err != nil || len(waiting) == 0 {
			return err
		}
		_, _, err = w.Signal(ctx, store.Signal{Key: waiting[0].External, ID: "1", Body: []byte(`{"outputs":{"approved":true,"by":"anna"},"by":"anna"}`)})
		return err
	}
	begin := func(ctx context.Context) (string, error) {
		return w.Begin(ctx, parse(t, o.Actions, everything), conductor.Request{Origin: store.Origin{Key: "once", KeyHash: []byte("same")}})
	}
	w.Plan(w.Clock.Now().Add(4*time.Hour), approve)
	id, err := begin(ctx)
	if err == nil {
		err = w.Run(ctx)
	}
	for lives := 0; errors.Is(err, ErrKilled); lives++ {
		if lives == 20 {
			t.Fatal("the process ends again and again")
		}
		if err = w.Restart(ctx); err == nil {
			id, err = begin(ctx)
		}
		if err == nil {
			w.Plan(w.Clock.Now().Add(4*time.Hour), approve) // who sent it repeats it
			err = w.Run(ctx)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	x, err := w.Store.Execution(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return w, x
}

func TestWorld(t *testing.T) {
	w, x := play(t, Options{})
	if x.Status != stepwell.ExecutionCompletedWithFailures || string(x.Outputs) != `{"by":"anna","done":4}` {
		t.Fatalf("%s with %s, failure %+v", x.Status, x.Outputs, x.Failure)
	}
	if took := x.Ended.Sub(x.Started); took < 4*time.Hour || took > 4*time.Hour+time.Minute {
		t.Errorf("it took %s of the world's time", took)
	}
	lines, err := w.Store.Logs(t.Context(), x.No, store.LogFilter{StepKey: "join"})
	if err != nil || len(lines) == 0 || lines[0].Message != "4 of 100000" {
		t.Errorf("log of join: %+v, error %v", lines, err)
	}
}

// digests are the step logs of runs by different seeds, in one sum.
func digests(t *testing.T) string {
	sum := sha256.New()
	for seed := range uint64(30) {
		w, x := play(t, Options{Seed: seed})
		log, err := w.Dump(t.Context(), x.No)
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(log)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Other processes, with one, two and three processors, make the same step logs, byte for byte.
func TestDeterministic(t *testing.T) {
	const ask = "STEPWELL_TEST_DIGESTS"
	if os.Getenv(ask) != "" {
		fmt.Println("digest", digests(t))
		return
	}
	want := digests(t)
	for procs := 1; procs <= 3; procs++ {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDeterministic$", "-test.v")
		cmd.Env = append(os.Environ(), ask+"=1", fmt.Sprint("GOMAXPROCS=", procs))
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "digest "+want) {
			t.Errorf("GOMAXPROCS=%d: error %v, want digest %s in\n%s", procs, err, want, out)
		}
	}
}

// Seeds change the order of what happens, and not what comes of it.
func TestSeeds(t *testing.T) {
	logs := map[string]bool{}
	for seed := range uint64(20) {
		w, x := play(t, Options{Seed: seed, Workers: 3})
		if string(x.Outputs) != `{"by":"anna","done":4}` {
			t.Errorf("seed %d: %s with %s", seed, x.Status, x.Outputs)
		}
		log, err := w.Dump(t.Context(), x.No)
		if err != nil {
			t.Fatal(err)
		}
		logs[string(log)] = true
	}
	if len(logs) < 10 {
		t.Errorf("20 seeds gave %d orders", len(logs))
	}
}

// The process ends at every passage of every point. What must not run twice fails when it was cut off; all else ends as
// if nothing had happened.
func TestKilledEverywhere(t *testing.T) {
	kills := 0
	for _, point := range Fates {
		for n := 1; ; n++ {
			passed := 0
			_, x := play(t, Options{Fault: func(p Passage) Fate {
				if p.Point == point.Point {
					passed++
				}
				if p.Point == point.Point && passed == n {
					return Dies
				}
				return Passes
			}})
			cut := x.Status == stepwell.ExecutionFailed && x.Failure.Step == "charge" && x.Failure.Code == stepwell.CodeLost
			if !cut && string(x.Outputs) != `{"by":"anna","done":4}` {
				t.Fatalf("%s, passage %d: %s with %s, failure %+v", point.Point, n, x.Status, x.Outputs, x.Failure)
			}
			if passed < n {
				break
			}
			kills++
		}
	}
	if kills < 100 {
		t.Errorf("%d kills", kills)
	}
	t.Logf("%d kills", kills)
}

// A worker that is lost, an attempt that hangs, and one that is cancelled end as the product ends them.
func TestEnds(t *testing.T) {
	clock := &Clock{}
	r := registry(t, clock)
	for name, c := range map[string]struct {
		out  func(a *Attempt) *Outcome
		want string
	}{
		"lost once": {func(a *Attempt) *Outcome {
			return &Outcome{Lost: a.Epoch == 1, Outputs: map[string]any{"exit_code": 0}, Takes: time.Minute}
		}, "completed 2m0s"},
		"lost for ever":   {func(*Attempt) *Outcome { return &Outcome{Lost: true, Takes: time.Second} }, "failed 3s"},
		"hanging":         {func(*Attempt) *Outcome { return &Outcome{Hang: true} }, "failed 5m0s"},
		"until cancelled": {func(*Attempt) *Outcome { return &Outcome{Hang: true} }, "cancelled 1m40s"},
		"skipping":        {func(*Attempt) *Outcome { return &Outcome{Err: action.Skip("no")} }, "completed 0s"},
		"deferring": {func(a *Attempt) *Outcome {
			if a.Epoch == 1 {
				return &Outcome{Err: action.Defer(time.Hour, errors.New("429"))}
			}
			return &Outcome{Outputs: map[string]any{"exit_code": 0}}
		}, "completed 1h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := New(t.Context(), Options{Actions: r, Clock: clock, Mock: func(a *Attempt) (*Outcome, error) { return c.out(a), nil }})
			if err != nil {
				t.Fatal(err)
			}
			id, err := w.Begin(t.Context(), parse(t, r, "name: one\nsteps: [{id: a, action: util.exec, params: {command: [x]}, timeout_seconds: 300}]\n"), conductor.Request{})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(name, "cancelled") {
				w.Plan(Start.Add(100*time.Second), func(ctx context.Context) error { return w.Cancel(ctx, id, "enough") })
			}
			if err := w.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			x, err := w.Store.Execution(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(x.Status, " ", x.Ended.Sub(Start)); got != c.want {
				t.Errorf("got %s, want %s, failure %+v", got, c.want, x.Failure)
			}
		})
	}
}

// A pipeline that goes on for ever comes to an end.
func TestEndless(t *testing.T) {
	clock := &Clock{}
	r := registry(t, clock)
	w, err := New(t.Context(), Options{Actions: r, Clock: clock, MaxAttempts: 50, Mock: func(*Attempt) (*Outcome, error) {
		return &Outcome{Err: action.Defer(time.Second, errors.New("429"))}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Begin(t.Context(), parse(t, r, "name: one\nsteps: [{id: a, action: util.noop}]\n"), conductor.Request{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); stepwell.CodeOf(err) != stepwell.CodeLimit {
		t.Errorf("error %v", err)
	}
}
