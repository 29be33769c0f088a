//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
)

// upgraded is a pipeline of 12 rows: a loop, a condition, outputs that are read, and a step that fails in every third execution.
const upgraded = `name: upgraded
parameters: [{name: n, type: integer}]
settings: {max_parallel_steps: 4}
steps:
  - {id: list, action: util.set_output, params: {outputs: {items: [1, 2, 3], size: "{{ params.n * 2 }}"}}}
  - {id: each, action: util.set_output, depends_on: [list], for_each: {items: "{{ steps.list.outputs.items }}", max_concurrency: 2}, params: {outputs: {item: "{{ item }}"}}}
  - {id: flaky, action: util.fail, depends_on: [list], condition: "{{ params.n % 3 == 0 }}", on_failure: continue, retry: {max_attempts: 2, backoff_seconds: 0.01}, params: {message: not yet}}
  - {id: odd, action: util.set_output, depends_on: [each], condition: "{{ params.n % 2 == 1 }}", params: {outputs: {size: "{{ steps.list.outputs.size }}"}}}
  - {id: join, action: util.set_output, depends_on: [each, odd], trigger_rule: none_failed, params: {outputs: {size: "{{ steps.list.outputs.size }}", of: "{{ steps.each.outputs.completed }}"}}}
  - {id: left, action: util.set_output, depends_on: [join], params: {outputs: {from: "{{ steps.join.outputs.size }}"}}}
  - {id: right, action: util.set_output, depends_on: [join], params: {outputs: {from: "{{ steps.join.outputs.size }}"}}}
finally: [{id: tell, action: util.set_output, params: {outputs: {status: "{{ execution.status }}"}}}]
outputs: {size: "{{ steps.join.outputs.size }}"}
`

// TestUpgradeOfMany runs doctor --upgrade over recorded executions; STEPWELL_TEST_UPGRADE says how many, and STEPWELL_TEST_UPGRADE_DB
// where they stay for another time.
func TestUpgradeOfMany(t *testing.T) {
	n, path := 300, filepath.Join(t.TempDir(), "many.db")
	if given := os.Getenv("STEPWELL_TEST_UPGRADE"); given != "" {
		var err error
		if n, err = strconv.Atoi(given); err != nil {
			t.Fatal(err)
		}
	} else {
		t.Parallel()
	}
	if kept := os.Getenv("STEPWELL_TEST_UPGRADE_DB"); kept != "" {
		path = kept
	}
	if _, err := os.Stat(path); err != nil {
		began := time.Now()
		recordMany(t, path, n)
		t.Logf("%d executions were run in %s", n, time.Since(began))
	}
	c := exec.Command("stepwell", "doctor", "--upgrade", "--db", "sqlite:"+path, "-o", "json")
	c.Dir, c.Stderr = t.TempDir(), os.Stderr
	for _, pair := range os.Environ() { // the program would say that it does not know them
		if !strings.HasPrefix(pair, "STEPWELL_TEST_") {
			c.Env = append(c.Env, pair)
		}
	}
	var out bytes.Buffer
	c.Stdout = &out
	began := time.Now()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	highest := peakWhile(c.Process.Pid)
	err := c.Wait()
	took, peak, raw := time.Since(began), highest(), out.Bytes()
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	var got struct{ Executions, Alike, Held int }
	if err := json.Unmarshal(raw, &got); err != nil || got.Executions != n || got.Alike != n || got.Held != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d executions, %d MB: %.1f s, %.1f s of processor time, peak %d MB", n, info.Size()>>20, took.Seconds(),
		(c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds(), peak>>20)
	if most := int64(256 << 20); peak <= 0 || peak > most {
		t.Errorf("%d MB of memory, at most %d are meant", peak>>20, most>>20)
	}
}

// peakWhile watches a program: what it returns is the most memory it has used, in bytes, once it has been waited for. The kernel tells it
// while the program is there; what it tells of an ended one is no less than the memory of this process, which has started it.
func peakWhile(pid int) func() int64 {
	over, peak := make(chan struct{}), make(chan int64, 1)
	go func() {
		var most int64
		for tick := time.NewTicker(2 * time.Millisecond); ; {
			if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil && bytes.Contains(raw, []byte("\nVmHWM:")) { // none: it begins or ends
				_, rest, _ := strings.Cut(string(raw), "\nVmHWM:")
				kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
				most = max(most, kib<<10)
			}
			select {
			case <-tick.C:
			case <-over:
				peak <- most
				return
			}
		}
	}()
	return func() int64 {
		close(over)
		return <-peak
	}
}

// recordMany runs executions, sixteen at once.
func recordMany(t *testing.T, path string, n int) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a, err := app.New(t.Context(), app.Options{DB: "sqlite:" + path, Synchronous: "normal", Log: slog.New(slog.DiscardHandler)})
	must(err)
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- a.Run(ctx) }()
	defer func() {
		stop()
		if err := errors.Join(<-ran, a.Close()); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	d, problems := definition.Parse([]byte(upgraded), definition.ParseOptions{File: "upgraded.yaml"})
	problems = append(problems, definition.Check(d, a.Actions, "upgraded.yaml")...)
	must(problems.Err())
	p, err := a.Conductor.Register(ctx, definition.Expand(d, a.Actions))
	must(err)
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error {
			id, err := a.Conductor.Start(within, conductor.Request{Pipeline: p, Params: map[string]any{"n": int64(i)}})
			if err == nil {
				_, err = a.Conductor.Wait(within, id)
			}
			return err
		})
	}
	must(group.Wait())
}
