//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// limits are a pipeline, the flags that it was recorded with, and others of it with which it is to take another time.
type limits struct {
	name, document string
	changes        []otherLimit
}

// otherLimit replaces texts of a document in turn, and has flags of its own.
type otherLimit struct {
	name  string
	edits []string // old, new, old, new
	flags []string // of the run
}

// nap is the command of a step that does nothing for a while.
func nap(seconds float64) string { return fmt.Sprintf(`"sleep %.2f"`, seconds) }

func limited() []limits {
	fan := "name: fan\nsettings: {max_parallel_steps: 4}\nsteps:\n"
	for i := range 8 {
		fan += fmt.Sprintf("  - {id: s%d, action: util.exec, params: {command: %s}}\n", i, nap(0.3+0.1*float64(i%4)))
	}
	return []limits{
		{"many steps", fan, []otherLimit{
			{"max_parallel_steps: 2", []string{"max_parallel_steps: 4", "max_parallel_steps: 2"}, nil},
			{"max_parallel_steps: 3", []string{"max_parallel_steps: 4", "max_parallel_steps: 3"}, nil},
			{"max_parallel_steps: 8", []string{"max_parallel_steps: 4", "max_parallel_steps: 8"}, nil},
			{"--workers 2", []string{"max_parallel_steps: 4", "max_parallel_steps: 8"}, []string{"--workers", "2"}},
		}},
		{"a loop", "name: loop\nsteps:\n  - {id: each, action: util.exec, for_each: {items: [3, 5, 4, 2, 6, 3, 4, 5], max_concurrency: 2}, params: {command: \"sleep 0.{{ item }}\"}}\n" +
			"  - {id: after, action: util.exec, depends_on: [each], params: {command: \"sleep 0.2\"}}\n", []otherLimit{
			{"max_concurrency: 1", []string{"max_concurrency: 2", "max_concurrency: 1"}, nil},
			{"max_concurrency: 3", []string{"max_concurrency: 2", "max_concurrency: 3"}, nil},
			{"max_concurrency: 5", []string{"max_concurrency: 2", "max_concurrency: 5"}, nil},
			{"no max_concurrency", []string{", max_concurrency: 2", ""}, nil},
		}},
		{"retries", "name: retries\nsteps:\n" +
			"  - {id: try, action: util.exec, retry: {max_attempts: 4, backoff_seconds: 0.4, backoff_multiplier: 2, jitter: 0}, params: {command: \"sleep 0.25; test $STEPWELL_ATTEMPT -ge 4\"}}\n" +
			"  - {id: after, action: util.exec, depends_on: [try], params: {command: \"sleep 0.3\"}}\n", []otherLimit{
			{"backoff_seconds: 0.1", []string{"backoff_seconds: 0.4", "backoff_seconds: 0.1"}, nil},
			{"backoff_seconds: 0.8, multiplier 1", []string{"backoff_seconds: 0.4, backoff_multiplier: 2", "backoff_seconds: 0.8, backoff_multiplier: 1"}, nil},
			{"max_backoff_seconds: 0.5", []string{"jitter: 0", "jitter: 0, max_backoff_seconds: 0.5"}, nil},
			{"max_attempts: 2", []string{"max_attempts: 4", "max_attempts: 2"}, nil},
		}},
		{"timeouts", "name: timeouts\nsteps:\n" +
			"  - {id: long, action: util.exec, on_failure: continue, timeout_seconds: 10, retry: {max_attempts: 1}, params: {command: \"sleep 2\"}}\n" +
			"  - {id: middle, action: util.exec, on_failure: continue, timeout_seconds: 10, retry: {max_attempts: 1}, params: {command: \"sleep 1.2\"}}\n" +
			"  - {id: after, action: util.exec, depends_on: [long, middle], trigger_rule: all_done, params: {command: \"sleep 0.4\"}}\n", []otherLimit{
			{"long: timeout_seconds: 1.5", []string{"timeout_seconds: 10", "timeout_seconds: 1.5"}, nil},
			{"long: timeout_seconds: 0.5", []string{"timeout_seconds: 10", "timeout_seconds: 0.5"}, nil},
			{"both: timeout_seconds: 0.7", []string{"timeout_seconds: 10", "timeout_seconds: 0.7", "timeout_seconds: 10", "timeout_seconds: 0.7"}, nil},
			{"settings: {timeout_seconds: 1}", []string{"steps:\n", "settings: {timeout_seconds: 1}\nsteps:\n"}, nil},
		}},
		{"groups in a loop", "name: groups\nsettings: {max_parallel_steps: 6}\nsteps:\n" +
			"  - id: each\n    for_each: {items: [2, 3, 4, 2, 3], max_concurrency: 2}\n    steps:\n" +
			"      - {id: read, action: util.exec, params: {command: \"sleep 0.{{ item }}\"}}\n" +
			"      - {id: left, action: util.exec, depends_on: [read], params: {command: \"sleep 0.3\"}}\n" +
			"      - {id: right, action: util.exec, depends_on: [read], params: {command: \"sleep 0.2\"}}\n" +
			"  - {id: beside, action: util.exec, params: {command: \"sleep 0.8\"}}\n", []otherLimit{
			{"max_concurrency: 1", []string{"max_concurrency: 2", "max_concurrency: 1"}, nil},
			{"max_concurrency: 4", []string{"max_concurrency: 2", "max_concurrency: 4"}, nil},
			{"max_parallel_steps: 2", []string{"max_parallel_steps: 6", "max_parallel_steps: 2"}, nil},
			{"sequential: true", []string{"max_parallel_steps: 6", "max_parallel_steps: 6, sequential: true"}, nil},
		}},
	}
}

// Durations are predicted as they are then measured: twenty changed limits of five pipelines, each of which is run for real.
func TestPredictedDurations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, strings.NewReplacer(" ", "-", ":", "", "{", "", "}", "", ",", "").Replace(name)+".yaml")
		must(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	command := func(ctx context.Context, args ...string) ([]byte, error) {
		c := exec.CommandContext(ctx, "stepwell", args...)
		c.Dir = dir
		return c.CombinedOutput()
	}
	type row struct {
		pipeline, change         string
		was, predicted, measured time.Duration
		off                      float64
	}
	var rows []*row
	runs, ctx := errgroup.WithContext(t.Context())
	runs.SetLimit(6) // each waits for its sleeping steps
	measure := func(data, file string, flags ...string) func() error {
		return func() error {
			if out, err := command(ctx, append([]string{"run", file, "--data", data}, flags...)...); ctx.Err() != nil || err != nil && !strings.Contains(string(out), "failed") && !strings.Contains(string(out), "timed") {
				return fmt.Errorf("%s: %w: %s", file, err, out)
			}
			return nil
		}
	}
	all := limited()
	for i := range all {
		l := &all[i]
		runs.Go(measure(filepath.Join(dir, fmt.Sprint("was-", i)), write(l.name, l.document)))
		for j := range l.changes {
			c := &l.changes[j]
			text := l.document
			for k := 0; k < len(c.edits); k += 2 {
				if !strings.Contains(text, c.edits[k]) {
					t.Fatalf("%s: nothing to replace: %s", c.name, c.edits[k])
				}
				text = strings.Replace(text, c.edits[k], c.edits[k+1], 1)
			}
			runs.Go(measure(filepath.Join(dir, fmt.Sprint("is-", i, "-", j)), write(fmt.Sprint("is-", i, "-", j), text), c.flags...))
			rows = append(rows, &row{pipeline: l.name, change: c.name})
		}
	}
	must(t, runs.Wait())
	var off []float64
	n := 0
	for i := range all {
		for j := range all[i].changes {
			r := rows[n]
			n++
			flags := append([]string{"executions", "replay", "last", "--data", filepath.Join(dir, fmt.Sprint("was-", i)), "--with", fmt.Sprint("is-", i, "-", j, ".yaml"), "-o", "json"}, all[i].changes[j].flags...)
			out, err := command(t.Context(), flags...)
			var told struct {
				Was, Is struct {
					Duration time.Duration `json:"duration_ns"`
				}
			}
			if err != nil || json.Unmarshal(out, &told) != nil {
				t.Fatalf("%s, %s: %v: %s", r.pipeline, r.change, err, out)
			}
			out, err = command(t.Context(), "executions", "list", "--data", filepath.Join(dir, fmt.Sprint("is-", i, "-", j)), "-o", "json")
			var list []struct {
				Duration int64 `json:"duration_ms"`
			}
			if err != nil || json.Unmarshal(out, &list) != nil || len(list) != 1 {
				t.Fatalf("%v: %s", err, out)
			}
			r.was, r.predicted, r.measured = told.Was.Duration, told.Is.Duration, time.Duration(list[0].Duration)*time.Millisecond
			r.off = max(float64(r.predicted-r.measured), float64(r.measured-r.predicted)) / float64(r.measured)
			off = append(off, r.off)
			t.Logf("%-18s %-36s was %6.3f s, predicted %6.3f s, measured %6.3f s, off by %4.1f %%", r.pipeline, r.change, r.was.Seconds(), r.predicted.Seconds(), r.measured.Seconds(), 100*r.off)
		}
	}
	slices.Sort(off)
	p50 := (off[len(off)/2-1] + off[len(off)/2]) / 2
	t.Logf("p50 %.1f %%, worst %.1f %%", 100*p50, 100*off[len(off)-1])
	if p50 > 0.10 {
		t.Errorf("predicted durations are off by %.1f %% (p50)", 100*p50)
	}
}
