package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/dapr"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/spec"
)

// transcriptActions are the actions of the engine's transcripts that need no stream. Each completes at once.
func transcriptActions(r *action.Registry) error {
	done := action.HandlerFunc(func(context.Context, *action.Call) (any, error) { return map[string]any{"x": int64(1)}, nil })
	for _, s := range []spec.Spec{{Name: "util.work"}, {Name: "work"}, {Name: "flaky", Retry: &stepwell.Retry{MaxAttempts: 2, Backoff: time.Second}}, {Name: "extract"}, {Name: "copy", Spawns: []string{"extract"}},
		{Name: "scan", Spawns: []string{"copy", "extract"}}, {Name: "deploy.once", NotIdempotent: true}} {
		s.OpenParams = true
		if err := r.Add(action.Action{Spec: s, Handler: done}); err != nil {
			return err
		}
	}
	return nil
}

// recordedRuns are the transcripts of the engine as inputs of stepwell.run: executions in the middle of what happens to them, by name.
func recordedRuns(t *testing.T, h *hosting) map[string]string {
	t.Helper()
	raw, err := os.ReadFile("../../engine/testdata/recorded/revision2.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	runs, n := map[string]string{}, 0
	for line := range strings.Lines(string(raw)) {
		n++
		var rec struct {
			Doc   string            `json:"doc"`
			Log   []json.RawMessage `json:"log"`
			Blobs map[string]string `json:"blobs"`
			State []string          `json:"state"`
		}
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			t.Fatal(err)
		}
		if len(rec.Blobs) > 0 || strings.Contains(rec.Doc, "\n---\n") || strings.Contains(rec.Doc, "module:") {
			continue // large outputs, sub-pipelines of the test's own, and streams are not had inside Dapr Workflow
		}
		d, problems := definition.Parse([]byte(rec.Doc), definition.ParseOptions{})
		if problems.Err() != nil {
			t.Fatal(problems.Err())
		}
		snapshot, err := definition.Encode(d)
		if err != nil {
			t.Fatal(err)
		}
		c := &carried{prepared: prepared{Definition: snapshot, Revision: engine.Revision}, Log: rec.Log, No: int64(n)}
		// What a workflow has after it has taken the log in is what the engine had when it wrote it.
		f := newHosted(h, "run-1")
		f.resume(c)
		if f.run == nil {
			continue // it uses an action that the test has not
		}
		if got, want := f.run.Status().String(), strings.Fields(rec.State[0])[0]; got != want {
			t.Errorf("transcript %d is %s, not %s\n%s", n, got, want, rec.Doc)
		}
		timers := 0
		for _, line := range rec.State {
			if strings.HasPrefix(line, "timer ") {
				timers++
			}
		}
		if got := len(f.run.Pending()); got != timers {
			t.Errorf("transcript %d has %d timers, not %d", n, got, timers)
		}
		if !f.run.Status().Terminal() && f.run.Status() != stepwell.ExecutionPaused && f.run.Status() != stepwell.ExecutionPending {
			runs[fmt.Sprintf("transcript-%d", n)] = jsonOf(runOrder{Carried: c})
		}
	}
	if n < 120 || len(runs) < 35 {
		t.Fatalf("only %d of %d transcripts continue", len(runs), n)
	}
	return runs
}

func newTranscriptHosting(t testing.TB) *hosting {
	t.Helper()
	h := newRegisteredHosting(t, "", transcriptActions)
	return h
}

// ends are how workflows end in process, of those that do without waiting for long.
func ends(t *testing.T, h *hosting, runs map[string]string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for id, input := range runs {
		s := h.simulate(t, RunWorkflow, id, input).run()
		if s.ended != nil && s.now.Sub(s.began()) < 3*time.Second {
			out[id] = s.end()
		}
	}
	return out
}

// TestTranscripts: executions in the middle of the engine's transcripts go on inside a workflow, and end alike however the sidecar behaves.
func TestTranscripts(t *testing.T) {
	h := newTranscriptHosting(t)
	runs := recordedRuns(t, h)
	want := ends(t, h, runs)
	for mode, set := range modes {
		for id, end := range want {
			s := &simulation{t: t, h: h, instance: id, now: time.Now()}
			set(s)
			s.start(RunWorkflow, runs[id])
			if got := s.run().end(); got != end {
				t.Errorf("%s: %s: %s, not %s", mode, id, got, end)
			}
		}
	}
	t.Logf("%d of %d transcripts continue to their ends", len(want), len(runs))
}

// drawDefinition makes a pipeline of a few steps that depend on each other at random: retries, conditions, loops, rules, failures.
func drawDefinition(t *rapid.T) string {
	one := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	var b strings.Builder
	fmt.Fprintf(&b, "name: random\nsettings: {fail_fast: %s}\nsteps:\n", one("fail_fast", "drain", "cancel", "off"))
	for i := range rapid.IntRange(1, 8).Draw(t, "steps") {
		var deps []string
		for j := range i {
			if rapid.IntRange(0, 2).Draw(t, "edge") == 0 {
				deps = append(deps, fmt.Sprintf("s%d", j))
			}
		}
		fmt.Fprintf(&b, "  - id: s%d\n    depends_on: [%s]\n    trigger_rule: %s\n    on_failure: %s\n", i, strings.Join(deps, ", "), one("rule", "all_success", "all_done", "one_success", "one_failed", "none_failed"), one("on_failure", "fail", "continue"))
		if len(deps) > 0 && rapid.Bool().Draw(t, "condition") {
			fmt.Fprintf(&b, "    condition: \"{{ steps.%s.status == '%s' }}\"\n", deps[0], one("status", "completed", "failed", "skipped"))
		}
		if n := rapid.IntRange(0, 5).Draw(t, "loop"); n > 2 {
			fmt.Fprintf(&b, "    for_each: {items: %d, max_concurrency: %d}\n", n, rapid.IntRange(1, 3).Draw(t, "window"))
		}
		b.WriteString(one("action", "    action: util.work\n", "    action: util.work\n", "    action: util.fail\n    params: {message: no}\n", "    steps:\n      - {id: a, action: util.work}\n      - {id: b, action: util.work, depends_on: [a]}\n"))
	}
	b.WriteString("finally:\n  - {id: last, action: util.work}\noutputs: {last: \"{{ steps.s0.status }}\"}\n")
	return b.String()
}

// TestRandomHosted: random pipelines end alike however the sidecar behaves.
func TestRandomHosted(t *testing.T) {
	h := newTranscriptHosting(t)
	rapid.Check(t, func(rt *rapid.T) {
		input, want := defined(drawDefinition(rt), `{}`), ""
		for _, mode := range []string{"plain", "forgetful", "double", "both"} {
			s := &simulation{t: t, h: h, instance: "random", now: time.Now()}
			modes[mode](s)
			s.start(RunWorkflow, input)
			switch got := s.run().end(); {
			case want == "":
				want = got
			case got != want:
				rt.Fatalf("%s: %s, not %s\n%s", mode, got, want, input)
			}
		}
	})
}

// runTranscripts is the program with the actions of the transcripts, as a process that a test can kill.
func runTranscripts(ctx context.Context) error {
	port, err := strconv.Atoi(os.Getenv("DAPR_HTTP_PORT"))
	if err != nil {
		return err
	}
	h, err := newHosting(hostingOptions{Log: slog.Default(), Workers: 64, Register: transcriptActions})
	if err != nil {
		return err
	}
	w := &worker{turn: h.beside(turn), activity: h.besideActivities(nil), log: slog.Default(), health: &dapr.Settings{Port: port}, alone: true}
	return h.serve(ctx, func(ctx context.Context) error { return w.serve(ctx, "127.0.0.1:"+os.Getenv("DAPR_GRPC_PORT")) })
}

// TestConformance: transcripts and random pipelines end through a real sidecar as they do in process, although the program and the sidecar are
// killed before the last have ended.
func TestConformance(t *testing.T) {
	house := newHostedHouse(t, true)
	house.stepwell.Supervise()
	h := newTranscriptHosting(t)
	runs := recordedRuns(t, h)
	for i := range 30 {
		runs[fmt.Sprintf("random-%d", i)] = defined(rapid.Custom(drawDefinition).Example(i), `{}`)
	}
	want := ends(t, h, runs)
	kill := house.startProgram(transcripts)
	for id := range want {
		house.begin(house.stepwell, RunWorkflow, id, json.RawMessage(runs[id]))
	}
	kill()
	kill = house.startProgram(transcripts)
	house.stepwell.Kill()
	kill()
	house.startProgram(transcripts)
	for id, end := range want {
		status, text, _ := strings.Cut(end, " ")
		if got := house.end(house.stepwell, id, status); got != text {
			t.Errorf("%s: %s, not %s", id, got, text)
		}
	}
	t.Logf("%d of %d end alike", len(want), len(runs))
}
