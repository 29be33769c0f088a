//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// fanPipeline has ten steps, each of which writes down when it begins and when it ends.
const fanPipeline = `name: fan
parameters: [{name: file, type: string}]
steps:
  - id: each
    action: util.exec
    for_each: 10
    params: {command: 'echo + >> {{ params.file }}; sleep 0.1; echo - >> {{ params.file }}'}
`

// TestWorkerOfAllServers has three servers that only conduct, and one worker that knows the address of one of them: it runs the steps
// of all, never more at once than it may, also when one is killed and another one comes.
func TestWorkerOfAllServers(t *testing.T) {
	t.Parallel()
	r := newServers(t, postgrestest.URL(t), 3, "0", "")
	if err := r.nodes[0].client.Call(t.Context(), "POST", "/api/v1/pipelines", nil, api.Object{"document": fanPipeline}, nil); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "count")
	started := 0
	start := func(n *fleetNode) {
		t.Helper()
		n.until("an execution", func() bool {
			_, err := n.client.Execute(t.Context(), api.ExecuteRequest{Workflow: "fan", Params: api.Object{"file": file}}, "")
			return err == nil
		})
		started++
	}
	for range 2 {
		for _, n := range r.nodes {
			start(n)
		}
	}
	w := exec.Command("stepwell", "worker", "--server", "http://"+r.nodes[0].address, "--name", "w", "--concurrency", "3")
	var out bytes.Buffer
	w.Stderr = &out
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.Process.Kill()
		if _ = w.Wait(); t.Failed() { // it was killed
			t.Log(out.String())
		}
	})
	ended := func(more int) func() bool {
		return func() bool { return r.count(`SELECT count(*) FROM execution_past WHERE status = 4`) >= more }
	}
	for _, n := range r.nodes {
		n.until("the worker", func() bool {
			list, err := n.client.Workers(t.Context())
			return err == nil && slices.ContainsFunc(list.Workers, func(w api.Worker) bool { return w.Name == "w" })
		})
	}
	r.nodes[0].until("the end of the first execution", ended(1))
	r.nodes[0].kill() // the only one that the worker was told of
	fourth := r.add(r.url)
	start(fourth)
	start(r.nodes[1])
	fourth.until("the end of all executions", ended(started))

	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	running, most := 0, 0
	for _, line := range strings.Fields(string(raw)) {
		if line == "+" {
			running++
		} else {
			running--
		}
		most = max(most, running)
	}
	if most != 3 || running != 0 {
		t.Errorf("%d steps ran at once, want 3; %d have not ended", most, running)
	}
	if n := strings.Count(string(raw), "+"); n != 10*started {
		t.Errorf("%d steps began, want %d", n, 10*started)
	}
}

// outsidePipeline has one step that waits for work outside.
const outsidePipeline = `name: outside
parameters: [{name: job, type: string}]
steps: [{id: render, action: h.outside, params: {job: "{{ params.job }}"}}]
`

// TestCancelForDeadServer has work outside stopped by a worker of another server: the one that was to have it stopped is killed while no
// worker is there.
func TestCancelForDeadServer(t *testing.T) {
	t.Parallel()
	r := newServers(t, postgrestest.URL(t), 1, "0", "")
	first := r.nodes[0]
	dir := t.TempDir()
	hands := func(n *fleetNode) *exec.Cmd {
		w := exec.Command("hands", "http://"+n.address, "stream")
		w.Dir = dir
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = w.Process.Kill()
			_ = w.Wait() // it was killed
		})
		return w
	}
	w := hands(first)
	first.until("the actions", func() bool {
		return first.client.Call(t.Context(), "POST", "/api/v1/pipelines", nil, api.Object{"document": outsidePipeline}, nil) == nil
	})
	x, err := first.client.Execute(t.Context(), api.ExecuteRequest{Workflow: "outside", Params: api.Object{"job": "nine"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	first.until("the wait", func() bool {
		detail, err := first.client.Execution(t.Context(), x.ID)
		return err == nil && len(detail.Steps) == 1 && detail.Steps[0].Status == "waiting"
	})
	second := r.add(r.url) // the first one has the roles
	if err := w.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := first.client.Cancel(t.Context(), x.ID, ""); err != nil {
		t.Fatal(err)
	}
	first.until("the row", func() bool { return r.count(`SELECT count(*) FROM outside_work`) == 1 })
	first.kill()
	r.exec(`UPDATE outside_work SET since = since - 3600000000, next = next - 3600000000`) // as after an hour
	hands(second)
	second.until("Cancel", func() bool { return r.count(`SELECT count(*) FROM outside_work`) == 0 })
	raw, err := os.ReadFile(filepath.Join(dir, "stopped-nine"))
	if err != nil || string(raw) != "render attempt 1\n" {
		t.Errorf("Cancel has written %q (%v), want one line", raw, err)
	}
}
