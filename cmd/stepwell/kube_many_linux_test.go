package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell/action/kube/kubetest"
	"github.com/stepwell/stepwell/api"
)

// TestManyJobs has as many jobs run at once as STEPWELL_KUBE_JOBS says, from eight workers, and prints what docs/performance.md says
// of 1,000: the memory of the server, its requests while nothing happens, and by how much its steps end behind their jobs.
func TestManyJobs(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("STEPWELL_KUBE_JOBS"))
	if err != nil {
		t.Skip("a measurement: STEPWELL_KUBE_JOBS=1000")
	}
	r := newKubeRig(t)
	r.flags = []string{"--workers", "8"}
	r.start()
	before := r.memory()
	fifo := filepath.Join(r.dir, "gate")
	must(t, syscall.Mkfifo(fifo, 0o600))
	document := fmt.Sprintf("name: many\nsteps:\n  - {id: work, action: external.k8s.job, params: {image: any, command: [sh, -c, %q]}}\n", "echo begun; read x < "+fifo+"; echo ended")
	must(t, r.client.Call(t.Context(), "POST", "/api/v1/pipelines", nil, object{"document": document}, nil))

	begun := time.Now()
	ids := make([]string, n)
	var g errgroup.Group
	g.SetLimit(16)
	for i := range ids {
		g.Go(func() error {
			x, err := r.client.Execute(t.Context(), api.ExecuteRequest{Workflow: "many"}, "")
			if err == nil {
				ids[i] = x.ID
			}
			return err
		})
	}
	must(t, g.Wait())
	r.eventually("all pods", func() bool {
		running := 0
		for _, p := range r.cluster.Items(t, "/api/v1/namespaces/"+r.namespace+"/pods") {
			if p.Text("status", "phase") == "Running" {
				running++
			}
		}
		return running == n
	})
	t.Logf("%d jobs run after %.1f s", n, time.Since(begun).Seconds())
	time.Sleep(15 * time.Second) // streams of logs are opened
	asked := r.requests()
	const idle = 30 * time.Second
	time.Sleep(idle)
	now := r.requests()
	t.Logf("while nothing happens: %.1f requests/s", float64(now-asked)/idle.Seconds())
	t.Logf("memory of the server: %d MB, at first %d MB", r.memory()>>20, before>>20)

	ended := make(chan map[string]time.Time)
	go func() { ended <- r.jobsEnded(n) }()
	begun, busy := time.Now(), r.busy()
	gate, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	must(t, err)
	must(t, gate.Close())
	jobs := <-ended
	t.Logf("the cluster has ended them after %.1f s", time.Since(begun).Seconds())
	var behind []time.Duration
	r.eventually("the last end", func() bool { return r.count("running") == 0 })
	for _, id := range ids {
		x, err := r.client.Execution(t.Context(), id)
		must(t, err)
		if x.Status != "completed" {
			t.Fatalf("%s is %s", id, x.Status)
		}
		behind = append(behind, x.Completed.Time.Sub(jobs[id]))
	}
	t.Logf("CPU time of the server for that: %v", r.busy()-busy)
	slices.Sort(behind)
	t.Logf("steps end behind their jobs: median %v, 99 of 100 within %v, the last %v", behind[n/2], behind[n*99/100], behind[n-1])
	t.Logf("memory of the server at the end: %d MB", r.memory()>>20)
	if len(r.jobs()) != n {
		t.Errorf("%d jobs", len(r.jobs()))
	}
}

// eventually is until, for longer.
func (r *kubeRig) eventually(what string, there func() bool) {
	r.t.Helper()
	for begun := time.Now(); !there(); time.Sleep(time.Second) {
		if time.Since(begun) > 10*time.Minute {
			r.t.Fatalf("%s did not come", what)
		}
	}
}

func (r *kubeRig) requests() (all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.seen {
		all += n
	}
	return all
}

// memory is what the server has resident.
func (r *kubeRig) memory() int64 {
	r.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", r.process.Process.Pid))
	must(r.t, err)
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	must(r.t, err)
	return pages * int64(os.Getpagesize())
}

// busy is the CPU time that the server has used.
func (r *kubeRig) busy() time.Duration {
	r.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.process.Process.Pid))
	must(r.t, err)
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')'):]))
	user, err := strconv.Atoi(fields[12])
	must(r.t, err)
	system, err := strconv.Atoi(fields[13])
	must(r.t, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// jobsEnded watches the namespace's jobs until all have ended, and returns when it has heard of each, by execution.
func (r *kubeRig) jobsEnded(n int) map[string]time.Time {
	all := map[string]time.Time{}
	stream, err := r.cluster.Open(r.t.Context(), "/apis/batch/v1/namespaces/"+r.namespace+"/jobs?watch=true")
	if err != nil {
		r.t.Error(err)
		return all
	}
	defer stream.Close()
	for lines := json.NewDecoder(stream); len(all) < n; {
		var event struct{ Object kubetest.Object }
		if err := lines.Decode(&event); err != nil {
			r.t.Error(err)
			return all
		}
		id := event.Object.Text("metadata", "labels", "stepwell.io/execution")
		if event.Object.Text("status", "completionTime") != "" && all[id].IsZero() {
			all[id] = time.Now()
		}
	}
	return all
}
