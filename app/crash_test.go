package app_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

// crashDB in the environment makes the test binary the process that is killed.
const crashDB = "STEPWELL_TEST_CRASH_DB"

func TestMain(m *testing.M) {
	if db := os.Getenv(crashDB); db != "" {
		child := crashChild
		if url := os.Getenv(pollURL); url != "" {
			child = func(db string) error { return pollChild(db, url) }
		}
		if how := os.Getenv(outsideHow); how != "" {
			child = func(db string) error { return outsideChild(db, how) }
		}
		if err := child(db); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	http.DefaultClient.Timeout = time.Minute // a server that does not answer fails its test, not the whole run
	goleak.VerifyTestMain(m)
}

// crashActions are small pieces of work of which some fail at first and some spawn others.
func crashActions(r *action.Registry) error {
	work := action.HandlerFunc(func(ctx context.Context, c *action.Call) (any, error) {
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
		return map[string]any{"v": c.Params["n"]}, nil
	})
	flaky := action.HandlerFunc(func(ctx context.Context, c *action.Call) (any, error) {
		if c.Attempt == 1 {
			return nil, errors.New("the first attempt always fails")
		}
		return map[string]any{"v": c.Params["n"], "big": strings.Repeat("x", 100)}, nil
	})
	spawner := action.HandlerFunc(func(ctx context.Context, c *action.Call) (any, error) {
		for j := range 10 {
			err := c.Spawn(ctx, action.NewStep{Name: "leaf", Key: fmt.Sprintf("%v-%d", c.Params["n"], j), Action: "crash.work",
				Params: map[string]any{"n": j}, Retry: &stepwell.Retry{MaxAttempts: 2}})
			if err != nil {
				return nil, err
			}
		}
		return map[string]any{"spawned": 10}, nil
	})
	n := []spec.Field{{Name: "n", Type: spec.Any}}
	return r.Add(
		action.Action{Spec: spec.Spec{Name: "crash.work", Summary: "Gives back n.", Params: n}, Handler: work},
		action.Action{Spec: spec.Spec{Name: "crash.flaky", Summary: "Fails once.", Params: n}, Handler: flaky},
		action.Action{Spec: spec.Spec{Name: "crash.spawn", Summary: "Spawns ten.", Params: n, Spawns: []string{"leaf"}}, Handler: spawner})
}

// crashPipeline has 502 steps: chains with retries, spawners with their leaves, a for_each, a join.
func crashPipeline() *definition.Definition {
	d := &definition.Definition{Name: "crash"}
	add := func(s definition.Step) { d.Steps = append(d.Steps, s) }
	join := definition.Step{ID: "join", Action: "crash.work", DependsOn: []string{"leaf", "each"},
		Params: map[string]any{"n": "{{ steps.each.outputs.completed + steps.mid_7.outputs.v }}"}}
	for i := range 20 {
		add(definition.Step{ID: fmt.Sprintf("root_%d", i), Action: "crash.work", Params: map[string]any{"n": int64(i)}})
		add(definition.Step{ID: fmt.Sprintf("spawn_%d", i), Action: "crash.spawn", DependsOn: []string{fmt.Sprintf("root_%d", i)}, Params: map[string]any{"n": int64(i)}})
	}
	for i := range 100 {
		flaky, mid := fmt.Sprintf("flaky_%d", i), fmt.Sprintf("mid_%d", i)
		add(definition.Step{ID: flaky, Action: "crash.flaky", DependsOn: []string{fmt.Sprintf("root_%d", i%20)}, Params: map[string]any{"n": int64(i)},
			Retry: &definition.Retry{MaxAttempts: 3, BackoffSeconds: 0.001}})
		add(definition.Step{ID: mid, Action: "crash.work", DependsOn: []string{flaky}, Params: map[string]any{"n": "{{ steps." + flaky + ".outputs.v * 2 }}"}})
		join.DependsOn = append(join.DependsOn, mid)
	}
	add(definition.Step{ID: "each", Action: "crash.work", Params: map[string]any{"n": "{{ item }}"}, ForEach: &definition.ForEach{Items: int64(60)}})
	add(join)
	d.Outputs = []definition.Output{{Name: "total", Value: "{{ steps.join.outputs.v }}"}}
	return d
}

func open(ctx context.Context, db string) (*app.App, error) {
	return app.New(ctx, app.Options{DB: db, Register: crashActions, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))})
}

// crashChild finishes what the database holds unfinished, or runs the pipeline once more.
func crashChild(db string) error {
	ctx := context.Background()
	a, err := open(ctx, db)
	if err != nil {
		return err
	}
	go a.Run(ctx)
	fmt.Println("ready")
	left, err := a.Store.Claim(ctx, 1, 1000)
	if err != nil {
		return err
	}
	for _, x := range left {
		if err := a.Conductor.Recover(ctx, x.ID); err != nil {
			return err
		}
	}
	var id string
	if len(left) > 0 {
		id = left[0].ID
	} else {
		p, err := a.Conductor.Register(ctx, crashPipeline())
		if err != nil {
			return err
		}
		if id, err = a.Conductor.Start(ctx, conductor.Request{Pipeline: p}); err != nil {
			return err
		}
	}
	x, err := a.Conductor.Wait(ctx, id)
	if err != nil {
		return err
	}
	fmt.Println("ended", x.Status)
	return nil
}

// A process that runs 500 steps with spawns and retries is killed at random moments. After each
// resumption every step has exactly one completion, and all outputs are those of an undisturbed run.
func TestKillNine(t *testing.T) {
	kills := 100
	if testing.Short() {
		kills = 20
	}
	want := undisturbed(t)
	db := filepath.Join(t.TempDir(), "crash.db")
	ended := 0
	for done := 0; done < kills; {
		finished := runAndKill(t, db, time.Duration(rand.IntN(100))*time.Millisecond)
		if finished {
			ended++
		} else {
			done++
		}
	}
	for !runAndKill(t, db, time.Minute) {
		t.Fatal("the last run did not end within a minute")
	}
	a, err := open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	list, err := a.Store.Executions(t.Context(), store.Filter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		if x.Status != stepwell.ExecutionCompleted {
			t.Errorf("execution %s is %s: %+v", x.ID, x.Status, x.Failure)
			continue
		}
		if got := outputsOf(t, a.Store, x.No); !maps.Equal(got, want) {
			t.Errorf("execution %s: %d outputs, want %d; they differ from those of an undisturbed run", x.ID, len(got), len(want))
		}
		onceEach(t, a.Store, x.No, len(want))
	}
	t.Logf("%d kills over %d executions", kills, len(list))
}

func undisturbed(t *testing.T) map[string]string {
	t.Helper()
	db := filepath.Join(t.TempDir(), "calm.db")
	if !runAndKill(t, db, time.Minute) {
		t.Fatal("the undisturbed run did not end within a minute")
	}
	a, err := open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	out := outputsOf(t, a.Store, 1)
	if len(out) != 502 {
		t.Fatalf("%d steps have outputs, want 502", len(out))
	}
	return out
}

// runAndKill starts the child and kills it after a while. It reports whether the child's execution
// ended first.
func runAndKill(t *testing.T, db string, after time.Duration) (ended bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashDB+"="+db)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaints strings.Builder
	cmd.Stderr = &complaints
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if first, err := lines.ReadString('\n'); err != nil || first != "ready\n" {
		t.Fatalf("the child said %q: %v\n%s", first, err, complaints.String())
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	rest, err := io.ReadAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // a killed process has no good exit code
	if complaints.Len() > 0 {
		t.Fatalf("the child complained:\n%s", complaints.String())
	}
	return strings.HasPrefix(string(rest), "ended")
}

func outputsOf(t *testing.T, s interface {
	Steps(context.Context, int64, store.StepFilter) ([]store.Step, error)
}, no int64) map[string]string {
	t.Helper()
	out := map[string]string{}
	from := int32(0)
	for {
		steps, err := s.Steps(t.Context(), no, store.StepFilter{From: from, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range steps {
			out[step.Key] = step.Status.String() + " " + string(step.Output)
			from = step.Idx + 1
		}
		if len(steps) < 1000 {
			return out
		}
	}
}

func onceEach(t *testing.T, s interface {
	Events(context.Context, int64, int64, int) ([]engine.HistoryEvent, error)
}, no int64, want int) {
	t.Helper()
	count := map[string]int{}
	var after int64
	for {
		events, err := s.Events(t.Context(), no, after, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Type == "completed" && e.StepKey != "" {
				count[e.StepKey]++
			}
			after = max(after, e.Version)
		}
		if len(events) < 10_000 {
			break
		}
	}
	for key, n := range count {
		if n != 1 {
			t.Errorf("execution %d: step %s completed %d times", no, key, n)
		}
	}
	if len(count) != want {
		t.Errorf("execution %d: %d steps completed, want %d", no, len(count), want)
	}
}
