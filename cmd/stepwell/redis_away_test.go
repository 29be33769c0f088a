package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestRedisAway: a step waits in a list, and `why` says in which; a worker that begins while Redis is away says so once, and again when it
// is there, and runs the step.
func TestRedisAway(t *testing.T) {
	r := newRedisRig(t, "", "--workers", "0")
	id := r.execute("idle", "steps:\n  - {id: a, action: util.set_output, params: {v: 1}}\n")
	why := func() string {
		out, err := exec.Command("stepwell", "executions", "why", id, "--step", "a", "--server", r.url).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	for end := time.Now().Add(time.Minute); !strings.Contains(why(), "waits in the Redis list pipeline:steps: no worker has taken it"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it says %s", why())
		}
	}
	if err := r.redis.Kill(); err != nil {
		t.Fatal(err)
	}
	w := exec.Command("stepwell", "worker", "--server", r.url, "--redis", "redis://"+r.redis.Address(), "--name", "w1")
	w.Env = os.Environ()
	log, err := w.StderrPipe()
	if err == nil {
		err = w.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { _ = w.Process.Kill() })
	defer late.Stop()
	lines, away := bufio.NewScanner(log), 0
	for lines.Scan() && !strings.Contains(lines.Text(), "the Redis lists of steps are available") {
		if strings.Contains(lines.Text(), "the Redis lists of steps are unavailable: this worker waits") {
			if away++; away == 1 {
				if err := r.redis.Begin(); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if away != 1 {
		t.Errorf("it said %d times that Redis is unavailable", away)
	}
	if got := r.status(id); got != "completed" {
		t.Errorf("the execution is %s", got)
	}
	_ = w.Process.Kill()
	for lines.Scan() {
	}
	_ = w.Wait() // it was killed
}
