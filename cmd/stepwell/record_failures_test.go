package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// steps are the ends of attempts that `run -o json` tells, in order.
func (r *recorderRig) steps(code int, args ...string) (ends []string, told string) {
	r.t.Helper()
	c := exec.Command("stepwell", append(args, "-o", "json")...)
	var errs bytes.Buffer
	c.Dir, c.Env, c.Stderr = r.dir, append(os.Environ(), r.env...), &errs
	out, err := c.Output()
	if err != nil && c.ProcessState == nil {
		r.t.Fatal(err)
	}
	if got := c.ProcessState.ExitCode(); got != code {
		r.t.Fatalf("%v: exit code %d, want %d\n%s%s", args, got, code, out, errs.String())
	}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		var e struct {
			Type, Status, Message string
			Step                  string `json:"step_id"`
			Attempt               int
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			r.t.Fatalf("%v: %s", err, line)
		}
		if e.Type == "step" && e.Status != "started" {
			ends = append(ends, fmt.Sprintf("%s %d %s: %s", e.Step, e.Attempt, e.Status, e.Message))
		}
	}
	slices.Sort(ends)
	return ends, errs.String()
}

// TestRecordedFailures: requests without an answer, answers that break off, and commands that are stopped at the step's timeout fail
// again in a replay as they did, attempt by attempt, in runs and in tests.
func TestRecordedFailures(t *testing.T) {
	t.Parallel()
	refused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := refused.Addr().String()
	refused.Close()
	hangs := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/reset":
			panic(http.ErrAbortHandler)
		case "/broken":
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "half of it")
		default:
			select {
			case <-hangs:
			case <-req.Context().Done():
			}
		}
	}))
	defer server.Close()
	defer close(hangs)
	r := newRecorderRig(t)
	r.write("stepwell.yaml", "http: {allow_private: true}\n")
	r.write("fails.yaml", fmt.Sprintf(`name: fails
settings: {fail_fast: false}
steps:
  - {id: refused, action: util.http, on_failure: continue, retry: {max_attempts: 2, backoff_seconds: 0}, params: {url: "http://%s/x"}}
  - {id: reset, action: util.http, on_failure: continue, retry: {max_attempts: 1}, params: {url: "%[2]s/reset"}}
  - {id: broken, action: util.http, on_failure: continue, retry: {max_attempts: 1}, params: {url: "%[2]s/broken"}}
  - {id: slow, action: util.http, on_failure: continue, retry: {max_attempts: 1}, params: {url: "%[2]s/slow", timeouts: {first_byte: 1}}}
  - {id: late, action: util.exec, on_failure: continue, timeout_seconds: 1, retry: {max_attempts: 1}, params: {command: "sleep 60", grace_seconds: 1}}
  - {id: second, action: util.exec, on_failure: continue, timeout_seconds: 2, retry: {max_attempts: 2, backoff_seconds: 0}, params: {command: "if [ -e there ]; then echo fine; else touch there; sleep 60; fi", grace_seconds: 1}}
`, nobody, server.URL))
	want, _ := r.steps(3, "run", "fails.yaml", "--no-db", "--record-http", "rec")
	for _, part := range []string{"refused 2 failed: http://" + nobody + "/x: dial tcp", "reset 1 failed: ", "broken 1 failed: ", "slow 1 timed_out: no response within 1s", "late 1 timed_out: not ended within 1s", "second 1 ", "second 2 completed"} {
		if !slices.ContainsFunc(want, func(end string) bool { return strings.HasPrefix(end, part) }) {
			t.Errorf("recorded was not what is looked for, %q:\n%s", part, strings.Join(want, "\n"))
		}
	}
	server.CloseClientConnections()
	if got, _ := r.steps(3, "run", "fails.yaml", "--no-db", "--replay-http", "rec"); !slices.Equal(got, want) {
		t.Errorf("the replay ends in\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	r.write("fails.test.yaml", `real: [refused, reset, broken, slow, late, second]
tests:
  - name: as recorded
    expect:
      status: completed_with_failures
      steps:
        refused: {status: failed, attempts: 2}
        broken: failed
        late: {status: timed_out, error: {$match: not ended within 1s}}
        second: {status: completed, attempts: 2}
`)
	r.must(0, "test", "fails.test.yaml", "--replay-http", "rec", "--check", "1d")
}

// TestRecordingsOfPipelines: each pipeline has its own recordings in a folder; a new run replaces only those, and says so. Recordings from
// before, without a pipeline, still play.
func TestRecordingsOfPipelines(t *testing.T) {
	t.Parallel()
	r := newRecorderRig(t)
	for _, name := range []string{"one", "two words"} {
		file := strings.Fields(name)[0] + ".yaml"
		r.write(file, "name: "+name+"\nsteps: [{id: c, action: util.exec, params: {command: 'date +%N; cat number'}}]\n")
		r.write("number", name)
		if _, told := r.steps(0, "run", file, "--no-db", "--record-http", "rec"); !strings.Contains(told, "recorded 1 requests and commands in rec/") || strings.Contains(told, "in place of") {
			t.Errorf("it says %s", told)
		}
	}
	if paths := r.paths("rec"); len(paths) != 2 {
		t.Fatalf("recorded are %v", paths)
	}
	r.write("number", "nothing of this")
	for _, name := range []string{"one", "two words"} {
		file := strings.Fields(name)[0]
		r.must(0, "run", file+".yaml", "--no-db", "--replay-http", "rec")
		r.write(file+".test.yaml", "real: [c]\ntests: [{name: recorded, expect: {steps: {c: {outputs: {stdout: {$match: "+name+"$}}}}}}]\n")
	}
	r.must(0, "test", "one.test.yaml", "two.test.yaml", "--replay-http", "rec")
	if _, told := r.steps(0, "run", "one.yaml", "--no-db", "--record-http", "rec"); !strings.Contains(told, "in rec/one, in place of the 1 that were there") {
		t.Errorf("it says %s", told)
	}
	r.must(0, "test", "two.test.yaml", "--replay-http", "rec")
	// A pipeline without recordings of its own is told where there are some.
	r.write("third.yaml", "name: third\nsteps: [{id: c, action: util.exec, params: {command: 'date +%N; cat number'}}]\n")
	if out := r.must(1, "run", "third.yaml", "--no-db", "--replay-http", "rec"); !strings.Contains(out, "no recording of the command") {
		t.Errorf("it says %s", out)
	}
	// Those of before.
	for _, path := range r.paths("rec/one") {
		if err := os.Rename(filepath.Join(r.dir, path), filepath.Join(r.dir, "rec", filepath.Base(path))); err != nil {
			t.Fatal(err)
		}
	}
	r.must(0, "run", "third.yaml", "--no-db", "--replay-http", "rec")
	if _, told := r.steps(0, "run", "third.yaml", "--no-db", "--record-http", "rec"); !strings.Contains(told, "1 recordings in rec itself name no pipeline") {
		t.Errorf("it says %s", told)
	}
}
