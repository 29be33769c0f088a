package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/redistest"
)

// TestRedisFailover kills the Redis server with the lists of steps while a worker takes from them: a Sentinel has its replica take over,
// which may lack the last messages; every step completes once, and the lists of the replica are used.
func TestRedisFailover(t *testing.T) {
	t.Parallel()
	master := redistest.New(t)
	host, port, err := net.SplitHostPort(master.Address())
	if err != nil {
		t.Fatal(err)
	}
	replica := redistest.New(t, "--replicaof", host, port)
	lists := "redis://" + redistest.Sentinel(t, "steps", master) + "/0?master_set=steps"
	dir := t.TempDir()
	r := serveRedisIn(t, master, dir, "log: {level: warn}\n", "--workers", "0", "--queue", lists)
	r.program("worker", "--server", r.url, "--redis", lists, "--name", "w1", "--concurrency", "8")

	ran, killed := filepath.Join(dir, "ran"), filepath.Join(dir, "killed") // most steps are left until the server is killed
	id := r.execute("many", fmt.Sprintf(`
steps:
  - {id: each, for_each: 200, action: util.exec, params: {command: [sh, -c, "echo . >>%[1]s; while [ $(wc -l <%[1]s) -gt 100 ] && ! [ -e %[2]s ]; do sleep 0.02; done; sleep 0.05"]}}
  - {id: after, depends_on: [each], action: util.set_output, params: {n: "{{ steps.each.outputs.completed }}"}}
outputs: {n: "{{ steps.after.outputs.n }}"}
`, ran, killed))
	begun := func() int {
		raw, err := os.ReadFile(ran)
		if err != nil {
			return 0
		}
		return len(raw) / 2
	}
	for end := time.Now().Add(time.Minute); begun() < 40; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the steps do not begin")
		}
	}
	if err := master.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(killed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if status := r.status(id); status != "completed" {
		t.Errorf("the execution is %s", status)
	}
	completed := map[string]int{}
	for page := (api.ListHistory{ExecutionPath: api.ExecutionPath{ID: id}, Limit: 1000}); len(completed) == 0 || page.Cursor != ""; {
		history, err := r.client.History(t.Context(), page)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range history.Events {
			if e.Type == "completed" && e.Step != "" {
				completed[e.Step]++
			}
		}
		page.Cursor = history.Next
	}
	for step, n := range completed {
		if n != 1 {
			t.Errorf("%s completed %d times", step, n)
		}
	}
	if len(completed) != 202 { // the iterations, their step and the one after it
		t.Errorf("%d steps completed", len(completed))
	}
	if role, err := redistest.Do(replica.Address(), "ROLE"); err != nil || !strings.HasPrefix(role, "master") {
		t.Errorf("the replica is %s: %v", role, err)
	}
	// The steps of further executions go over the lists of the server that took over.
	if status := r.status(r.execute("more", "steps:\n  - {id: each, action: util.wait, for_each: 20, params: {seconds: 0}}\n")); status != "completed" {
		t.Errorf("the execution after it is %s", status)
	}
	info, err := redistest.Do(replica.Address(), "INFO", "commandstats")
	if err != nil || !strings.Contains(info, "cmdstat_blmpop") {
		t.Errorf("no worker took from the lists of the replica: %v\n%s", err, info)
	}
}
